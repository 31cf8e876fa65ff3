// What a script that starts a training run does, as far as it can be known without running it.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "trainwright/base/text.h"
#include "trainwright/export/shell.h"

namespace trainwright::detail {
namespace {

// A statement under it is done only if all of these are.
struct Branch {
  enum class Kind { If, Case, Loop };
  Kind kind = Kind::If;
  bool taken = true;       // now
  bool any = false;        // one of its branches was
  bool condition = false;  // still before its then
  bool pattern = false;    // of case: a pattern follows
  std::string word = {};   // of case
  std::string open = {};   // why nobody can know; empty if it is sure
  std::size_t line = 0;
  bool noted = false;
};

struct Command {
  ShellWords words;
  bool filled = false;  // has options from an array or a string
};

struct Run {
  ShellVariables variables = {};
  std::vector<Branch> branches = {};
  std::vector<Command> commands = {};
  std::vector<std::string> notes = {};
  std::size_t read = 0;   // bytes, those of eval with them
  bool last = true;       // whether the last statement succeeded
  std::string open = {};  // why nobody can know; empty if it is sure
};

std::size_t options_in(const ShellWords& words) {
  return static_cast<std::size_t>(std::count_if(
      words.begin(), words.end(),
      [](const ShellWord& one) { return is_option(one.text) || is_override(one.text); }));
}

using Terms = std::span<const std::string>;
using Truth = std::optional<bool>;  // nothing if nobody knows

Truth opposite(Truth truth) { return truth ? Truth(!*truth) : truth; }

// One comparison, with as many ! before it as there are.
Truth comparison_holds(Terms words) {
  if (!words.empty() && words[0] == "!") {
    const auto rest = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word != "!"; });
    const auto signs = static_cast<std::size_t>(rest - words.begin());
    const Truth truth = comparison_holds(words.subspan(signs));
    return signs % 2 == 0 ? truth : opposite(truth);
  }
  if (words.size() == 1) return !words[0].empty();
  if (words.size() == 2 && words[0] == "-n") return !words[1].empty();
  if (words.size() == 2 && words[0] == "-z") return words[1].empty();
  if (words.size() != 3) return std::nullopt;
  const std::string &sign = words[1], &a = words[0], &b = words[2];
  if (a.find('$') != a.npos || b.find('$') != b.npos) return std::nullopt;
  if (sign == "=" || sign == "==") return a == b;
  if (sign == "!=") return a != b;
  const auto left = parse_integer(a), right = parse_integer(b);
  if (!left || !right) return std::nullopt;
  if (sign == "-eq") return *left == *right;
  if (sign == "-ne") return *left != *right;
  if (sign == "-lt") return *left < *right;
  if (sign == "-le") return *left <= *right;
  if (sign == "-gt") return *left > *right;
  if (sign == "-ge") return *left >= *right;
  return std::nullopt;
}

// Whether any of the parts between `sign` holds; with `all`, whether all do.
Truth any_holds(Terms words, std::string_view sign, bool all, Truth part_holds(Terms)) {
  bool known = true;
  for (;;) {
    const auto end = std::find(words.begin(), words.end(), sign);
    const auto count = static_cast<std::size_t>(end - words.begin());
    const Truth part = part_holds(words.first(count));
    if (part && *part != all) return !all;
    known &= part.has_value();
    if (end == words.end()) return known ? Truth(all) : std::nullopt;
    words = words.subspan(count + 1);
  }
}

// [ ... ] and [[ ... ]], without their brackets.
Truth holds(Terms words) {
  return any_holds(words, "||", false,
                   [](Terms either) { return any_holds(either, "&&", true, comparison_holds); });
}

