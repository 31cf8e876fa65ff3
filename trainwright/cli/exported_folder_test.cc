#include "trainwright/cli/exported_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "trainwright/testing/folder.h"

namespace trainwright::cli {
namespace {

namespace fs = std::filesystem;

std::vector<File> files_in(const std::string& folder, const std::string& launch) {
  return {{folder + "/settings.sh", "SETTINGS=()\n"}, {folder + "/launch.sh", launch}};
}

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Exports into the folder: the places that were refused.
std::vector<std::string> refused(const std::string& folder, const std::string& launch,
                                 bool force = false) {
  const auto files = into_folder(folder, files_in(folder, launch), force);
  std::vector<std::string> places;
  if (files) {
    CHECK(replace_files(*files).empty());
  } else {
    for (const Diagnostic& fault : files.error().diagnostics) places.push_back(fault.where);
  }
  return places;
}

TEST_CASE("an export replaces what an export wrote, and leaves nothing else behind") {
  const Folder folder;
  const std::string out = folder.path + "/made/here";
  CHECK(refused(out, "first\n").empty());
  CHECK(refused(out, "second\n").empty());
  CHECK(*read_file(out + "/launch.sh") == "second\n");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(out)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{".trainwright.json", "launch.sh", "settings.sh"});
  // As any new file: for whom the umask lets it be.
  put(folder.path + "/plain", "");
  CHECK(fs::status(out + "/launch.sh").permissions() ==
        fs::status(folder.path + "/plain").permissions());
}

TEST_CASE("files that somebody changed or made are told together, and nothing is written") {
  const Folder folder;
  const std::string& out = folder.path;
  CHECK(refused(out, "first\n").empty());
  put(out + "/launch.sh", "mine\n");
  CHECK(refused(out, "second\n") == std::vector<std::string>{out + "/launch.sh"});
  put(out + "/settings.sh", "mine too\n");
  CHECK(refused(out, "second\n") ==
        std::vector<std::string>{out + "/settings.sh", out + "/launch.sh"});
  CHECK(*read_file(out + "/launch.sh") == "mine\n");
  CHECK(refused(out, "second\n", true).empty());
  CHECK(*read_file(out + "/launch.sh") == "second\n");
  CHECK(refused(out, "third\n").empty());
}

TEST_CASE("a file that no export wrote is kept, unless it is what would be written") {
  const Folder folder;
  put(folder.path + "/launch.sh", "mine\n");
  CHECK(refused(folder.path, "ours\n") == std::vector<std::string>{folder.path + "/launch.sh"});
  CHECK_FALSE(fs::exists(folder.path + "/settings.sh"));
  put(folder.path + "/launch.sh", "ours\n");
  CHECK(refused(folder.path, "ours\n").empty());
}

TEST_CASE("what a link leads to is never written, with --force neither") {
  const Folder folder;
  const std::string out = folder.path + "/out", victim = folder.path + "/victim";
  fs::create_directory(out);
  put(victim, "precious\n");
  fs::create_symlink(victim, out + "/launch.sh");
  CHECK(refused(out, "ours\n") == std::vector<std::string>{out + "/launch.sh"});
  fs::create_symlink(folder.path + "/nowhere", out + "/settings.sh");
  CHECK(refused(out, "ours\n").size() == 2);
  CHECK(refused(out, "ours\n", true).empty());
  CHECK(*read_file(victim) == "precious\n");
  CHECK_FALSE(fs::exists(folder.path + "/nowhere"));
  CHECK_FALSE(fs::is_symlink(out + "/launch.sh"));
  CHECK(*read_file(out + "/launch.sh") == "ours\n");
}

TEST_CASE("a link that appears after the check is replaced, not followed") {
  const Folder folder;
  const std::string victim = folder.path + "/victim";
  put(victim, "precious\n");
  const auto files = into_folder(folder.path, files_in(folder.path, "ours\n"), false);
  REQUIRE(files.has_value());
  fs::create_symlink(victim, folder.path + "/launch.sh");
  CHECK(replace_files(*files).empty());
  CHECK(*read_file(victim) == "precious\n");
}

TEST_CASE("where one file cannot be written, the others stay as they were") {
  const Folder folder;
  const std::string& out = folder.path;
  CHECK(refused(out, "first\n").empty());
  std::vector<File> files = files_in(out, "second\n");
  files.push_back({out + "/launch.sh/below", "no folder\n"});
  for (File& file : files) file.replaces = true;
  CHECK(replace_files(files).starts_with(out + "/launch.sh/below: cannot be written"));
  CHECK(*read_file(out + "/launch.sh") == "first\n");
}

TEST_CASE("a folder in the place of a file is refused, with --force too") {
  const Folder folder;
  fs::create_directory(folder.path + "/launch.sh");
  CHECK(refused(folder.path, "ours\n", true) ==
        std::vector<std::string>{folder.path + "/launch.sh"});
}

}  // namespace
}  // namespace trainwright::cli
