#pragma once
// A whole command line as a function: the words that somebody typed in, what the program prints and
// its exit code out. Knows the library that parses command lines; main.cc only carries bytes.
#include <span>
#include <string>

#include "trainwright/cli/command.h"

namespace trainwright::cli {

// What the program finds around it.
struct Shell {
  const DataDirectory& data;        // unless --data names another
  int width = 80;                   // characters per line, unless --width says so
  bool (*interrupted)() = nullptr;  // as an Invocation has them
  void (*progress)(const std::string& line) = nullptr;
  void (*tell)(const std::string& line) = nullptr;
  std::string program = {};  // its path, where trials may be watched by it (tune/process.h)
};

struct Reply {
  std::string output = {};  // for standard output
  std::string error = {};   // for standard error
  Exit exit = Exit::Ok;
  std::vector<File> files = {};  // written before anything is printed
};

// `words` are without the program's name. With --json a fault is JSON too, whatever is wrong. An
// exception is a bug of ours.
Reply run_command_line(std::span<const std::string> words, const Shell& shell);

}  // namespace trainwright::cli