// So much of what a script says is repeated in a note.
constexpr std::size_t kMostShown = 100;
std::string shown(std::string text) {
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

std::string as_written(const ShellTokens& tokens) {
  std::string text;
  for (const ShellToken& one : tokens) {
    if (text.size() <= kMostShown) text += (text.empty() ? "" : " ") + one.text;
  }
  return shown(std::move(text));
}

struct Outcome {
  bool success = true;
  std::string open = {};  // what it hangs on and nobody knows
};

constexpr std::size_t kMostNamed = 3;

std::string unset_text(const Run& run) {
  std::vector<std::string> names;
  for (const std::string& name : run.variables.unset) {
    if (names.size() < kMostNamed) names.push_back(shown(name));
  }
  if (names.size() < run.variables.unset.size()) names.emplace_back("others");
  return fmt::format("{} {} not set in it", enumerate(names), names.size() == 1 ? "is" : "are");
}

Outcome tested(Run& run, const ShellTokens& tokens) {
  run.variables.unset.clear();
  std::vector<std::string> words;
  for (const ShellToken& one : tokens)
    words.push_back(condition_word(run.variables, one.text, one.line));
  const bool brackets = !words.empty() && (words[0] == "[" || words[0] == "[[");
  const bool test = !words.empty() && (brackets || words[0] == "test");
  if (words.size() == 1 && (words[0] == "true" || words[0] == "false"))
    return {words[0] == "true", {}};
  if (test) words.erase(words.begin());
  if (brackets && !words.empty()) words.pop_back();
  const auto answer = test ? holds(words) : std::nullopt;
  if (!answer) return {false, fmt::format("'{}' cannot be known here", as_written(tokens))};
  if (run.variables.unset.empty()) return {*answer, {}};
  return {*answer, unset_text(run)};
}

bool is_done(const Run& run) {
  return std::all_of(run.branches.begin(), run.branches.end(),
                     [](const Branch& one) { return one.taken; });
}

// The names of options that a word as written holds.
void gather_options(const ShellToken& token, std::vector<std::string>& names) {
  for (const ShellToken& item : token.items) gather_options(item, names);
  const std::string& text = token.text;
  for (std::size_t at = text.find("--"); at != std::string::npos && names.size() <= kMostNamed;) {
    const std::size_t end = std::min(text.find_first_of(" \t\n\"'=\\$", at), text.size());
    if (end > at + 2) names.push_back(shown(text.substr(at, end - at)));
    at = text.find("--", end);
  }
}

void note(Run& run, std::size_t line, std::string text) {
  if (make(run.variables, text.size() + sizeof(std::string), line))
    run.notes.push_back(fmt::format("{}: {}", line, text));
}

// Options that are not taken, though nobody knows that they are not; whether there are any.
bool note_left_out(Run& run, const ShellTokens& tokens, std::size_t line, const std::string& open) {
  std::vector<std::string> names;
  for (const ShellToken& token : tokens) gather_options(token, names);
  if (names.empty() || open.empty()) return false;
  if (names.size() > kMostNamed) {
    names.resize(kMostNamed);
    names.emplace_back("others");
  }
  note(run, line,
       fmt::format("{} under a condition {} left out: {}", enumerate(names),
                   names.size() == 1 ? "is" : "are", open));
  return true;
}

// Of a branch it is told once.
void note_branch(Run& run, const ShellTokens& tokens) {
  const auto at = std::find_if(run.branches.begin(), run.branches.end(),
                               [](const Branch& one) { return !one.taken; });
  if (!at->noted) at->noted = note_left_out(run, tokens, at->line, at->open);
}

void run_text(Run& run, std::string_view text, std::size_t line, int depth);

// ShellWords that start nothing, but say what to do.
bool is_own_word(Run& run, const ShellTokens& tokens, int depth) {
  const std::string& first = tokens[0].text;
  if (first == "export" || first == "declare" || first == "local" || first == "readonly" ||
      first == "typeset") {
    for (const ShellToken& one : tokens) {
      if (assigned_at(one.text) != std::string::npos) assign(run.variables, one);
      if (first == "export")
        set_environment(run.variables, one.text.substr(0, name_end(one.text, 0)), one.line);
    }
    return true;
  }
  if (first == "unset") {
    for (const ShellToken& one : tokens) run.variables.values.erase(one.text);
    return true;
  }
  bool filled = false;
  if (first == "eval") {
    ShellWords words;
    for (const ShellToken& one : tokens) {
      for (ShellWord& word : shell_words(run.variables, one, filled))
        words.push_back(std::move(word));
    }
    if (!words.empty()) words.erase(words.begin());
    run_text(run, joined(words), tokens[0].line, depth + 1);
    return true;
  }
  if ((first == "source" || first == ".") && tokens.size() > 1) {
    note(run, tokens[0].line, fmt::format("{} is not read", shown(tokens[1].text)));
    return true;
  }
  return first == "echo" || first == "printf" || first == "exit" || first == "set";
}

void run_command(Run& run, ShellTokens tokens, int depth) {
  auto command_at = tokens.begin();
  for (; command_at != tokens.end(); ++command_at) {
    if (assigned_at(command_at->text) == std::string::npos) break;
    assign(run.variables, *command_at);
    const std::string name = command_at->text.substr(0, name_end(command_at->text, 0));
    set_environment(run.variables, name, command_at->line);
  }
  tokens.erase(tokens.begin(), command_at);
  run.last = true;
  run.open.clear();
  if (tokens.empty() || is_own_word(run, tokens, depth)) return;
  if (tokens[0].text == "[" || tokens[0].text == "[[" || tokens[0].text == "test") {
    const Outcome outcome = tested(run, tokens);
    run.last = outcome.success;
    run.open = outcome.open;
    return;
  }
  Command command;
  for (const ShellToken& one : tokens) {
    for (ShellWord& word : shell_words(run.variables, one, command.filled))
      command.words.push_back(std::move(word));
  }
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& text = command.words[i].text;
    const bool shell = i > 1 && command.words[i - 1].text.ends_with('c') &&
                       command.words[i - 1].text.starts_with('-') &&
                       command.words[i - 2].text.ends_with("sh");
    if (shell) return run_text(run, text, command.words[i].line, depth + 1);
    if (text.starts_with("--wrap="))
      return run_text(run, text.substr(7), command.words[i].line, depth + 1);
  }
  if (options_in(command.words) > 0) run.commands.push_back(std::move(command));
}

