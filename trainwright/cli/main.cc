// The command line: turns the commands' descriptions into a parser, finds the data directory, runs
// one command and prints its answer. Exit codes: 0 ok, 1 does not fit or is not legal, 2 bad input,
// 70 internal error.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/cli/command.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::vector<Command> all_commands() {
  return {plan_command(), estimate_command(), validate_command(), show_command(),
          list_command(), schedule_command(), replay_command()};
}

std::string bare_name(const std::string& name) {
  const std::string first(split(name, ',').front());
  return first.substr(std::min(first.find_first_not_of('-'), first.size()));
}

// The commands in the order in which they were added, so that the chosen one can be found again.
struct Registered {
  CLI::App* app;
  Command command;
};

void add_argument(CLI::App& app, const Argument& argument,
                  std::map<std::string, std::vector<std::string>>& values) {
  const std::string name = bare_name(argument.name);
  if (argument.kind == Argument::Kind::Flag) {
    app.add_flag_callback(argument.name, [&values, name] { values[name]; }, argument.help);
    return;
  }
  auto* option = app.add_option_function<std::vector<std::string>>(
      argument.name,
      [&values, name](const std::vector<std::string>& given) { values[name] = given; },
      argument.help);
  option->required(argument.required);
  const bool several = argument.kind == Argument::Kind::Texts;
  option->expected(several ? -1 : 1)->allow_extra_args(several);
  if (!argument.value_name.empty()) option->type_name(argument.value_name);
  if (argument.kind == Argument::Kind::Integer) {
    option->check([](const std::string& text) {
      return parse_integer(text) ? "" : fmt::format("'{}' is not a whole number", text);
    });
  }
  if (argument.kind == Argument::Kind::Number) {
    option->check([](const std::string& text) {
      return parse_number(text) ? "" : fmt::format("'{}' is not a number", text);
    });
  }
}

std::string footer(const Command& command) {
  std::string text;
  if (!command.details.empty()) {
    for (const std::string& line : wrapped(command.details, 80)) text += line + '\n';
    text += '\n';
  }
  if (!command.examples.empty()) text += "Examples:\n";
  for (const std::string& example : command.examples) text += "  " + example + "\n";
  return text;
}

void add_command(CLI::App& parent, const Command& command, Invocation& invocation,
                 std::vector<Registered>& registered) {
  CLI::App* app = parent.add_subcommand(command.name, command.summary);
  app->footer(footer(command));
  app->fallthrough();
  if (command.commands.empty()) {
    for (const Argument& argument : command.arguments) {
      add_argument(*app, argument, invocation.values);
    }
    registered.push_back({app, command});
    return;
  }
  app->require_subcommand(1);
  for (const Command& sub : command.commands) add_command(*app, sub, invocation, registered);
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  if (app.get_parent() != nullptr) {
    for (std::string& name : options_of(*app.get_parent())) names.push_back(std::move(name));
  }
  return names;
}

// The library says what is wrong; this adds what the user could have meant.
Diagnostic explain_parse_fault(const CLI::App& root, const CLI::ParseError& fault, int argc,
                               char** argv) {
  const CLI::App* app = &root;
  std::string where = root.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    where += " " + app->get_name();
  }
  const std::vector<std::string> subcommands = subcommands_of(*app);
  const std::vector<std::string> options = options_of(*app);
  bool below = app == &root;  // reached the words that follow the recognised command
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && word.size() > 2) {
      const std::string name = word.substr(0, word.find('='));
      if (std::find(options.begin(), options.end(), name) == options.end()) {
        return {where, fmt::format("unknown option '{}'", name),
                did_you_mean(name, options, "see --help")};
      }
    } else if (below && !subcommands.empty()) {
      return {
          where, fmt::format("unknown command '{}'", word),
          did_you_mean(word, subcommands, fmt::format("commands are {}", enumerate(subcommands)))};
    }
    below = below || word == app->get_name();
  }
  if (!subcommands.empty()) {
    return {where, "a command is needed", fmt::format("commands are {}", enumerate(subcommands))};
  }
  return {where, fault.what(), "see --help"};
}

// Beside the program in a build tree, under share/ when installed.
std::string data_beside_program() {
  std::error_code fault;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", fault).parent_path();
  for (const auto& place : {program / "data", program / "../share/trainwright"}) {
    if (std::filesystem::is_directory(place, fault)) {
      return place.lexically_normal().string();
    }
  }
  return "";
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 80;
}

int report_fault(const Error& error, bool json) {
  if (json) {
    Json document = Json::object();
    document.add("error", to_json(error.diagnostics));
    fmt::print("{}", to_text(document));
  }
  fmt::print(stderr, "{}\n", to_text(error));
  return static_cast<int>(Exit::BadInput);
}

int run(const std::vector<Registered>& registered, Invocation& invocation) {
  for (const auto& [app, command] : registered) {
    if (!app->parsed()) continue;
    invocation.json = invocation.flag("json");
    if (const auto data = invocation.text("data")) invocation.data = *data;
    if (const auto width = invocation.integer("width")) {
      invocation.width = static_cast<int>(std::clamp<std::int64_t>(*width, 40, 400));
    }
    if (!std::filesystem::is_directory(invocation.data)) {
      return report_fault(
          Error{{{invocation.data, "no data directory found", "give it with --data DIR"}}},
          invocation.json);
    }
    const Result<Output> output = command.run(invocation);
    if (!output) return report_fault(output.error(), invocation.json);
    fmt::print("{}", output->text);
    return static_cast<int>(output->exit);
  }
  return static_cast<int>(Exit::BadInput);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Trainwright plans large-model training: which layout and schedule fit, and why.",
               "trainwright");
  app.set_version_flag("--version", "trainwright " TRAINWRIGHT_VERSION);
  app.set_help_flag("--help,-h", "print this help and exit");
  app.require_subcommand(1);
  Invocation invocation{.data = data_beside_program(),
                        .width = terminal_width(),
                        .terminal = isatty(STDERR_FILENO) != 0};
  const std::vector<Argument> everywhere = {
      {"--json", Argument::Kind::Flag, "print JSON instead of text"},
      {"--data", Argument::Kind::Text, "directory of models, clusters, trainers", false, "DIR"},
      {"--width", Argument::Kind::Integer, "characters per line of output", false, "N"},
  };
  for (const Argument& argument : everywhere) add_argument(app, argument, invocation.values);
  std::vector<Registered> registered;
  const std::vector<Command> commands = all_commands();
  for (const Command& command : commands) add_command(app, command, invocation, registered);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    // Help and version are "errors" of the library with exit code 0.
    if (fault.get_exit_code() == 0) return app.exit(fault);
    fmt::print(stderr, "{}\n", to_text(explain_parse_fault(app, fault, argc, argv)));
    return static_cast<int>(Exit::BadInput);
  }
  return run(registered, invocation);
}

}  // namespace
}  // namespace trainwright::cli

int main(int argc, char** argv) {
  try {
    return trainwright::cli::parse_and_run(argc, argv);
  } catch (const std::exception& fault) {
    fmt::print(stderr, "trainwright: internal error: {}\n  hint: this is a bug; please report it\n",
               fault.what());
    return static_cast<int>(trainwright::cli::Exit::Internal);
  }
}
