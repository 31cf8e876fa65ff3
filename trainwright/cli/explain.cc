// trainwright explain: why a layout takes as long as it does, and how another compares.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

const RankClass& fullest(const MemoryEstimate& memory) { return memory.classes[memory.worst]; }

std::string signed_text(Seconds time) {
  return (time > Seconds(0) ? "+" : "") + seconds_text(time);
}
// In GiB, so that a column has one unit.
double gib(Bytes bytes) { return static_cast<double>(bytes.value()) / (1 << 30); }
std::string gib_text(Bytes bytes) { return fmt::format("{:.2f} GiB", gib(bytes)); }
std::string signed_text(Bytes bytes) { return fmt::format("{:+.2f} GiB", gib(bytes)); }
std::string relative(Seconds now, Seconds before) {
  const double change = now / before - 1;
  return fmt::format("{}{:.1f} %", change < 0 ? "" : "+", 100 * change);
}

// "rejected: ...", "does not fit: ..." or what changes most.
std::string verdict_of(const Judged& one, const StepTime& before, double risk) {
  if (!one.refused.empty()) return "rejected: " + one.refused.front().reason;
  if (fit_of(one.memory->oom, risk) == Fit::DoesNotFit) return "does not fit";
  return differences_text(before, *one.time, 1);
}

std::vector<std::string> neighbour_row(const Neighbour& of, const Judged& here, double risk) {
  std::vector<std::string> row = {fmt::format("{} {} to {}", of.knob, of.from, of.to)};
  if (of.judged.refused.empty()) {
    row.push_back(relative(of.judged.time->step, here.time->step));
    row.push_back(gib_text(fullest(*of.judged.memory).driver));
    row.push_back(chance_text(of.judged.memory->oom));
  } else {
    row.insert(row.end(), {"", "", ""});
  }
  row.push_back(verdict_of(of.judged, *here.time, risk));
  return row;
}

std::string neighbours_text(const std::vector<Neighbour>& list, const Judged& here, double risk,
                            int width) {
  Table table{{{"one change", Align::Left},
               {"step", Align::Right},
               {"peak memory", Align::Right},
               {"P(OOM)", Align::Right},
               {"why", Align::Wrap}},
              {}};
  for (const Neighbour& of : list) table.rows.push_back(neighbour_row(of, here, risk));
  return to_text(table, width);
}

// The changes that fit, fastest first: what somebody would try.
std::vector<Neighbour> worth_trying(const std::vector<Neighbour>& list, double risk) {
  constexpr std::size_t kMost = 6;
  std::vector<Neighbour> found;
  for (const Neighbour& of : list) {
    if (of.judged.refused.empty() && fit_of(of.judged.memory->oom, risk) == Fit::Fits) {
      found.push_back(of);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Neighbour& a, const Neighbour& b) {
    return a.judged.time->step < b.judged.time->step;
  });
  found.erase(found.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, found.size())),
              found.end());
  return found;
}

std::string summary_text(const std::vector<Neighbour>& list, const Judged& here, double risk,
                         int width) {
  const std::vector<Neighbour> best = worth_trying(list, risk);
  std::string text =
      best.empty() ? "No single change fits.\n" : neighbours_text(best, here, risk, width);
  if (best.size() == list.size()) return text;
  return text + '\n' +
         wrapped_lines(
             fmt::format("{} of {} changes, the fastest that fit; --verbose shows all and why the "
                         "others are rejected, --against LAYOUT compares with any layout.",
                         best.size(), list.size()),
             width);
}

Json neighbours_json(const std::vector<Neighbour>& list) {
  Json json = Json::array();
  for (const Neighbour& of : list) {
    json.push(Json::object()
                  .add("knob", Json::of(of.knob))
                  .add("from", Json::of(of.from))
                  .add("to", Json::of(of.to))
                  .add("judged", to_json(of.judged)));
  }
  return json;
}

// The constants, which must outlive the question, are the caller's.
SearchQuestion search_question(const Question& setting, const MemoryConstants& constants,
                               const TimeConstants& time, double risk) {
  const Layout& layout = setting.read.layout;
  return {.model = setting.model,
          .cluster = setting.cluster,
          .trainer = setting.trainer,
          .job = setting.job,
          .gbs = layout.gbs,
          .seq = layout.seq,
          .precision = layout.precision,
          .attention = setting.attention,
          .constants = constants,
          .time = time,
          .risk = risk};
}

