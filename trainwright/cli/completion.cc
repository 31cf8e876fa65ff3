// trainwright completion: the shells' scripts, and what they ask for.
#include "trainwright/cli/completion.h"

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/cli/help.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::cli {
namespace {

std::vector<std::string> model_names(const DataDirectory& data) {
  std::vector<std::string> names;
  std::error_code fault;
  for (const auto& file : std::filesystem::directory_iterator(data.path() + "/models", fault)) {
    names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Named clusters, and after a count, as in 64xH, every accelerator.
std::vector<std::string> cluster_names(const DataDirectory& data, std::string_view begun) {
  std::vector<std::string> names;
  const auto hardware = data.hardware();
  if (!hardware) return names;
  for (const Cluster& cluster : (*hardware)->clusters) names.push_back(cluster.name);
  const std::size_t last = begun.find_last_of('x');
  if (last == std::string_view::npos || begun.find_first_not_of("0123456789x") < last) return names;
  for (const Accelerator& accelerator : (*hardware)->accelerators) {
    names.push_back(std::string(begun.substr(0, last + 1)) + accelerator.name);
  }
  return names;
}

std::vector<std::string> trainer_names(const DataDirectory& data) {
  std::vector<std::string> names;
  const auto trainers = data.trainers();
  if (!trainers) return names;
  for (const Trainer& trainer : **trainers) {
    if (trainer.unlisted) continue;
    if (names.empty() || names.back() != trainer.name) names.push_back(trainer.name);
  }
  return names;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names = {"auto"};
  for (const KindFacts& facts : kinds()) names.emplace_back(facts.name);
  return names;
}

std::vector<std::string> topic_names() {
  std::vector<std::string> names = help_topics();
  for (const Command& command : all_commands()) names.push_back(command.name);
  return names;
}

// By the argument's name, which means the same in every command; else the choices that its value's
// name lists.
std::vector<std::string> values_of(const Argument& argument, std::string_view begun,
                                   const DataDirectory& data) {
  const std::string name = bare_name(argument.name);
  if (name == "model") return model_names(data);
  if (name == "on") return cluster_names(data, begun);
  if (name == "trainer") return trainer_names(data);
  if (name == "kinds" || argument.name == "schedule") return schedule_names();
  if (name == "topic") return topic_names();
  if (name == "precision") return to_strings(all_names(PrecisionKind{}));
  if (name == "optimizer") return to_strings(all_names(OptimizerKind{}));
  const auto choices = split(argument.value_name, '|');
  if (choices.size() < 2 || lower_case(choices[0]) != choices[0]) return {};
  return {choices.begin(), choices.end()};
}

std::vector<Candidate> beginning(std::string_view begun, std::vector<Candidate> all) {
  std::erase_if(all, [&](const Candidate& one) { return !one.word.starts_with(begun); });
  return all;
}

// Where the words before the last have led to.
struct Place {
  Command command;
  std::optional<Argument> awaits = std::nullopt;  // the option whose value comes next
  std::size_t positionals = 0;                    // that were given

  std::vector<Argument> options() const;
  std::optional<Argument> positional() const;
  void read(const std::string& word);
};

std::vector<Argument> Place::options() const {
  std::vector<Argument> all = command.arguments;
  for (const Argument& argument : common_arguments()) all.push_back(argument);
  all.push_back({"--help", Argument::Kind::Flag, "print this help and exit"});
  std::erase_if(all, [](const Argument& argument) { return !argument.is_option(); });
  return all;
}

std::optional<Argument> Place::positional() const {
  std::optional<Argument> found;
  std::size_t index = 0;
  for (const Argument& argument : command.arguments) {
    if (argument.is_option()) continue;
    if (index++ == positionals || argument.kind == Argument::Kind::Texts) found = argument;
  }
  return found;
}

void Place::read(const std::string& word) {
  if (awaits) {
    awaits.reset();
  } else if (word.starts_with('-')) {
    for (const Argument& option : options()) {
      const auto names = split(option.name, ',');
      const bool named = std::find(names.begin(), names.end(), word) != names.end();
      if (named && option.kind != Argument::Kind::Flag) awaits = option;
    }
  } else if (command.commands.empty()) {
    ++positionals;
  } else {
    const auto sub = std::find_if(command.commands.begin(), command.commands.end(),
                                  [&](const Command& one) { return one.name == word; });
    if (sub != command.commands.end()) command = Command(*sub);
  }
}

std::vector<Candidate> named(const std::vector<std::string>& names, const std::string& before) {
  std::vector<Candidate> all;
  for (const std::string& name : names) all.push_back({before + name, ""});
  return all;
}

std::vector<Candidate> options_at(const Place& place, const std::string& begun,
                                  const DataDirectory& data) {
  const std::size_t equals = begun.find('=');
  std::vector<Candidate> all;
  for (const Argument& option : place.options()) {
    for (const std::string_view name : split(option.name, ',')) {
      if (equals == std::string::npos) all.push_back({std::string(name), option.help});
      if (begun.substr(0, equals) != name || equals == std::string::npos) continue;
      all = named(values_of(option, begun.substr(equals + 1), data), std::string(name) + "=");
    }
  }
  return beginning(begun, std::move(all));
}

constexpr const char* kBash =
    R"sh(# bash completion of trainwright, made by `trainwright completion bash`
_trainwright() {
  local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  mapfile -t COMPREPLY < <("$1" completion words -- "${words[@]}" 2>/dev/null | cut -f1)
}
complete -o default -F _trainwright trainwright
)sh";

constexpr const char* kZsh = R"sh(#compdef trainwright
# zsh completion of trainwright, made by `trainwright completion zsh`
_trainwright() {
  local line
  local -a found
  for line in "${(@f)$("$words[1]" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#found )); then _describe trainwright found; else _files; fi
}
if [[ $funcstack[1] == _trainwright ]]; then _trainwright "$@"; else compdef _trainwright trainwright; fi
)sh";

constexpr const char* kFish =
    R"sh(# fish completion of trainwright, made by `trainwright completion fish`
function __trainwright_words
    set -l typed (commandline -opc) "$(commandline -ct)"
    $typed[1] completion words -- $typed[2..] 2>/dev/null
end
complete -c trainwright -n 'test (count (__trainwright_words)) -gt 0' -f -a '(__trainwright_words)'
)sh";

Result<Output> answer(const Invocation& invocation, const char* script) {
  if (!invocation.json) return Output{script};
  return Output{document_text(invocation.data, Json::object().add("script", Json::of(script)))};
}

Result<Output> run_words(const Invocation& invocation) {
  Output output;
  Json list = Json::array();
  const std::vector<std::string> typed = invocation.texts("typed");
  for (const Candidate& one : next_words(typed, invocation.data)) {
    output.text += one.word + '\t' + one.what + '\n';
    list.push(Json::object().add("word", Json::of(one.word)).add("what", Json::of(one.what)));
  }
  if (invocation.json) {
    output.text = document_text(invocation.data, Json::object().add("words", std::move(list)));
  }
  return output;
}

}  // namespace

