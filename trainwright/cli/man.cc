// trainwright man: manual pages of the commands, in the language of man(7).
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/command.h"
#include "trainwright/cli/help.h"

namespace trainwright::cli {
namespace {

constexpr int kTextWidth = 72;  // of tables of keys, which man indents

// A backslash, and a dot or quote that begins a line, would be requests.
std::string plain(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    const bool begins = escaped.empty() || escaped.back() == '\n';
    if (begins && (letter == '.' || letter == '\'')) escaped += "\\&";
    if (letter == '\\') {
      escaped += "\\e";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

// Words to be typed: a hyphen stays one.
std::string literal(std::string_view text) {
  std::string escaped;
  for (const char letter : plain(text)) {
    if (letter == '-') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

std::string in_capitals(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

std::string shown_value(const Argument& argument) {
  if (argument.kind == Argument::Kind::Flag) return "";
  std::string name = argument.value_name.empty() ? bare_name(argument.name) : argument.value_name;
  return argument.kind == Argument::Kind::Texts && !name.ends_with("...") ? name + "..." : name;
}

std::string synopsis(const std::string& name, const Command& command) {
  std::string text = ".B " + literal(name) + '\n';
  if (!command.commands.empty()) return text + ".I COMMAND\n";
  for (const Argument& argument : command.arguments) {
    const std::string value = literal(shown_value(argument));
    if (!argument.is_option()) {
      text += argument.required ? ".I " + value + '\n' : ".RI [ " + value + " ]\n";
    } else if (argument.required) {
      text += fmt::format(".BI {} \" {}\"\n", literal("--" + bare_name(argument.name)), value);
    }
  }
  return text + ".RI [ options ]\n";
}

std::string described(const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& argument : arguments) {
    const std::string value = literal(shown_value(argument));
    const std::string name = join(to_strings(split(argument.name, ',')), ", ");
    if (!argument.is_option()) {
      text += fmt::format(".TP\n.I {}\n", value);
    } else if (value.empty()) {
      text += fmt::format(".TP\n.B {}\n", literal(name));
    } else {
      text += fmt::format(".TP\n.BI \"{} \" {}\n", literal(name), value);
    }
    text += plain(argument.help) + (argument.required ? " (required)\n" : "\n");
  }
  return text;
}

std::string examples(const std::vector<std::string>& lines) {
  std::string text = ".EX\n";
  for (const std::string& line : lines) text += literal(line) + '\n';
  return text + ".EE\n";
}

// What stands under a command's heading; subcommands have headings of their own.
std::string body(const std::string& name, const Command& command) {
  std::string text;
  if (!command.details.empty()) text += plain(command.details) + '\n';
  text += described(command.arguments);
  if (!command.examples.empty()) {
    text += (text.empty() ? "" : ".PP\n") + ("For example:\n.PP\n" + examples(command.examples));
  }
  for (const Command& sub : command.commands) {
    const std::string whole = name + " " + sub.name;
    text += fmt::format(".SS {}\n{}.\n.PP\n{}", literal(whole), plain(sub.summary),
                        synopsis(whole, sub));
    const std::string inside = body(whole, sub);
    text += (inside.starts_with('.') ? "" : ".PP\n") + inside;
  }
  return text;
}

std::string head(const std::string& name, const std::string& summary) {
  return fmt::format(
      ".TH {} 1 \"\" \"trainwright {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
      literal(name), TRAINWRIGHT_VERSION, literal(name), plain(summary));
}

std::string tail(const std::vector<std::string>& see) {
  std::string text =
      ".SH EXIT STATUS\n"
      ".TP\n.B 0\nSuccess.\n"
      ".TP\n.B 1\nThe answer is no: it does not fit, or is invalid.\n"
      ".TP\n.B 2\nBad input; every fault is told with its place and a hint.\n"
      ".TP\n.B 70\nA bug of trainwright.\n"
      ".TP\n.B 74\nThe answer could not be written.\n"
      ".SH SEE ALSO\n";
  for (const std::string& name : see) {
    text += fmt::format(".BR {} (1){}\n", literal(name), &name == &see.back() ? "" : ",");
  }
  return text;
}

std::string page_of(const Command& command) {
  std::string text = head("trainwright-" + command.name, command.summary) +
                     synopsis("trainwright " + command.name, command) + ".SH DESCRIPTION\n" +
                     body("trainwright " + command.name, command);
  text += ".SH COMMON OPTIONS\n" + described(common_arguments());
  for (const std::string& topic : command.topics) {
    text += fmt::format(".SH {}\n.EX\n{}.EE\n", in_capitals(topic),
                        literal(help_text(topic, kTextWidth)));
  }
  return text + tail({"trainwright"});
}

std::string front_page(const std::vector<Command>& commands) {
  std::string text =
      head("trainwright", "plans large-model training: layout, schedule, memory and time") +
      ".B trainwright\n.I COMMAND\n.RI [ options ]\n.SH DESCRIPTION\n"
      "Given a model, a cluster and a batch it answers, without a GPU, which layouts fit and how "
      "fast they are, how much memory every rank needs and what for, whether a trainer will take a "
      "layout and why not, and which pipeline schedule is the shortest under a memory cap.\n"
      ".PP\nIt opens no network connection and sends nothing anywhere.\n.SH COMMANDS\n";
  std::vector<std::string> see;
  for (const Command& command : commands) {
    see.push_back("trainwright-" + command.name);
    text += fmt::format(".TP\n.B {}\n{}\n", literal(command.name), plain(command.summary));
  }
  text += ".SH COMMON OPTIONS\n" + described(common_arguments());
  text += ".SH EXAMPLES\n" +
          examples({"trainwright plan llama-3.1-8b --on 8xH100 --batch 64 --seq 8192",
                    "trainwright help layout"});
  return text + tail(see);
}

Result<Output> run_man(const Invocation& invocation) {
  const std::vector<Command> commands = all_commands();
  const std::string asked = invocation.text("command").value_or("");
  std::vector<File> pages = {{"trainwright.1", front_page(commands)}};
  std::vector<std::string> names;
  for (const Command& command : commands) {
    names.push_back(command.name);
    pages.push_back({fmt::format("trainwright-{}.1", command.name), page_of(command)});
  }
  if (const auto folder = invocation.text("out")) {
    Output output;
    Json written = Json::array();
    for (File& page : pages) {
      page = {*folder + "/" + page.path, std::move(page.content)};
      written.push(Json::of(page.path));
      output.text += page.path + '\n';
    }
    output.files = std::move(pages);
    if (invocation.json) {
      output.text = document_text(invocation.data, Json::object().add("files", std::move(written)));
    }
    return output;
  }
  std::string text = pages[0].content;
  if (!asked.empty()) {
    const auto found = std::find(names.begin(), names.end(), asked);
    if (found == names.end()) {
      return fail("trainwright man", fmt::format("there is no command '{}'", asked),
                  did_you_mean(asked, names, "commands are " + enumerate(names)));
    }
    text = pages[static_cast<std::size_t>(found - names.begin()) + 1].content;
  }
  if (invocation.json)
    text = document_text(invocation.data, Json::object().add("page", Json::of(text)));
  return Output{std::move(text)};
}

}  // namespace

Command man_command() {
  return {.name = "man",
          .summary = "the manual page of a command",
          .examples = {"trainwright man plan | man -l -", "trainwright man --out share/man/man1"},
          .arguments = {{"command", Argument::Kind::Text, "one of them (default: all in one list)",
                         false, "COMMAND"},
                        {"--out", Argument::Kind::Text, "write all pages into this folder", false,
                         "DIR"}},
          .run = run_man};
}

}  // namespace trainwright::cli