void begin_branch(Run& run, Branch branch) {
  if (run.branches.size() == kMostBranches)
    return stop(run.variables, branch.line,
                fmt::format("conditions and loops nest more than {} deep", kMostBranches));
  run.branches.push_back(std::move(branch));
}

// if, elif, while, for, case: the statement that one begins with.
bool begins_branch(Run& run, ShellTokens& tokens) {
  const std::string first = tokens[0].text;
  const std::size_t line = tokens[0].line;
  if (first == "if" || first == "elif") {
    tokens.erase(tokens.begin());
    if (first == "if") begin_branch(run, {.kind = Branch::Kind::If, .line = line});
    if (run.branches.empty()) return true;
    Branch& branch = run.branches.back();
    const Outcome outcome = tested(run, tokens);
    branch.any |= first == "elif" && branch.taken;
    branch.taken = outcome.success && !branch.any;
    if (!outcome.open.empty()) branch.open = outcome.open;
    branch.condition = true;
    branch.noted = false;
    branch.line = line;
    return true;
  }
  if (first == "while" || first == "until" || first == "for" || first == "select") {
    if (tokens.size() > 1 && first == "for") run.variables.values.erase(tokens[1].text);
    begin_branch(run, {.kind = Branch::Kind::Loop, .line = line});
    return true;
  }
  if (first != "case" || tokens.size() < 2) return false;
  run.variables.unset.clear();
  Branch branch{.kind = Branch::Kind::Case, .taken = false, .pattern = true, .line = line};
  branch.word = condition_word(run.variables, tokens[1].text, line);
  if (!run.variables.unset.empty()) branch.open = unset_text(run);
  begin_branch(run, std::move(branch));
  return true;
}