std::vector<Candidate> next_words(std::span<const std::string> typed, const DataDirectory& data) {
  Place place{.command = {.name = "trainwright", .summary = "", .commands = all_commands()}};
  std::vector<std::string> words(typed.begin(), typed.end());
  if (words.empty()) words.emplace_back();
  // bash makes three words of --on=64xH100.
  if (words.back() == "=") words.emplace_back();
  std::erase(words, "=");
  const std::string begun = words.back();
  words.pop_back();
  for (const std::string& word : words) place.read(word);
  if (place.awaits) return beginning(begun, named(values_of(*place.awaits, begun, data), ""));
  if (begun.starts_with('-')) return options_at(place, begun, data);
  std::vector<Candidate> all;
  for (const Command& command : place.command.commands) {
    all.push_back({command.name, command.summary});
  }
  const auto positional = place.positional();
  if (positional) all = named(values_of(*positional, begun, data), "");
  if (all.empty() && !positional) return options_at(place, begun, data);
  return beginning(begun, std::move(all));
}

Command completion_command() {
  return {.name = "completion",
          .summary = "completion of commands, options and names in bash, zsh and fish",
          .examples = {"source <(trainwright completion bash)",
                       "trainwright completion zsh > ~/.zfunc/_trainwright",
                       "trainwright completion fish > ~/.config/fish/completions/trainwright.fish"},
          .commands = {
              {.name = "bash",
               .summary = "a script for bash 4 and later",
               .examples = {"source <(trainwright completion bash)"},
               .run = [](const Invocation& invocation) { return answer(invocation, kBash); }},
              {.name = "zsh",
               .summary = "a function for a folder of zsh's fpath",
               .examples = {"trainwright completion zsh > ~/.zfunc/_trainwright"},
               .run = [](const Invocation& invocation) { return answer(invocation, kZsh); }},
              {.name = "fish",
               .summary = "a script for fish 3.4 and later",
               .examples = {"trainwright completion fish | source"},
               .run = [](const Invocation& invocation) { return answer(invocation, kFish); }},
              {.name = "words",
               .summary = "what may come next; the scripts ask this",
               .examples = {"trainwright completion words -- show mo"},
               .arguments = {{"typed", Argument::Kind::Texts,
                              "words so far, after --; the last is being typed", false, "WORD"}},
               .run = run_words}}};
}

}  // namespace trainwright::cli
