// trainwright._core: a whole command line as a function, for Python.
//
// Python asks in the words of the command line and gets the JSON that the program prints, so that
// both give one answer. `trainwright/_ask.py` makes the words and values of it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "trainwright/cli/command_line.h"

namespace nb = nanobind;

namespace {

using trainwright::cli::DataDirectory;
using trainwright::cli::File;
using trainwright::cli::Reply;

// Texts may quote what a user gave, so they are bytes until Python has decoded them.
nb::bytes bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::tuple run(const std::vector<std::string>& words, const std::string& data, int width) {
  Reply reply;
  {
    const nb::gil_scoped_release others_may_run;
    const DataDirectory directory(data);
    reply = trainwright::cli::run_command_line(words, {.data = directory, .width = width});
  }
  nb::list files;
  for (const File& file : reply.files) {
    files.append(nb::make_tuple(file.path, bytes(file.content)));
  }
  return nb::make_tuple(static_cast<int>(reply.exit), bytes(reply.output), bytes(reply.error),
                        files);
}

}  // namespace

NB_MODULE(_core, module) {
  module.attr("version") = TRAINWRIGHT_VERSION;
  module.def("run", &run, nb::arg("words"), nb::arg("data"), nb::arg("width") = 80,
             "Answers a command line: (exit code, output, error, [(path, content)]).");
}
