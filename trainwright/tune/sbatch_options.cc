// The words of --slurm.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainwright/base/text.h"
#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr std::string_view kWhere = "--slurm";

Result<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (escapes) {
      words.back() += text[++i];
    } else if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0)
    return fail(std::string(kWhere), fmt::format("a {} has no end", quote), "close the quotes");
  return words;
}

struct Refused {
  std::string_view name, letter, why, hint;
};
constexpr std::array<Refused, 8> kRefused{{
    {"--array", "-a", "an array is many jobs, a trial is one",
     "`tune` submits a job for each trial"},
    {"--wrap", "", "the trial's command comes after --", "leave it out"},
    {"--job-name", "-J", "a trial's job is found by the name that it gets here", "use --comment"},
    {"--output", "-o", "the log is read from the trial's folder", "leave it out"},
    {"--error", "-e", "the log is read from the trial's folder", "leave it out"},
    {"--parsable", "", "it is given already", "leave it out"},
    {"--wait", "-W", "trials are waited for here", "leave it out"},
    {"--test-only", "", "it submits nothing", "leave it out"},
}};

bool is_option(std::string_view word, std::string_view name, std::string_view letter) {
  if (word == name || word.starts_with(std::string(name) + '=')) return true;
  return !letter.empty() && word.starts_with(letter) && !word.starts_with("--");
}

}  // namespace

Result<std::vector<std::string>> sbatch_options(std::string_view text) {
  std::vector<std::string> words = TW_TRY(words_of(text));
  Diagnostics faults;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string where = fmt::format("{} {}", kWhere, word);
    for (const Refused& one : kRefused) {
      if (is_option(word, one.name, one.letter))
        faults.push_back({where, std::string(one.why), std::string(one.hint)});
    }
    if (word == ":") {
      faults.push_back(
          {where, "a heterogeneous job has parts with ids of their own, which are not followed",
           "give one kind of node"});
    }
    const bool next = word == "--export" && i + 1 < words.size() && words[i + 1] == "NONE";
    if (word == "--export=NONE" || next) {
      faults.push_back({where, "the settings of a trial travel in its environment",
                        "--export=ALL, or leave it out"});
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  return words;
}

}  // namespace trainwright