// then, else, do, { and their ends; what stands behind them is a statement of its own.
void take_off_keywords(Run& run, ShellTokens& tokens) {
  auto statement = tokens.begin();
  for (; statement != tokens.end(); ++statement) {
    const std::string& first = statement->text;
    Branch* branch = run.branches.empty() ? nullptr : &run.branches.back();
    if (first == "then" && branch != nullptr) {
      branch->condition = false;
    } else if (first == "else" && branch != nullptr) {
      branch->any |= branch->taken;
      branch->taken = !branch->any;
    } else if (first == "fi" || first == "done" || first == "esac") {
      if (branch != nullptr) run.branches.pop_back();
    } else if (first != "do" && first != "{" && first != "}" && first != "!" && first != "time" &&
               first != "nohup" && first != "exec") {
      break;
    }
  }
  tokens.erase(tokens.begin(), statement);
}

void run_statement(Run& run, ShellTokens tokens, const std::string& before, int depth) {
  take_off_keywords(run, tokens);
  if (tokens.empty()) return;
  Branch* branch = run.branches.empty() ? nullptr : &run.branches.back();
  if (branch != nullptr && branch->condition && tokens[0].text != "if") {  // more of a condition
    const Outcome outcome = tested(run, tokens);
    branch->taken = before == "&&"   ? branch->taken && outcome.success
                    : before == "||" ? (branch->taken || outcome.success) && !branch->any
                                     : branch->taken;
    if (!outcome.open.empty()) branch->open = outcome.open;
    return;
  }
  if (begins_branch(run, tokens)) return;
  if (!is_done(run)) return note_branch(run, tokens);
  if ((before == "&&" && !run.last) || (before == "||" && run.last)) {
    note_left_out(run, tokens, tokens[0].line, run.open);
    return;
  }
  run_command(run, std::move(tokens), depth);
}

// a|b) of case: whether it is the one; its end is behind the tokens that are used up.
std::size_t take_pattern(Run& run, const ShellTokens& tokens, std::size_t at) {
  Branch& branch = run.branches.back();
  bool match = false;
  for (; at < tokens.size(); ++at) {
    const ShellToken& one = tokens[at];
    if (one.kind == ShellToken::Kind::Operator && one.text == ")") break;
    if (one.kind != ShellToken::Kind::Word) continue;
    if (one.text == "esac") {
      run.branches.pop_back();
      return at;
    }
    const std::string text = condition_word(run.variables, one.text, one.line);
    match |= text == "*" || text == branch.word;
  }
  branch.taken = match && !branch.any;
  branch.any |= match;
  branch.pattern = false;
  branch.noted = false;
  return at;
}

void run_text(Run& run, std::string_view text, std::size_t line, int depth) {
  run.read += text.size();
  if (depth > kMostNested)
    stop(run.variables, line, fmt::format("eval and -c nest more than {} deep", kMostNested));
  if (run.read > kMostRead)
    stop(run.variables, line, fmt::format("eval and -c read more than {} MiB", kMostRead >> 20));
  if (!make(run.variables, sizeof(ShellToken), line)) return;
  const ShellTokens tokens = shell_tokens(text);
  ShellTokens statement;
  std::string before;
  bool tests = false;  // a [[ is open
  const auto end = [&](const std::string& sign) {
    if (!statement.empty()) run_statement(run, std::exchange(statement, {}), before, depth);
    before = sign;
    tests = false;
  };
  for (std::size_t at = 0; at < tokens.size() && !run.variables.beyond; ++at) {
    ShellToken token = tokens[at];
    if (line > 0) token.line = line;
    Branch* branch = run.branches.empty() ? nullptr : &run.branches.back();
    if (branch != nullptr && branch->pattern && statement.empty()) {
      at = take_pattern(run, tokens, at);
    } else if (token.kind != ShellToken::Kind::Operator) {
      const bool closes = token.text == "]]";
      tests |= token.text == "[[";
      statement.push_back(std::move(token));
      if (closes) end("");
    } else if (tests) {
      statement.push_back(std::move(token));
    } else {
      end(token.text);
      branch = run.branches.empty() ? nullptr : &run.branches.back();
      if (token.text == ";;" && branch != nullptr && branch->kind == Branch::Kind::Case)
        branch->pattern = true;
    }
  }
  end("");
}

