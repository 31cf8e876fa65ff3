// trainwright plan: which layouts to run, ranked by a rough time model, with the memory of each.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/report/report.h"
#include "trainwright/search/search.h"

namespace trainwright::cli {
namespace {

// Everything that was asked, read.
struct Wanted {
  Model model;
  Cluster cluster;
  Trainer trainer;
  Job job;
  MemoryConstants constants;
  std::int64_t gbs = 0, seq = 0;
  double risk = 0.05;
};

// All faults of all arguments at once.
Result<Wanted> read_wanted(const Invocation& invocation) {
  Diagnostics faults;
  Surroundings around = read_surroundings(words_of(invocation), invocation.data.path(), faults);
  const auto constants = value_or_faults(invocation.data.memory_constants(), faults);
  Wanted wanted;
  wanted.gbs = *invocation.integer("batch");
  wanted.seq = *invocation.integer("seq");
  wanted.risk = invocation.number("risk").value_or(wanted.risk);
  const auto in_range = [&](const char* name, std::int64_t value) {
    if (value >= 1 && value <= kMostBatch) return;
    faults.push_back({name, fmt::format("{} is not between 1 and {}", value, kMostBatch), ""});
  };
  in_range("--batch", wanted.gbs);
  in_range("--seq", wanted.seq);
  if (!(wanted.risk > 0 && wanted.risk < 1)) {
    faults.push_back({"--risk", fmt::format("{} is no chance", wanted.risk),
                      "give a number between 0 and 1, such as 0.05"});
  }
  if (!faults.empty()) return fail(std::move(faults));
  wanted.model = *std::move(around.model);
  wanted.cluster = *std::move(around.cluster);
  wanted.trainer = *std::move(around.trainer);
  wanted.job = *std::move(around.job);
  wanted.constants = **constants;
  return wanted;
}

// "7-8-7": layers of the first stage, those between and the last, where ends take part in the
// split.
std::string split_text(const Layout& layout, const Model& model) {
  if (layout.count_embedding + layout.count_loss + layout.first_layers + layout.last_layers == 0) {
    return {};
  }
  const auto stages = stage_layers(layout, model);
  if (!stages || stages->size() < 2) return {};
  std::string text = fmt::format(" {}-", stages->front().count);
  if (stages->size() > 2) text += fmt::format("{}-", (*stages)[1].count);
  return text + std::to_string(stages->back().count);
}

// Only what differs from layout to layout: "tp2 pp8 dp4 mbs1 zero1 full". Batch and sequence are in
// the heading.
std::string short_text(const Layout& layout, const Model& model) {
  std::string text = fmt::format("tp{} pp{}", layout.tp, layout.pp);
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 1) text += fmt::format(" {}{}", name, value);
  };
  add("vpp", layout.vpp);
  add("cp", layout.cp);
  add("ep", layout.ep);
  if (layout.ep > 1) add("etp", layout.etp);
  text += fmt::format(" dp{} mbs{}", layout.dp, layout.mbs);
  if (layout.zero > 0) {
    text += layout.sharding == ShardingKind::Zero ? fmt::format(" zero{}", layout.zero)
                                                  : fmt::format(" {}", name_of(layout.sharding));
  }
  if (layout.recompute.kind != RecomputeKind::None) text += ' ' + to_text(layout.recompute);
  return text + split_text(layout, model);
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::vector<std::string> row_of(const PlannedLayout& plan, const Model& model, std::string place) {
  const RankClass& worst = plan.memory.classes[plan.memory.worst];
  return {std::move(place),
          short_text(plan.layout, model),
          fmt::format("{:.2f} s", plan.time.step.value()),
          percent(plan.mfu),
          to_text(worst.driver),
          percent(plan.memory.oom)};
}

SearchQuestion question_of(const Wanted& wanted, const Cluster& cluster) {
  return {.model = wanted.model,
          .cluster = cluster,
          .trainer = wanted.trainer,
          .job = wanted.job,
          .gbs = wanted.gbs,
          .seq = wanted.seq,
          .constants = wanted.constants,
          .risk = wanted.risk};
}

std::string table_text(const SearchResult& result, const Model& model, int width) {
  Table table{{{"", Align::Right},
               {"layout", Align::Wrap},
               {"step", Align::Right},
               {"MFU", Align::Right},
               {"fullest rank", Align::Right},
               {"OOM", Align::Right}},
              {}};
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    table.rows.push_back(row_of(result.best[i], model, std::to_string(i + 1)));
  }
  if (result.smallest) table.rows.push_back(row_of(*result.smallest, model, ""));
  return to_text(table, width);
}

