// Command lines that a page about a plan offers, and what would fit where nothing does.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/export/export.h"

namespace trainwright::cli {
namespace {

// A question that asks for less, or has more.
struct Lesser {
  std::string does;
  Options options;
  Wanted wanted;
};

Result<std::optional<Wanted>> with_adapters(const Invocation& invocation, const Wanted& wanted,
                                            const std::string& job, const std::string& trainer) {
  Wanted other = wanted;
  if (!trainer.empty()) other.trainer = TW_TRY(invocation.data.trainer(trainer));
  other.job = TW_TRY(parse_job(job));
  if (!job_faults(other.job, other.model, other.trainer).empty()) return std::nullopt;
  other.precision = usual_precision(other.cluster, other.trainer);
  return other;
}

// Adapters with the trainer at hand, or with the one that has all kinds of them.
Result<std::vector<Lesser>> adapters(const Invocation& invocation, const Wanted& wanted) {
  constexpr const char* kAnyAdapter = "accelerate";
  std::vector<Lesser> list;
  if (wanted.job.lora) return list;
  for (const auto& [job, does] :
       {std::pair{"lora=16", "train adapters only (LoRA)"},
        {"qlora=16", "train adapters only, on weights stored in 4 bits (QLoRA)"}}) {
    for (const std::string trainer : {"", kAnyAdapter}) {
      auto other = TW_TRY(with_adapters(invocation, wanted, job, trainer));
      if (!other) continue;
      Options options = {{"job", job}};
      if (!trainer.empty()) options["trainer"] = trainer;
      const std::string with = trainer.empty() ? "" : fmt::format(", with {}", trainer);
      list.push_back({does + with, std::move(options), *std::move(other)});
      break;
    }
  }
  return list;
}

Lesser shorter(const Wanted& wanted) {
  Lesser lesser{
      "sequences of a quarter of the length", {{"seq", std::to_string(wanted.seq / 4)}}, wanted};
  lesser.wanted.seq = wanted.seq / 4;
  return lesser;
}

std::string found_text(const Wanted& wanted, const PlannedLayout& plan) {
  return fmt::format("{}: {} a step, {} on the fullest rank", short_text(plan.layout, wanted.model),
                     seconds_text(plan.time.step),
                     to_text(plan.memory.classes[plan.memory.worst].driver));
}

// The fastest layout of a question, first without the host's memory; empty if nothing fits.
Result<std::string> answer_to(const Wanted& wanted, const SearchQuestion& asked) {
  SearchQuestion question = question_of(wanted);
  question.most = 1;
  question.stop = asked.stop;
  for (const bool offload : {false, true}) {
    question.offload = offload;
    const SearchResult result = TW_TRY(search(question));
    if (!result.best.empty()) return found_text(wanted, result.best.front());
  }
  return std::string{};
}

}  // namespace

std::string as_word(const std::string& word, const char* file) {
  return std::string(trim(word)).starts_with('{') ? file : word;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string text = "trainwright";
  for (const std::string& word : words) text += ' ' + shell_word(word);
  return text;
}

std::string plan_again(const Invocation& invocation, const Options& instead) {
  std::vector<std::string> words = {"plan"};
  for (const Argument& argument : plan_command().arguments) {
    const bool option = argument.name.starts_with("--");
    const std::string name = option ? argument.name.substr(2) : argument.name;
    const auto given = invocation.values.find(name);
    const auto other = instead.find(name);
    const bool writes = name == "report" || name == "details" || name == "export";
    if (writes || (given == invocation.values.end() && other == instead.end())) continue;
    const std::vector<std::string> values =
        other != instead.end() ? std::vector<std::string>{other->second} : given->second;
    if (option && values.empty()) words.push_back(argument.name);
    for (const std::string& value : values) {
      if (option) words.push_back(argument.name);
      words.push_back(as_word(value, "file.json"));
    }
  }
  return command_line(words);
}

Result<std::vector<WayOut>> ways_out(const Invocation& invocation, const Plan& plan,
                                     const SearchQuestion& asked) {
  const Wanted& wanted = plan.wanted;
  std::vector<WayOut> ways;
  if (plan.larger) {
    ways.push_back({fmt::format("more accelerators: {}", plan.larger->cluster.name),
                    found_text(wanted, plan.larger->plan),
                    plan_again(invocation, {{"on", plan.larger->cluster.name}})});
  }
  std::vector<Lesser> lesser = TW_TRY(adapters(invocation, wanted));
  if (wanted.seq >= 4096) lesser.push_back(shorter(wanted));
  for (const Lesser& one : lesser) {
    const std::string found = TW_TRY(answer_to(one.wanted, asked));
    if (!found.empty()) ways.push_back({one.does, found, plan_again(invocation, one.options)});
  }
  return ways;
}

}  // namespace trainwright::cli
