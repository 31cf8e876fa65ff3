#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/json.h"
#include "trainwright/question/question.h"

namespace trainwright {
namespace {

template <class T>
Result<const T*> part(std::optional<Result<T>>& read, const auto& load) {
  if (!read) read = load();
  if (!*read) return tl::unexpected<Error>(read->error());
  return &**read;
}

// FNV-1a, 64 bits.
void add(std::uint64_t& hash, std::string_view text) {
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
}

std::string hash_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code none;
  for (fs::recursive_directory_iterator at(path, none), end; at != end; at.increment(none)) {
    if (at->path().filename() == "judges") at.disable_recursion_pending();  // no number is of them
    if (at->is_regular_file(none)) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const fs::path& file : files) {
    add(hash, file.lexically_relative(path).generic_string());
    add(hash, read_file(file.string()).value_or(""));
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::string DataDirectory::hash() const {
  if (!hash_) hash_ = hash_of(path_);
  return *hash_;
}

Result<const Hardware*> DataDirectory::hardware() const {
  return part(hardware_, [&] { return load_hardware(path_); });
}

Result<const std::vector<Trainer>*> DataDirectory::trainers() const {
  return part(trainers_, [&] { return load_trainers(path_); });
}

Result<Trainer> DataDirectory::trainer(std::string_view words) const {
  return trainer_named(words, *TW_TRY(trainers()));
}

}  // namespace trainwright