Result<Output> run_explain(const Invocation& invocation) {
  Diagnostics faults;
  const auto risk = value_or_faults(risk_in(invocation), faults);
  const auto constants = value_or_faults(memory_constants_in(invocation), faults);
  const Question setting = TW_TRY(read_setting(invocation, std::move(faults)));
  if (auto wrong = contradictions(constants->expert_load, setting.model); !wrong.empty()) {
    return fail(std::move(wrong));
  }
  const Layout& layout = setting.read.layout;
  const KnownTimes times = TW_TRY(known_times(invocation, words_of(invocation),
                                              same_step(layout.gbs, layout.seq, layout.precision)));
  const SearchQuestion question = search_question(setting, *constants, times.constants, *risk);
  std::optional<Layout> other;
  if (const auto words = invocation.text("against")) {
    other = TW_TRY(layout_like(*words, question, "--against"));
  }
  const Judged first = TW_TRY(judged(question, setting.read.layout));
  const bool verbose = invocation.flag("verbose");
  std::string text = verbose ? setting_text(setting, invocation.width)
                             : asked_text({setting.model, setting.cluster, setting.trainer,
                                           layout.precision, layout.gbs, layout.seq},
                                          invocation.width) +
                                   fmt::format("--layout {}\n", to_text(layout));
  text += '\n';
  Json json = Json::object();
  json.add("layout", to_json(first));
  if (!first.refused.empty()) {
    text += violations_text(first.refused, invocation.width);
    return Output{invocation.json ? document_text(invocation.data, json) : text, Exit::DoesNotFit};
  }
  if (other) {
    const Judged second = TW_TRY(judged(question, *other));
    text += compared_text(first, second, *risk, invocation.width);
    json.add("against", to_json(second));
  } else {
    const std::vector<Neighbour> list = TW_TRY(neighbours(question, first.layout));
    if (verbose) {
      text += wrapped_lines(time_text(*first.time, layout.precision), invocation.width) + '\n';
      text += neighbours_text(list, first, *risk, invocation.width);
    } else {
      text += wrapped_lines(speed_text(*first.time, layout.precision), invocation.width) + '\n';
      text += breakdown_text(*first.time) + '\n';
      text += summary_text(list, first, *risk, invocation.width);
    }
    json.add("neighbours", neighbours_json(list));
  }
  if (times.measured) {
    text += '\n' + wrapped_lines(to_text(*times.measured), invocation.width);
    json.add("measured", to_json(*times.measured));
  }
  return Output{invocation.json ? document_text(invocation.data, json) : text, Exit::Ok};
}

}  // namespace

Compared compared(const Judged& first, const Judged& second, double risk) {
  Compared found;
  const StepTime &a = *first.time, &b = *second.time;
  const auto seconds = [&](std::string name, Seconds x, Seconds y) {
    found.rows.push_back({std::move(name), seconds_text(x), seconds_text(y), signed_text(y - x)});
  };
  seconds("step", a.step, b.step);
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    if (std::max(a.parts[i], b.parts[i]) < a.step * 0.002) continue;
    seconds("  " + std::string(words_of(static_cast<TimePart>(i))), a.parts[i], b.parts[i]);
  }
  const RankClass &x = fullest(*first.memory), &y = fullest(*second.memory);
  const auto bytes = [&](std::string name, Bytes one, Bytes two) {
    found.rows.push_back({std::move(name), gib_text(one), gib_text(two), signed_text(two - one)});
  };
  bytes("peak memory", x.driver, y.driver);
  for (std::size_t i = 0; i < kCategories; ++i) {
    constexpr Bytes kSmall = Bytes(1 << 28);
    if (std::max(x.bytes[i], y.bytes[i]) < kSmall) continue;
    bytes("  " + words_of(static_cast<Category>(i)), x.bytes[i], y.bytes[i]);
  }
  found.rows.push_back(
      {"OOM probability", chance_text(first.memory->oom), chance_text(second.memory->oom), ""});
  const bool fits = fit_of(second.memory->oom, risk) == Fit::Fits;
  found.verdict =
      fmt::format("The other {} and takes {} of the first's time: {}.",
                  fits ? "fits" : fmt::format("does not fit at a risk of {}", risk_text(risk)),
                  percent(b.step / a.step), differences_text(a, b));
  return found;
}

std::string compared_text(const Judged& first, const Judged& second, double risk, int width) {
  if (!second.refused.empty()) return violations_text(second.refused, width);
  Compared found = compared(first, second, risk);
  const Table table{{{"", Align::Left},
                     {"first", Align::Right},
                     {"other", Align::Right},
                     {"difference", Align::Right}},
                    std::move(found.rows)};
  return to_text(table, width) + '\n' + wrapped_lines(found.verdict, width);
}

Json to_json(const Judged& judged) {
  Json json = Json::object();
  json.add("layout", Json::of(to_text(judged.layout)))
      .add("legal", Json::of(judged.refused.empty()));
  if (!judged.refused.empty()) json.add("violations", violations_json(judged.refused));
  if (judged.time) json.add("time", to_json(*judged.time));
  if (judged.memory) json.add("memory", to_json(*judged.memory));
  return json;
}

Command explain_command() {
  return {
      .name = "explain",
      .summary = "what one change of a layout would do, or how two layouts compare",
      .details =
          "Changes one parameter at a time on the same accelerators, dp taking what is left, and "
          "tells the step time, the peak memory and what speaks against it. With --against "
          "compares two layouts part by part, in time and in memory.",
      .examples = {"trainwright explain llama-2-70b --on 64xA100-80GB --layout "
                   "tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096",
                   "trainwright explain llama-2-70b --on 64xA100-80GB --layout "
                   "tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096 --against tp=4,pp=8,sp,zero=1"},
      .topics = {"layout", "job"},
      .arguments = joined({setting_arguments(),
                           {{"--against", Argument::Kind::Text,
                             "another layout; what it does not say is derived, batch and "
                             "sequence are those of --layout",
                             false, "LAYOUT"}},
                           verdict_arguments(),
                           {verbose_argument("also the changes that are slower, do not fit or "
                                             "are rejected, and why")}}),
      .run = run_explain};
}

}  // namespace trainwright::cli
