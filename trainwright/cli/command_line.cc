#include "trainwright/cli/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>

#include "trainwright/base/count.h"
#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/cli/help.h"
#include "trainwright/cli/ramp.h"
#include "trainwright/cli/setting.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

// The commands in the order in which they were added, so that the chosen one can be found again.
struct Registered {
  CLI::App* app;
  Command command;
};

constexpr int kHelpWidth = 80;

// Beside the names of options, which take thirty characters.
std::string in_lines(const std::string& help) { return join(wrapped(help, kHelpWidth - 30), "\n"); }

// A command's own help begins with its summary, which a list of commands has in lines.
struct SummaryOnOneLine : CLI::Formatter {
  std::string make_description(const CLI::App* app) const override {
    std::string text = CLI::Formatter::make_description(app);
    if (!text.empty()) std::replace(text.begin(), text.end() - 1, '\n', ' ');
    return text;
  }
};

void add_argument(CLI::App& app, const Argument& argument, Values& values) {
  const std::string name = bare_name(argument.name);
  if (argument.kind == Argument::Kind::Flag) {
    app.add_flag_callback(
        argument.name, [&values, name] { values[name]; }, in_lines(argument.help));
    return;
  }
  auto* option = app.add_option_function<std::vector<std::string>>(
      argument.name,
      [&values, name](const std::vector<std::string>& given) { values[name] = given; },
      in_lines(argument.help));
  option->required(argument.required);
  const bool several = argument.kind == Argument::Kind::Texts;
  option->expected(several ? -1 : 1)->allow_extra_args(several);
  if (!argument.value_name.empty()) option->type_name(argument.value_name);
}

constexpr std::string_view kOfTokens = "-tokens";
constexpr std::int64_t kMostTokens = 1'000'000'000'000'000'000;  // sums with them do not overflow

// What is wrong with a value of this kind, and what it may look like.
std::optional<std::pair<std::string_view, std::string_view>> value_fault(Argument::Kind kind,
                                                                         const std::string& text) {
  using Fault = std::pair<std::string_view, std::string_view>;
  switch (kind) {
    case Argument::Kind::Integer:
      if (!parse_count(text)) return Fault{count_fault(text), "for instance 64 or 4k"};
      break;
    case Argument::Kind::Ramp:
      if (parse_ramp(text)) break;
      [[fallthrough]];
    case Argument::Kind::Batch: {
      const bool tokens = text.ends_with(kOfTokens);
      const auto count =
          parse_count(tokens ? text.substr(0, text.size() - kOfTokens.size()) : text);
      if (!count && kind == Argument::Kind::Ramp) {
        return Fault{count_fault(text),
                     "sequences, for instance 512, 4M-tokens or, growing, 256-1024"};
      }
      if (!count) return Fault{count_fault(text), "sequences, for instance 512, or 4M-tokens"};
      if (tokens && *count > kMostTokens) return Fault{"is too large", "for instance 4M-tokens"};
      break;
    }
    case Argument::Kind::Share:
      if (!parse_share(text))
        return Fault{"is neither a number nor per cent", "for instance 0.05 or 5%"};
      break;
    case Argument::Kind::Number:
      if (!parse_number(text)) return Fault{"is not a number", "for instance 2.5"};
      break;
    default: break;
  }
  return std::nullopt;
}

// --batch 256-1024 is --batch 1024 --ramp 256-1024.
void add_ramp(const std::vector<Argument>& arguments, Values& values) {
  const bool takes = std::any_of(arguments.begin(), arguments.end(), [](const Argument& argument) {
    return argument.kind == Argument::Kind::Ramp;
  });
  const auto batch = values.find("batch");
  if (!takes || batch == values.end() || batch->second.empty()) return;
  const std::string text = batch->second.front();
  const auto ramp = parse_ramp(text);
  if (!ramp) return;
  batch->second.front() = std::to_string(ramp->back());
  values["ramp"] = {text};
}

