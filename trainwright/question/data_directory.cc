#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/hash.h"
#include "trainwright/base/json.h"
#include "trainwright/question/question.h"
#include "trainwright/trainer/called.h"

namespace trainwright {
namespace {

template <class T>
Result<const T*> part(std::optional<Result<T>>& read, const auto& load) {
  if (!read) read = load();
  if (!*read) return tl::unexpected<Error>(read->error());
  return &**read;
}

std::string hash_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code none;
  for (fs::recursive_directory_iterator at(path, none), end; at != end; at.increment(none)) {
    if (at->path().filename() == "judges") at.disable_recursion_pending();  // no number is of them
    if (at->is_regular_file(none)) files.push_back(at->path().generic_string());
  }
  std::sort(files.begin(), files.end());  // as text, which paths are not and take longer
  // Paths below a folder begin with it as it was given.
  const std::size_t folder = path.size() + (path.ends_with('/') ? 0 : 1);
  std::uint64_t hash = kHashOfNothing;
  for (const std::string& file : files) {
    hash = hash_of_text(std::string_view(file).substr(folder), hash);
    hash = hash_of_text(read_file(file).value_or(""), hash);
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

// Who asks for a second trainer may ask for more.
Result<Trainer> DataDirectory::trainer(std::string_view words) const {
  const std::string called = trainer_called(words);
  if (!first_called_) first_called_ = called;
  if (trainers_ || called != first_called_) return trainer_named(words, *TW_TRY(trainers()));
  const auto load = [&] { return load_trainers_called(called, path_); };
  return trainer_named(words, *TW_TRY(part(first_trainers_, load)));
}

}  // namespace trainwright
