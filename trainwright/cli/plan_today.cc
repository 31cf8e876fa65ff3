// What is run today, which `plan --from` changes.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// "launch.sh", "run/ds_config.json", but not "layers=5/6*14/3".
bool names_a_file(std::string_view text) {
  constexpr std::string_view kEndings[] = {".sh", ".json", ".toml", ".yaml", ".yml", ".txt"};
  const bool path = text.find('/') != text.npos && text.find('=') == text.npos;
  return path || std::any_of(std::begin(kEndings), std::end(kEndings),
                             [&](std::string_view ending) { return text.ends_with(ending); });
}

}  // namespace

Result<ConfigWords> words_today(const Invocation& invocation) {
  Words words = words_of(invocation);
  const std::string text = invocation.text("from").value_or("");
  const std::string path = text.substr(0, text.find(','));
  if (!names_a_file(path)) {
    words.layout = text;
    return ConfigWords{std::move(words), {}, {}};
  }
  Invocation file = invocation;
  file.values["config"] = {path};
  const std::string beside = text.substr(std::min(path.size() + 1, text.size()));
  if (!beside.empty()) words.layout = amended(words.layout, beside);
  return with_config(file, std::move(words), fmt::format("behind it: --from {},mbs=1", path));
}

Result<Layout> layout_today(const std::string& words, const SearchQuestion& question) {
  Layout layout = TW_TRY(layout_like(words, question, "--from"));
  Diagnostics faults;
  const auto same = [&](const char* option, std::int64_t said, std::int64_t asked) {
    if (said == asked) return;
    faults.push_back({"--from", fmt::format("it has {}, {} asks for {}", said, option, asked),
                      "both are of the same batch"});
  };
  same("--batch", layout.gbs, question.gbs);
  same("--seq", layout.seq, question.seq);
  if (layout.precision != question.precision) {
    faults.push_back({"--from",
                      fmt::format("it is in {}, --precision asks for {}", name_of(layout.precision),
                                  name_of(question.precision)),
                      "leave one of them out"});
  }
  if (layout.schedule == ScheduleKind::Csv) {
    faults.push_back({"--from", "an order of its own is not searched", "name its schedule"});
  }
  if (!layout.recompute_by_stage.empty()) {
    faults.push_back({"--from", "recompute by stages is not searched", "give one for all stages"});
  }
  if (!faults.empty()) return fail(std::move(faults));
  return layout;
}

std::string changes_text(const Layout& from, const Layout& to) {
  std::vector<std::string> parts;
  for (const Knob knob : knobs_of(changed_knobs(from, to))) {
    parts.push_back(
        fmt::format("{} {} to {}", name_of(knob), value_of(knob, from), value_of(knob, to)));
  }
  return parts.empty() ? "as it is" : join(parts, ", ");
}

std::string today_text(const Plan& plan) {
  const std::string name = short_text(plan.today->layout, plan.wanted);
  if (!plan.today->refused.empty()) {
    return fmt::format("Today's {} is refused: {}.", name, plan.today->refused.front().reason);
  }
  const MemoryEstimate& memory = *plan.today->memory;
  const Fit fit = fit_of(memory.oom, plan.wanted.risk);
  return fmt::format(
      "Today: {}: {}, MFU {}, peak memory {}, OOM probability {}{}.", name,
      seconds_text(plan.today->time->step),
      mfu_text(*plan.today->time, plan.today->layout.precision),
      to_text(memory.classes[memory.worst].driver), chance_text(memory.oom),
      fit == Fit::Fits ? "" : (fit == Fit::Tight ? " (marginal)" : " (does not fit)"));
}

}  // namespace trainwright::cli