// --batch 4M-tokens is as many sequences of --seq.
void add_batch_of_tokens(const std::vector<Argument>& arguments, Values& values,
                         std::vector<Diagnostic>& faults) {
  const bool takes = std::any_of(arguments.begin(), arguments.end(), [](const Argument& argument) {
    return argument.kind == Argument::Kind::Batch || argument.kind == Argument::Kind::Ramp;
  });
  const auto batch = values.find("batch");
  if (!takes || batch == values.end() || batch->second.empty()) return;
  std::string& text = batch->second.front();
  if (!text.ends_with(kOfTokens)) return;
  const auto tokens = parse_count(text.substr(0, text.size() - kOfTokens.size()));
  const auto given = values.find("seq");
  const std::int64_t seq = given == values.end() || given->second.empty()
                               ? 0
                               : parse_count(given->second.front()).value_or(0);
  if (!tokens || *tokens > kMostTokens) return;  // a fault already
  if (seq < 1) {
    if (given == values.end()) {
      faults.push_back({"--batch", "tokens need the length of a sequence", "add --seq 4k"});
    }
    return;
  }
  if (*tokens % seq != 0 || *tokens < seq) {
    const std::int64_t near = std::max<std::int64_t>(1, (*tokens + seq / 2) / seq);
    faults.push_back({"--batch",
                      fmt::format("{} tokens are no whole number of sequences of {}",
                                  with_thousands(*tokens), with_thousands(seq)),
                      fmt::format("--batch {} is {} tokens", near, with_thousands(near * seq))});
    return;
  }
  text = std::to_string(*tokens / seq);
}

void add_value_faults(const std::vector<Argument>& arguments, const Values& values,
                      std::vector<Diagnostic>& faults) {
  for (const Argument& argument : arguments) {
    const auto given = values.find(bare_name(argument.name));
    if (given == values.end()) continue;
    for (const std::string& text : given->second) {
      if (const auto fault = value_fault(argument.kind, text)) {
        faults.push_back({"--" + given->first, fmt::format("'{}' {}", text, fault->first),
                          std::string(fault->second)});
      }
    }
  }
}

constexpr std::int64_t kNarrowest = 40, kWidest = 400;  // lines that tables are made for

// On several lines where it is long, as a shell takes it: an option stays with its value.
std::string example_lines(const std::string& example) {
  std::vector<std::string> parts;
  for (const std::string_view word : split(example, ' ')) {
    const bool begins = word.starts_with('-') || word == "|" || word == ">";
    if (parts.empty() || begins) {
      parts.emplace_back(word);
    } else {
      parts.back() += ' ' + std::string(word);
    }
  }
  std::string text = "  ";
  std::size_t used = 2;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t tail = i + 1 < parts.size() ? 2 : 0;  // for " \\"
    if (i > 0 && used + 1 + parts[i].size() + tail > kHelpWidth) {
      text += " \\\n      ";
      used = 6;
    } else if (i > 0) {
      text += ' ';
      ++used;
    }
    text += parts[i];
    used += parts[i].size();
  }
  return text + '\n';
}

std::string footer(const Command& command) {
  std::string text;
  if (!command.details.empty()) {
    for (const std::string& line : wrapped(command.details, kHelpWidth)) text += line + '\n';
    text += '\n';
  }
  if (!command.examples.empty()) text += "Examples:\n";
  for (const std::string& example : command.examples) text += example_lines(example);
  for (const std::string& topic : command.topics) text += "\n" + help_text(topic, kHelpWidth);
  if (text.ends_with('\n')) text.pop_back();  // the library adds its own
  return text;
}

// What a command takes is only told where it was typed: there are hundreds of arguments.
void add_command(CLI::App& parent, const Command& command, std::span<const std::string> words,
                 Values& values, std::vector<Registered>& registered) {
  CLI::App* app = parent.add_subcommand(command.name, in_lines(command.summary));
  if (!command.details.empty() || !command.examples.empty() || !command.topics.empty()) {
    app->footer([command] { return footer(command); });  // takes long, and few ask for help
  }
  app->fallthrough();
  if (std::find(words.begin(), words.end(), command.name) == words.end()) return;
  if (command.commands.empty()) {
    for (const Argument& argument : command.arguments) {
      add_argument(*app, argument, values);
    }
    registered.push_back({app, command});
    return;
  }
  app->require_subcommand(1);
  for (const Command& sub : command.commands) {
    add_command(*app, sub, words, values, registered);
  }
}

