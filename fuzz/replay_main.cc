// Feeds every file of the directories named on the command line to a fuzz target, under any
// compiler. A fault is a crash, a sanitizer report or an uncaught exception.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int replayed = 0;
  std::vector<std::filesystem::path> folders;  // A target may change the working directory.
  for (int i = 1; i < argc; ++i) folders.push_back(std::filesystem::absolute(argv[i]));
  for (const auto& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      if (!stream) return 1;
      const std::string content((std::istreambuf_iterator<char>(stream)),
                                std::istreambuf_iterator<char>());
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content.data()), content.size());
      ++replayed;
    }
  }
  std::printf("replayed %d inputs\n", replayed);
  return replayed > 0 ? 0 : 1;  // an empty corpus tests nothing
}
