#pragma once
// A command as a value: what it is called, what it takes, an example, and what it does.
//
// Only command_line.cc knows the library that parses the command line. A command declares its
// arguments as data and gets an Invocation with what the user typed; it returns what to print,
// files to write and an exit code. It writes nothing itself.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/question/question.h"

namespace trainwright::cli {

enum class Exit {
  Ok = 0,
  DoesNotFit = 1,  // or is not legal: the question was understood, the answer is no
  BadInput = 2,
  Internal = 70,
  NotWritten = 74,  // the answer could not be written: a full disk, a path that is none
};

struct Argument {
  // 0.05 or 5%; 4M-tokens; the same or 256-1024 (ramp.h), which is read as --ramp.
  enum class Kind { Flag, Text, Texts, Integer, Number, Share, Batch, Ramp };

  std::string
      name;  // "model" for a positional, "--seq" for an option, "--csv,-o" with a short form
  Kind kind = Kind::Text;
  std::string help;
  bool required = false;
  std::string value_name = {};  // shown in the help: "--on CLUSTER"

  bool is_option() const { return name.starts_with('-'); }
};

std::string bare_name(const std::string& name);  // "csv" of "--csv,-o"

// What the user typed, by argument name without dashes.
using Values = std::map<std::string, std::vector<std::string>>;

struct Invocation {
  const DataDirectory& data;
  int width = 80;     // characters per line
  bool json = false;  // --json
  // Whether Ctrl-C was pressed; from the first time it is asked, that no longer ends the program.
  bool (*interrupted)() = nullptr;
  // Shows lines in place of the last; absent where standard error is no terminal.
  void (*progress)(const std::string& line) = nullptr;
  // Says a line at once, while a command is still at work.
  void (*tell)(const std::string& line) = nullptr;
  std::string program = {};  // of this program; empty where it is part of another
  Values values = {};

  bool flag(const std::string& name) const { return values.contains(name); }
  std::optional<std::string> text(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  // command_line.cc has checked that these are numbers.
  std::optional<std::int64_t> integer(const std::string& name) const;
  std::optional<double> number(const std::string& name) const;
  std::optional<double> share(const std::string& name) const;
};

std::optional<double> parse_share(std::string_view text);  // 0.05, 5%, 5 %

// Its folder is made where there is none.
struct File {
  std::string path;
  std::string content;
  // Whether it takes the place of what has its name, all at once: a link of that name is never
  // followed. Otherwise the user named it, and it may be a pipe or a link.
  bool replaces = false;
};

struct Output {
  std::string text;
  Exit exit = Exit::Ok;
  std::vector<File> files = {};
  std::string warning = {};  // for standard error
  bool coloured = false;     // the text has colours for a terminal, and nothing that others wrote
};

struct Command {
  std::string name;
  std::string summary;       // one line for the list of commands
  std::string details = {};  // more for its own help, may be empty
  std::vector<std::string> examples = {};
  std::vector<std::string> topics = {};  // of help.h whose words it reads; they end its help
  std::vector<Argument> arguments = {};
  std::vector<Command> commands = {};  // subcommands; a command has these or a run function
  Result<Output> (*run)(const Invocation&) = nullptr;
};

// As --json prints any answer: an object that begins with the version of the keys, and with what
// has answered, the program's version and a hash of its data. Numbers that are not whole have nine
// digits.
inline constexpr int kSchema = 3;
Json in_nine_digits(Json json);  // whole numbers stay, bytes that are computed with among them
Json with_schema(const DataDirectory& data, const Json& document);
std::string document_text(const DataDirectory& data, const Json& document);

// The JSON of a diagnostic list: [{"where", "what", "hint"}].
Json to_json(const Diagnostics& diagnostics);

Command plan_command();
Command explain_command();
Command validate_command();
Command calibrate_command();
Command reconcile_command();
Command show_command();
Command list_command();
Command schedule_command();
Command replay_command();
Command estimate_command();
Command check_command();
Command export_command();
Command report_command();
Command tune_command();
Command completion_command();
Command man_command();

std::vector<Command> all_commands();       // in the order of help; web/playground has fewer
std::vector<Argument> common_arguments();  // of every command

}  // namespace trainwright::cli