std::vector<Registered> add_everything(CLI::App& app, std::span<const std::string> words,
                                       Values& values) {
  app.set_version_flag("--version", "trainwright " TRAINWRIGHT_VERSION);
  app.set_help_flag("--help,-h", "print this help and exit");
  app.require_subcommand(1);
  for (const Argument& argument : common_arguments()) add_argument(app, argument, values);
  std::vector<Registered> registered;
  for (const Command& command : all_commands()) {
    add_command(app, command, words, values, registered);
  }
  return registered;
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

// What is given without a name: "model".
bool is_positional(const CLI::App& app, const std::string& name) {
  const auto options = app.get_options();
  return std::any_of(options.begin(), options.end(), [&](const CLI::Option* option) {
    return option->get_positional() && option->get_lnames().empty() && option->get_name() == name;
  });
}

const CLI::App& innermost(const CLI::App& root) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

// All that a command needs and was not given; the library names the first.
Diagnostics lacking(const CLI::App& root, const std::string& where) {
  Diagnostics faults;
  for (const CLI::Option* option : innermost(root).get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string what = option->get_description();  // broken into lines for its page
    std::replace(what.begin(), what.end(), '\n', ' ');
    faults.push_back({where, fmt::format("{} is required", option->get_name()),
                      fmt::format("{}; see --help", what)});
  }
  return faults;
}

// The library says what is wrong; this adds what the user could have meant.
Diagnostic explain_parse_fault(const CLI::App& root, const CLI::ParseError& fault,
                               std::span<const std::string> words) {
  const CLI::App* app = &root;
  std::string where = root.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    where += " " + app->get_name();
  }
  const std::vector<std::string> subcommands = subcommands_of(*app);
  const std::vector<std::string> options = options_of(*app);
  bool below = app == &root;  // reached the words that follow the recognised command
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find('='));
      if (std::find(options.begin(), options.end(), name) == options.end()) {
        if (is_positional(*app, name.substr(2))) {
          return {where, fmt::format("unknown option '{}'", name),
                  fmt::format("the {} stands alone, without '{}'", name.substr(2), name)};
        }
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
  const bool has_layout = std::find(options.begin(), options.end(), "--layout") != options.end();
  for (const std::string& word : root.remaining(true)) {
    if (has_layout && word.find('=') != std::string::npos) {
      return {where, fmt::format("'{}' stands alone", word), "a layout goes behind --layout"};
    }
  }
  return {where, fault.what(), "see --help"};
}

// Whether an option of that name takes several values.
bool takes_several(std::span<const Registered> registered, const std::string& name) {
  return std::any_of(registered.begin(), registered.end(), [&](const Registered& one) {
    return std::any_of(one.command.arguments.begin(), one.command.arguments.end(),
                       [&](const Argument& argument) {
                         return argument.kind == Argument::Kind::Texts && argument.is_option() &&
                                bare_name(argument.name) == name;
                       });
  });
}

// Behind the values of an option that takes several, the library drops a -- as their end and reads
// options on; with another one all that follows is no option, as anywhere else.
std::vector<std::string> with_second_mark(std::vector<std::string> words,
                                          std::span<const Registered> registered) {
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark == words.end()) return words;
  const auto option = std::find_if(std::make_reverse_iterator(mark), words.rend(),
                                   [](const std::string& word) { return word.starts_with("--"); });
  if (option == words.rend()) return words;
  const std::string name = option->substr(2, option->find('=') - 2);
  if (takes_several(registered, name)) words.insert(mark, "--");
  return words;
}

// Who asked: for JSON or for text, and of which data.
struct Asked {
  const DataDirectory& data;
  bool json = false;
};

Reply refused(const Error& error, const Asked& by) {
  Reply reply{.error = printable(to_text(error)) + '\n', .exit = Exit::BadInput};
  if (by.json) {
    reply.output = document_text(by.data, Json::object().add("error", to_json(error.diagnostics)));
  }
  return reply;
}

// Help and version are "errors" of the library with exit code 0.
Reply told(const CLI::App& app, const CLI::ParseError& fault, const Asked& by) {
  std::ostringstream output, error;
  app.exit(fault, output, error);
  Reply reply{.output = output.str(), .error = error.str()};
  if (by.json) {
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&fault) != nullptr;
    reply.output = document_text(
        by.data, Json::object().add(version ? "program" : "help", Json::of(trim(reply.output))));
  }
  return reply;
}

Reply run(const Command& command, const Invocation& invocation) {
  const Asked by{invocation.data, invocation.json};
  std::error_code fault;
  const std::string& data = invocation.data.path();
  if (!std::filesystem::is_directory(data + "/models", fault)) {
    return refused(Error{{{data, "no data directory found", "give it with --data DIR"}}}, by);
  }
  Result<Output> output = command.run(invocation);
  if (!output) return refused(output.error(), by);
  // Paths and lines of files may be quoted in it. JSON is printable already.
  return {.output = output->coloured ? std::move(output->text) : printable(output->text),
          .error = printable(output->warning),
          .exit = output->exit,
          .files = std::move(output->files)};
}

