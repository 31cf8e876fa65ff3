#include "trainwright/cli/exported_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "trainwright/base/hash.h"

namespace trainwright::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRemembered = ".trainwright.json";

std::string hash_text(std::string_view content) {
  return fmt::format("{:016x}", hash_of_text(content));
}

// Of every file that was written here last, by name; what is no such list says nothing.
Json remembered_in(const std::string& folder) {
  const auto json = read_json_file(folder + '/' + std::string(kRemembered));
  const Json* written = json ? json->find("written") : nullptr;
  return written != nullptr && written->is_object() ? *written : Json::object();
}

// Why a file may not take the place of what is there; nothing if it may.
std::optional<Diagnostic> objection(const File& file, const std::string& name,
                                    const Json& remembered, bool force) {
  std::error_code none;
  const fs::file_status there = fs::symlink_status(file.path, none);
  if (!fs::exists(there)) return std::nullopt;
  const bool is_link = fs::is_symlink(there);
  if (!is_link && !fs::is_regular_file(there)) {
    return Diagnostic{file.path, "is not a file, and is in the way", "give another folder"};
  }
  if (force) return std::nullopt;
  if (is_link) {
    return Diagnostic{file.path, "is a link, which is not followed",
                      "--force puts a file in its place; what it leads to stays"};
  }
  const auto content = read_file(file.path);
  if (!content) return content.error().diagnostics.front();
  const Json* hash = remembered.find(name);
  if (*content == file.content) return std::nullopt;
  if (hash != nullptr && hash->string == hash_text(*content)) return std::nullopt;
  return Diagnostic{file.path,
                    hash == nullptr ? "is there already, and was not written by an export"
                                    : "was changed since it was exported",
                    "--force replaces it; --out another folder keeps both"};
}

}  // namespace

Argument force_argument() {
  return {"--force", Argument::Kind::Flag,
          "replace files of the folder that were changed since they were exported, or that no "
          "export wrote (default: they are named, and nothing is written)"};
}

Result<std::vector<File>> into_folder(const std::string& folder, std::vector<File> files,
                                      bool force) {
  Json remembered = remembered_in(folder);
  Diagnostics faults;
  for (File& file : files) {
    file.replaces = true;
    const std::string name = file.path.substr(folder.size() + 1);
    if (auto fault = objection(file, name, remembered, force)) faults.push_back(*std::move(fault));
  }
  if (!faults.empty()) return fail(std::move(faults));
  for (const File& file : files) {
    const std::string name = file.path.substr(folder.size() + 1);
    std::erase_if(remembered.members, [&](const JsonMember& one) { return one.key == name; });
    remembered.add(name, Json::of(hash_text(file.content)));
  }
  Json document = Json::object();
  document.add("about", Json::of("hashes of exported files: one that was changed is not replaced"))
      .add("written", std::move(remembered));
  files.push_back({folder + '/' + std::string(kRemembered), to_text(document), true});
  return files;
}

namespace {

// A new file beside the place of another one, where no link can be. Its name, or empty.
std::string write_beside(const File& file) {
  const fs::path place(file.path);
  std::error_code ignored;  // What follows says so.
  fs::create_directories(place.parent_path(), ignored);
  std::string name = (place.parent_path() / ".trainwright-XXXXXX").string();
  const int open = mkstemp(name.data());
  if (open < 0) return {};
  const mode_t mask = umask(0);
  umask(mask);
  std::string_view rest = file.content;
  bool good = fchmod(open, 0666U & ~mask) == 0;
  while (good && !rest.empty()) {
    const ssize_t written = ::write(open, rest.data(), rest.size());
    good = written > 0 || (written < 0 && errno == EINTR);
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
  const int why = errno;
  if (close(open) == 0 && good) return name;
  unlink(name.c_str());
  if (!good) errno = why;
  return {};
}

}  // namespace

std::string replace_files(const std::vector<File>& files) {
  std::vector<std::pair<std::string, const File*>> made;
  std::string fault;
  const auto failed = [&](const File& file) {
    fault = fmt::format("{}: cannot be written: {}", file.path, std::strerror(errno));
  };
  for (const File& file : files) {
    if (!file.replaces || !fault.empty()) continue;
    made.emplace_back(write_beside(file), &file);
    if (made.back().first.empty()) failed(file);
  }
  for (const auto& [beside, file] : made) {
    if (fault.empty() && std::rename(beside.c_str(), file->path.c_str()) != 0) failed(*file);
    if (!fault.empty() && !beside.empty()) unlink(beside.c_str());
  }
  return fault;
}

}  // namespace trainwright::cli
