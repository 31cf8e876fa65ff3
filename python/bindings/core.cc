// trainwright._core: a whole command line as a function, for Python.
//
// Python asks in the words of the command line and gets the JSON that the program prints, so that
// both give one answer. `trainwright/_ask.py` makes the words and values of it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "trainwright/cli/command_line.h"

namespace nb = nanobind;

namespace {

using trainwright::DataDirectory;
using trainwright::cli::File;
using trainwright::cli::Reply;

// Texts may quote what a user gave, so they are bytes until Python has decoded them.
nb::bytes bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// Set by Python when nobody waits for an answer any more.
struct Stop {
  std::atomic<bool> is_set = false;
};

// The shell asks a plain function, which can only look at what its thread has put here.
thread_local const Stop* stop_of_this_thread = nullptr;
bool interrupted() { return stop_of_this_thread != nullptr && stop_of_this_thread->is_set; }

// The package's directory, which remembers what was read, so that a loop over layouts reads it
// once. It is for one thread: a second one that asks meanwhile reads for itself.
class Directory {
 public:
  explicit Directory(const std::string& path) : lock_(mutex_, std::try_to_lock) {
    std::optional<DataDirectory>& read = lock_ ? shared_ : own_;
    if (!read || read->path() != path) read.emplace(path);
    read_ = &*read;
  }
  const DataDirectory& operator*() const { return *read_; }

 private:
  static inline std::mutex mutex_;
  static inline std::optional<DataDirectory> shared_;
  std::unique_lock<std::mutex> lock_;
  std::optional<DataDirectory> own_;
  const DataDirectory* read_ = nullptr;
};

nb::tuple run(const std::vector<std::string>& words, const std::string& data, int width,
              const Stop* stop) {
  Reply reply;
  {
    const nb::gil_scoped_release others_may_run;
    const Directory directory(data);
    stop_of_this_thread = stop;
    reply = trainwright::cli::run_command_line(
        words, {.data = *directory, .width = width, .interrupted = interrupted});
    stop_of_this_thread = nullptr;
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
  nb::class_<Stop>(module, "Stop", "Ends the search that it was given to.")
      .def(nb::init<>())
      .def("set", [](Stop& stop) { stop.is_set = true; });
  module.def("run", &run, nb::arg("words"), nb::arg("data"), nb::arg("width") = 80,
             nb::arg("stop") = nb::none(),
             "Answers a command line: (exit code, output, error, [(path, content)]).");
}
