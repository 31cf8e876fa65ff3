// Command lines that a page about a plan offers, and what would fit where nothing does.
#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/export/export.h"

namespace trainwright::cli {
namespace {

std::string found_text(const Wanted& wanted, const PlannedLayout& plan) {
  return fmt::format("{}: {}/step, peak memory {}", short_text(plan.layout, wanted),
                     seconds_text(plan.time.step),
                     to_text(plan.memory.classes[plan.memory.worst].driver));
}

WayOut adapters_way(const Invocation& invocation, const Wanted& wanted, const Adapters& of) {
  Options options = {{"job", job_text(of.job)}};
  std::string with;
  if (!of.trainer.empty()) {
    options["trainer"] = of.trainer;
    with = ", with " + of.trainer;
  }
  if (of.precision != wanted.precision) {
    options["precision"] = std::string(name_of(of.precision));
  }
  const bool plain = of.job.lora->base == FrozenBase::AsWeights;
  return {(plain ? "train adapters only (LoRA)"
                 : "train adapters only, on weights stored in 4 bits (QLoRA)") +
              with,
          found_text(wanted, of.plan), plan_again(invocation, options)};
}

Wanted with_quarter(Wanted wanted) {
  wanted.seq /= 4;
  return wanted;
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
    const bool writes =
        name == "report" || name == "details" || name == "export" || name == "launch";
    if (writes || (given == invocation.values.end() && other == instead.end())) continue;
    const std::vector<std::string> values =
        other != instead.end() ? std::vector<std::string>{other->second} : given->second;
    if (option && values.empty()) words.push_back(argument.name);
    for (const std::string& value : values) {
      if (option) words.push_back(argument.name);
      words.push_back(file_word(value, (name == "model" ? "config" : name) + ".json"));
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
  if (plan.with_lean_states) {
    ways.push_back({"optimizer states in fewer bits",
                    found_text(wanted, plan.with_lean_states->plan),
                    plan_again(invocation, {{"job", job_text(plan.with_lean_states->job)}})});
  }
  if (plan.with_lean_gradients && wanted.limits.empty()) {
    ways.push_back({"gradients in bf16", found_text(wanted, plan.with_lean_gradients->plan),
                    plan_again(invocation, {{"fix", to_text(plan.with_lean_gradients->limit)}})});
  }
  if (plan.adapters) ways.push_back(adapters_way(invocation, wanted, *plan.adapters));
  if (wanted.seq >= 4096) {
    const Wanted shorter = with_quarter(wanted);
    const std::string found = TW_TRY(answer_to(shorter, asked));
    if (!found.empty()) {
      ways.push_back({"sequences of a quarter of the length", found,
                      plan_again(invocation, {{"seq", std::to_string(shorter.seq)}})});
    }
  }
  return ways;
}

}  // namespace trainwright::cli