// Other names of options, as training frameworks and people have them.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"--framework", "--trainer"}, {"--cluster", "--on"},     {"--gpus", "--on"},
    {"--batch-size", "--batch"},  {"--gbs", "--batch"},      {"--global-batch-size", "--batch"},
    {"--seq-len", "--seq"},       {"--seq-length", "--seq"}, {"--max-seq-len", "--seq"},
};

// Behind "--" words belong to somebody else.
std::vector<std::string> in_our_words(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word == "--") break;
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    for (const auto& [other, ours] : kSynonyms) {
      if (name == other) {
        word = std::string(ours) + word.substr(name.size());
        break;
      }
    }
  }
  return words;
}

// `help estimate` is `estimate --help`, `help` and nothing at all are `--help`; topics stay.
std::vector<std::string> with_help_last(std::span<const std::string> typed) {
  std::vector<std::string> words(typed.begin(), typed.end());
  if (words.empty()) return {"--help"};
  if (words.front() != "help") return words;
  const std::vector<Command> commands = all_commands();
  const bool known = words.size() == 1 || words[1].starts_with('-') ||
                     std::any_of(commands.begin(), commands.end(),
                                 [&](const Command& one) { return one.name == words[1]; });
  if (!known) return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

}  // namespace

Reply run_command_line(std::span<const std::string> typed, const Shell& shell) {
  const std::vector<std::string> words = in_our_words(with_help_last(typed));
  CLI::App app("Trainwright plans large-model training: which layout and schedule fit, and why.",
               "trainwright");
  app.formatter(std::make_shared<SummaryOnOneLine>());
  Values values;
  const std::vector<Registered> registered = add_everything(app, words, values);
  try {
    std::vector<std::string> marked = with_second_mark(words, registered);
    std::reverse(marked.begin(), marked.end());  // The library pops them.
    app.parse(std::move(marked));
  } catch (const CLI::ParseError& fault) {
    const Asked by{shell.data, std::find(words.begin(), words.end(), "--json") != words.end()};
    if (fault.get_exit_code() == 0) return told(app, fault, by);
    Diagnostic first = explain_parse_fault(app, fault, words);
    if (dynamic_cast<const CLI::RequiredError*>(&fault) != nullptr &&
        first.what.ends_with("is required")) {
      return refused(Error{lacking(app, first.where)}, by);
    }
    return refused(Error{{std::move(first)}}, by);
  }
  const auto chosen = std::find_if(registered.begin(), registered.end(),
                                   [](const Registered& one) { return one.app->parsed(); });
  if (chosen == registered.end()) return {.exit = Exit::BadInput};
  std::vector<Diagnostic> faults;
  add_value_faults(common_arguments(), values, faults);
  add_value_faults(chosen->command.arguments, values, faults);
  add_ramp(chosen->command.arguments, values);
  add_batch_of_tokens(chosen->command.arguments, values, faults);
  std::optional<DataDirectory> named;
  if (const auto given = values.find("data"); given != values.end() && !given->second.empty()) {
    named.emplace(given->second.front());
  }
  Invocation invocation{.data = named ? *named : shell.data,
                        .width = shell.width,
                        .json = values.contains("json"),
                        .interrupted = shell.interrupted,
                        .progress = shell.progress,
                        .tell = shell.tell,
                        .program = shell.program,
                        .values = std::move(values)};
  const Asked by{invocation.data, invocation.json};
  if (const auto width = invocation.integer("width")) {
    if (*width < kNarrowest || *width > kWidest) {
      return refused(Error{{{"--width", fmt::format("{} is out of range", *width),
                             fmt::format("{} to {}", kNarrowest, kWidest)}}},
                     by);
    }
    invocation.width = static_cast<int>(*width);
  }
  if (!faults.empty()) {
    if (invocation.text("on")) {  // what else is wrong, before nothing is done
      read_surroundings(words_of(invocation), invocation.data, faults);
    }
    return refused(Error{std::move(faults)}, by);
  }
  return run(chosen->command, invocation);
}

}  // namespace trainwright::cli
