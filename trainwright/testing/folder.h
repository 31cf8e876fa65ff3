#pragma once
// A folder of a test's own, gone with it.
#include <cstdlib>
#include <filesystem>
#include <string>

namespace trainwright {

struct Folder {
  std::string path = [] {
    std::string name = std::filesystem::temp_directory_path() / "trainwright-XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace trainwright