// The seconds of the first layout, largest part first.
std::string parts_text(const RoughTime& time) {
  std::vector<std::pair<Seconds, const char*>> parts = {
      {time.compute, "compute"},        {time.bubble, "pipeline bubble"},
      {time.tensor, "tensor parallel"}, {time.context, "context parallel"},
      {time.expert, "expert parallel"}, {time.data, "data parallel"},
      {time.pipeline, "between stages"}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (const auto& [seconds, name] : parts) {
    if (seconds > time.step * 0.001) {
      texts.push_back(fmt::format("{} {:.2f} s", name, seconds.value()));
    }
  }
  return join(texts, ", ");
}

// The same job on so many accelerators of the same kind, doubling until something fits.
struct LargerCluster {
  std::string name;
  PlannedLayout plan;
};
std::optional<LargerCluster> smallest_that_fits(const Wanted& wanted, const Hardware& hardware) {
  constexpr int kDoublings = 6;
  const Group& group = wanted.cluster.groups.front();
  std::int64_t count = accelerator_count(wanted.cluster);
  for (int i = 0; i < kDoublings && count <= kMostAccelerators / 2; ++i) {
    count *= 2;
    const auto cluster =
        parse_cluster(fmt::format("{}x{}", count, group.accelerator.name), hardware);
    if (!cluster) return std::nullopt;
    SearchQuestion question = question_of(wanted, *cluster);
    question.most = 1;
    const auto result = search(question);
    if (result && !result->best.empty()) return LargerCluster{cluster->name, result->best.front()};
  }
  return std::nullopt;
}

std::string answer_text(const Wanted& wanted, const SearchResult& result, int width) {
  const Bytes capacity = wanted.cluster.groups.front().accelerator.memory_visible;
  std::string text = fmt::format(
      "{} on {} with {} {}\n{} sequences of {} tokens a step; {} usable per accelerator\n\n",
      wanted.model.name, wanted.cluster.name, wanted.trainer.title, to_text(wanted.trainer.version),
      with_thousands(wanted.gbs), with_thousands(wanted.seq), to_text(capacity));
  if (result.best.empty() && !result.smallest) {
    return text + "no layout divides this batch and model over the cluster\n";
  }
  if (result.best.empty()) text += "nothing fits; the layout that needs least:\n\n";
  text += table_text(result, wanted.model, width) + '\n';
  const auto say = [&](const std::string& prose) {
    for (const std::string& line : wrapped(prose, width)) text += line + '\n';
  };
  say("rough time model: half of the peak, nothing overlaps; good for an order, not for a "
      "forecast");
  if (std::any_of(result.best.begin(), result.best.end(), [&](const PlannedLayout& plan) {
        return !split_text(plan.layout, wanted.model).empty();
      })) {
    say("a-b-c: layers of the first stage, of those between, of the last");
  }
  if (!result.best.empty()) {
    say(fmt::format("1: {}", parts_text(result.best.front().time)));
    say(fmt::format("as settings: {}", to_text(result.best.front().layout)));
  }
  say(fmt::format("{} layouts listed, {} do not fit, {} refused by the trainer, {} slower ones",
                  with_thousands(result.listed), with_thousands(result.too_large),
                  with_thousands(result.refused), with_thousands(result.not_asked)));
  return text;
}

Result<Output> run_plan(const Invocation& invocation) {
  const Wanted wanted = TW_TRY(read_wanted(invocation));
  const SearchResult result = TW_TRY(search(question_of(wanted, wanted.cluster)));
  const Exit exit = result.best.empty() ? Exit::DoesNotFit : Exit::Ok;
  if (invocation.json) return Output{to_text(to_json(result)), exit};
  std::string text = answer_text(wanted, result, invocation.width);
  if (result.best.empty()) {
    const Hardware& hardware = *TW_TRY(invocation.data.hardware());
    const auto larger = smallest_that_fits(wanted, hardware);
    text += larger ? fmt::format("fits on {}: {}\n", larger->name,
                                 short_text(larger->plan.layout, wanted.model))
                   : "no larger cluster of these accelerators was found to fit\n";
  }
  return Output{std::move(text), exit};
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .summary = "the ten fastest layouts that fit, by a rough time model",
      .details =
          "Lists every layout that divides, drops those whose fullest rank would run out of "
          "memory, and ranks the rest. The time model is rough: FLOPs at half of the peak, "
          "bytes over links, the bubble of 1F1B.",
      .examples = {"trainwright plan llama-3.1-70b --on 64xH100 --batch 1024 --seq 8192",
                   "trainwright plan llama-2-7b --on 8xA100-40GB --batch 64 --seq 4096 --trainer "
                   "paddlenlp --json"},
      .arguments = {{"model", Argument::Kind::Text, "a zoo name or a config.json", true},
                    {"--on", Argument::Kind::Text, "<count>x<accelerator>, or a cluster", true,
                     "CLUSTER"},
                    {"--batch", Argument::Kind::Integer, "sequences in a step", true, "N"},
                    {"--seq", Argument::Kind::Integer, "tokens in a sequence", true, "TOKENS"},
                    {"--trainer", Argument::Kind::Text, kTrainerHelp, false, "TRAINER"},
                    {"--job", Argument::Kind::Text, kJobHelp, false, "JOB"},
                    {"--risk", Argument::Kind::Number,
                     "highest chance of running out of memory, 0.05", false, "CHANCE"}},
      .run = run_plan};
}

}  // namespace trainwright::cli