// Where the program stands: the words before are the launcher's.
std::size_t program_at(const ShellWords& words) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool value =
        i > 0 && is_option(words[i - 1].text) && words[i - 1].text.find('=') == std::string::npos;
    const bool module = i > 0 && words[i - 1].text == "-m";
    if ((words[i].text.ends_with(".py") && !value) || module) first = i;
  }
  return first;
}

bool launches(const ShellWords& words) {
  constexpr std::string_view kLaunchers[] = {"torchrun", "deepspeed", "accelerate", "srun",
                                             "mpirun",   "python",    "python3"};
  return std::any_of(words.begin(), words.end(), [&](const ShellWord& one) {
    const std::string name = one.text.substr(one.text.rfind('/') + 1);
    return name.ends_with(".py") ||
           std::find(std::begin(kLaunchers), std::end(kLaunchers), name) != std::end(kLaunchers);
  });
}

// Of a variable that no command uses: an item such as "--lr 1" is for a use without quotes.
ShellWords held_words(const ShellValue& value) {
  if (!value.array) return split_words(value.words);
  ShellWords words;
  for (const ShellWord& item : value.words) {
    const ShellWords parts = is_option(item.text) ? split_words({item}) : ShellWords{item};
    words.insert(words.end(), parts.begin(), parts.end());
  }
  return words;
}

// The one that starts the training: of those that launch anything, the last with most options.
const Command* best_of(const std::vector<Command>& commands) {
  const Command* best = nullptr;
  std::pair<bool, std::size_t> most;
  for (const Command& one : commands) {
    if (is_option(one.words[0].text)) continue;  // a line of settings
    const std::pair now(launches(one.words), options_in(one.words));
    if (best != nullptr && now < most) continue;
    best = &one;
    most = now;
  }
  return best;
}

Script script_of(Run run) {
  Script script;
  script.groups.emplace_back();
  for (const auto& [name, word] : run.variables.environment) script.groups[0].push_back(word);
  const Command* best = best_of(run.commands);
  std::vector<ShellWords> held;  // by arrays, strings and lines
  std::size_t options = 0;
  for (const std::string& name : run.variables.names) {
    const auto found = run.variables.values.find(name);
    if (found == run.variables.values.end()) continue;
    ShellWords words = held_words(found->second);
    options += options_in(words);
    if (found->second.array || options_in(words) > 0) held.push_back(std::move(words));
    run.variables.values.erase(found);  // one that was unset and set again has its name twice
  }
  const bool starts = best != nullptr &&
                      (launches(best->words) || best->filled || options_in(best->words) >= options);
  for (const Command& one : run.commands) {
    if (!is_option(one.words[0].text)) continue;
    if (starts)
      run.notes.push_back(
          fmt::format("{}: {} starts a line that no '\\' joins to a command, and is left out",
                      one.words[0].line, one.words[0].text));
    else
      held.push_back(one.words);
  }
  if (starts) {
    const auto program = best->words.begin() + static_cast<std::ptrdiff_t>(program_at(best->words));
    held = {{program, best->words.end()}};
    // A program that cannot be told from an option's value leaves its launcher's options to it.
    script.launcher = {best->words.begin(),
                       program == best->words.begin() ? best->words.end() : program};
  }
  script.groups.insert(script.groups.end(), held.begin(), held.end());
  script.notes = std::move(run.notes);
  return script;
}

}  // namespace

Result<Script> read_script(std::string_view text, std::string_view origin) {
  Run run;
  run_text(run, text, 0, 0);
  if (const auto& beyond = run.variables.beyond)
    return fail(fmt::format("{}:{}", origin, std::max<std::size_t>(beyond->line, 1)), beyond->what,
                "write the options of its command into a script or file of their own");
  return script_of(std::move(run));
}

}  // namespace trainwright::detail
