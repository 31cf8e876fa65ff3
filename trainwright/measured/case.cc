// From runs to cases: a row goes through the rules of its source, the words it comes to are read
// like anybody's, and equal things are kept once.
#include "trainwright/measured/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainwright/base/text.h"
#include "trainwright/measured/cuts.h"
#include "trainwright/measured/fill.h"
#include "trainwright/measured/orders.h"
#include "trainwright/measured/readings.h"
#include "trainwright/measured/times.h"

namespace trainwright {
namespace {

// What the rules say of one row, laid over each other.
struct Said {
  MeasuredRun row;  // with the columns that rules filled in
  Json model = Json::object(), trainer = Json::object(), layout = Json::object(),
       job = Json::object();
  std::string on, cut, broken, time_broken, undetermined, pool, stack, tuned;
  std::optional<Json> order;
  FlopsRule flops;
  std::vector<const ReadingRule*> readings;
  std::vector<std::string> corrections, notes;
};
template <class T>
using OrReason = tl::expected<T, std::string>;
tl::unexpected<std::string> skip(std::string reason) {
  return tl::unexpected<std::string>(std::move(reason));
}

void add_texts(const SourceRule& rule, Said& said) {
  if (!rule.on.empty()) said.on = rule.on;
  if (!rule.cut.empty()) said.cut = rule.cut;
  if (!rule.broken.empty()) said.broken = rule.broken;
  if (!rule.time_broken.empty()) said.time_broken = rule.time_broken;
  if (!rule.undetermined.empty()) said.undetermined = rule.undetermined;
  if (!rule.pool.empty()) said.pool = rule.pool;
  if (!rule.stack.empty()) said.stack = rule.stack;
  if (!rule.tuned.empty()) said.tuned = rule.tuned;
  if (rule.flops) said.flops = *rule.flops;
  if (!rule.note.empty()) said.notes.push_back(rule.note);
  if (!rule.correction.empty()) said.corrections.push_back(rule.correction);
  if (rule.order) said.order = rule.order;
}

OrReason<Said> said_of(const MeasuredRun& run, const std::vector<SourceRule>& rules,
                       Learned learned) {
  Said said;
  said.row = run;
  std::string missing;
  for (const SourceRule& rule : rules) {
    if (!detail::holds(rule, said.row, learned)) continue;
    if (!rule.skip.empty()) return skip(rule.skip);
    for (const auto& [column, value] : rule.columns.members) {
      fill_column(said.row, column, detail::filled(value.string, said.row, missing));
    }
    if (rule.fresh_model) said.model = Json::object();
    detail::lay_over(said.model, rule.model);
    detail::lay_over(said.trainer, rule.trainer);
    detail::lay_over(said.layout, rule.layout);
    detail::lay_over(said.job, rule.job);
    for (const ReadingRule& reading : rule.readings) said.readings.push_back(&reading);
    add_texts(rule, said);
  }
  return said;
}

// A column that must hold a whole number from 1 to a bound.
struct Bounded {
  std::string_view name;
  const std::optional<std::int64_t>& value;
  std::int64_t most;
};

std::string out_of_bounds(const MeasuredRun& run) {
  const std::array<Bounded, 10> columns{{
      {"dp", run.dp, kMostDegree},
      {"tp", run.tp, kMostDegree},
      {"pp", run.pp, kMostDegree},
      {"vpp", run.vpp, kMostDegree},
      {"cp", run.cp, kMostDegree},
      {"ep", run.ep, kMostDegree},
      {"gpus", run.gpus, kMostAccelerators},
      {"global_batch", run.global_batch, kMostBatch},
      {"micro_batch", run.micro_batch, kMostBatch},
      {"seq_len", run.seq_len, kMostBatch},
  }};
  for (const Bounded& column : columns) {
    if (!column.value) continue;
    if (*column.value < 1 || *column.value > column.most) {
      return fmt::format("{} {} is out of bounds", column.name, *column.value);
    }
  }
  if (!run.gpus) return "the source does not say: gpus";
  if (!run.global_batch) return "the source does not say: global_batch";
  if (!run.micro_batch) return "the source does not say: micro_batch";
  if (!run.seq_len) return "the source does not say: seq_len";
  if (run.zero_stage.value_or(0) > 3) return "there is no such ZeRO stage";
  return {};
}

std::optional<PrecisionKind> precision_of(std::string_view text) {
  if (text.starts_with("bf16")) return PrecisionKind::Bf16;
  if (text.starts_with("fp16")) return PrecisionKind::Fp16;
  if (text == "fp32") return PrecisionKind::Fp32;
  if (text.starts_with("fp8(hybrid)")) return PrecisionKind::Fp8Delayed;
  return std::nullopt;
}

// What the columns say, on top of what the trainer does unasked; absent degrees are 1.
Layout layout_of_columns(const MeasuredRun& run, const Trainer& trainer) {
  Layout layout = usual_layout(trainer);
  layout.tp = run.tp.value_or(1);
  layout.pp = run.pp.value_or(1);
  layout.dp = run.dp.value_or(1);
  layout.cp = run.cp.value_or(1);
  layout.vpp = run.vpp.value_or(1);
  layout.ep = run.ep.value_or(1);
  layout.etp = layout.tp;
  layout.sp = run.sequence_parallel.value_or(0) == 1 && layout.tp > 1;
  layout.zero = run.zero_stage.value_or(0);
  layout.sharding = layout.zero > 0 ? ShardingKind::Zero : ShardingKind::Ddp;
  layout.mbs = *run.micro_batch;
  layout.gbs = *run.global_batch;
  layout.seq = *run.seq_len;
  layout.schedule = usual_schedule(layout.pp, layout.vpp);
  layout.placement = usual_placement(layout.schedule, layout.vpp);
  if (run.recompute == "full") layout.recompute.kind = RecomputeKind::Full;
  if (run.recompute == "selective") layout.recompute.kind = RecomputeKind::Selective;
  if (const auto precision = precision_of(run.precision)) layout.precision = *precision;
  return layout;
}

std::string first_fault(const Error& error) {
  const Diagnostic& fault = error.diagnostics.front();
  return fmt::format("{} {}", fault.where, fault.what);
}

// Gives equal things one id.
class CaseBook {
 public:
  explicit CaseBook(const Knowledge& knowledge) : knowledge_(knowledge) {}

  void add(const MeasuredRun& run, std::size_t index) {
    const auto source = source_of(run, knowledge_.sources);
    const bool known = !run.asked && source != knowledge_.sources.end();
    const std::string& name = known ? source->first : run.source;
    const std::string no_memory = known ? no_memory_of(run, source->second) : "";
    OrReason<Case> made = run.asked ? of_words(run)
                          : known   ? of_rules(run, source->second)
                                    : skip("no case is made of this source");
    if (!made) {
      cases_.skipped.push_back({name, run.source_ref, std::move(made).error(), no_memory});
      return;
    }
    made->source = name;
    made->run = index;
    made->label = run.source_ref;
    made->fold = fold_of(run);
    made->time_fold = time_fold_of(run);
    made->no_memory = no_memory;
    if (made->pool.empty()) made->pool = name;
    made->capacity = capacity_of(cases_.cluster_of(*made));
    cases_.cases.push_back(*std::move(made));
  }

  Cases finish() && { return std::move(cases_); }

 private:
  std::string no_memory_of(const MeasuredRun& run, const Source& source) const {
    for (const SourceRule& rule : source.rules) {
      const bool says = !rule.no_memory.empty();
      if (says && detail::holds(rule, run, knowledge_.learned)) return rule.no_memory;
    }
    return {};
  }

  OrReason<Case> of_rules(const MeasuredRun& run, const Source& source) {
    OrReason<Said> found = said_of(run, source.rules, knowledge_.learned);
    if (!found) return skip(found.error());
    Said& said = *found;
    if (std::string reason = out_of_bounds(said.row); !reason.empty()) return skip(reason);
    Case made;
    std::string missing;
    made.words.model = to_line(detail::filled(said.model, said.row, missing));
    made.words.on = detail::filled(said.on, said.row, missing);
    const Json trainer = detail::filled(said.trainer, said.row, missing);
    const Json* base = trainer.find("based_on");
    made.words.trainer =
        base != nullptr && trainer.members.size() == 1 ? base->string : to_line(trainer);
    const Json layout = detail::filled(said.layout, said.row, missing);
    const Json job = detail::filled(said.job, said.row, missing);
    if (!missing.empty()) return skip("the source does not say: " + missing);
    made.outcome = run.outcome;
    made.broken = said.broken;
    made.time_broken = run.set_apart.empty() ? said.time_broken : run.set_apart;
    made.undetermined = said.undetermined;
    made.pool = said.pool;
    made.stack = said.stack;
    made.tuned = !said.tuned.empty();
    made.corrections = said.corrections;
    made.notes = said.notes;
    if (std::string reason = settle_words(made); !reason.empty()) return skip(reason);
    if (std::string reason = settle_layout(made, said, layout, job); !reason.empty()) {
      return skip(reason);
    }
    made.memory = detail::readings_of(said.row, said.readings);
    if (const auto took = detail::step_time_of(said.row, said.flops)) {
      made.step_time = took->time;
      if (!took->note.empty()) made.notes.push_back(took->note);
    }
    return made;
  }

  // A row that holds the words of its question.
  OrReason<Case> of_words(const MeasuredRun& run) {
    Case made;
    made.words = *run.asked;
    if (made.words.trainer.empty()) made.words.trainer = kUsualTrainer;
    made.outcome = run.outcome;
    if (std::string reason = settle_words(made); !reason.empty()) return skip(reason);
    const LayoutContext context = layout_context(cases_.cluster_of(made), cases_.trainer_of(made));
    auto read = parse_layout(made.words.layout, context);
    if (!read) return skip("no such layout: " + first_fault(read.error()));
    made.layout = read->layout;
    if (world_size(made.layout) != *context.world) {
      return skip(fmt::format("no such layout: {} on {} accelerators", to_text(made.layout),
                              with_thousands(*context.world)));
    }
    auto job = parse_job(made.words.job);
    if (!job) return skip("no such job: " + first_fault(job.error()));
    made.job = *job;
    if (!made.words.schedule.empty()) {
      auto order = read_order(made.words.schedule);
      if (!order) return skip("no such order: " + first_fault(order.error()));
      made.order = *std::move(order);
      made.layout.schedule = ScheduleKind::Csv;
    }
    made.memory = run.readings;
    made.step_time = run.step_time;
    return made;
  }

  std::string settle_words(Case& made) {
    if (!models_.contains(made.words.model)) {
      auto model = find_model(made.words.model, knowledge_.data);
      if (!model) return "no such model: " + first_fault(model.error());
      models_.emplace(made.words.model, static_cast<std::int32_t>(cases_.models.size()));
      cases_.models.push_back(*std::move(model));
    }
    if (!clusters_.contains(made.words.on)) {
      auto cluster = parse_cluster(made.words.on, knowledge_.hardware);
      if (!cluster) return "no such cluster: " + cluster.error().diagnostics.front().what;
      clusters_.emplace(made.words.on, static_cast<std::int32_t>(cases_.clusters.size()));
      cases_.clusters.push_back(*std::move(cluster));
    }
    if (!trainers_.contains(made.words.trainer)) {
      auto trainer = trainer_named(made.words.trainer, knowledge_.trainers);
      if (!trainer) return "no such trainer: " + first_fault(trainer.error());
      trainers_.emplace(made.words.trainer, static_cast<std::int32_t>(cases_.trainers.size()));
      cases_.trainers.push_back(*std::move(trainer));
    }
    made.model = CaseModelId(models_.at(made.words.model));
    made.cluster = CaseClusterId(clusters_.at(made.words.on));
    made.trainer = CaseTrainerId(trainers_.at(made.words.trainer));
    return {};
  }

  std::string settle_layout(Case& made, const Said& said, const Json& keys, const Json& job) {
    const Trainer& trainer = cases_.trainer_of(made);
    Json json = to_json(layout_of_columns(said.row, trainer));
    detail::lay_over(json, keys);
    LayoutContext context = layout_context(cases_.cluster_of(made), trainer);
    context.world = {};
    auto read = read_layout(json, "layout", context);
    if (!read) return "no such layout: " + first_fault(read.error());
    made.layout = read->layout;
    auto asked = read_job(job, "job");
    if (!asked) return "no such job: " + first_fault(asked.error());
    made.job = *asked;
    cut(made, said);
    if (said.order) {
      std::string missing;
      auto order = detail::order_of(detail::filled(*said.order, said.row, missing), made.layout);
      if (!order) return "no such order: " + first_fault(order.error());
      made.order = *std::move(order);
      made.stands_for = made.layout.schedule;
      made.layout.schedule = ScheduleKind::Csv;
    }
    made.words.layout = to_text(made.layout);
    made.words.job = made.job == Job{} ? "" : to_text(made.job);
    return {};
  }

  void cut(Case& made, const Said& said) {
    if (said.cut.empty()) return;
    const detail::StageCut cut =
        detail::cut_by(said.cut, said.row, cases_.model_of(made), made.layout);
    if (!cut.layers.empty()) made.layout.layers = cut.layers;
    if (!cut.broken.empty()) made.broken = cut.broken;
    const std::int64_t last = made.layout.pp - 1;
    if (cut.head != last) {
      made.notes.push_back(
          fmt::format("the head is on pipeline rank {} of {}", cut.head, made.layout.pp));
    }
    if (cut.last == last) return;
    made.notes.push_back(fmt::format("pipeline ranks from {} on hold nothing", cut.last + 1));
    if (made.outcome != Outcome::OomOrCrash) return;
    made.outcome = Outcome::CrashLikely;
    made.corrections.emplace_back(
        "learned: read as a crash; the cut leaves pipeline ranks without any block, and 175 of "
        "nanotron's 177 such rows failed whatever their size");
  }

  const Knowledge& knowledge_;
  Cases cases_;
  std::map<std::string, std::int32_t> models_, clusters_, trainers_;
};

}  // namespace

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Allocated: return "allocated";
    case MemoryKind::Reserved: return "reserved";
    case MemoryKind::Driver: return "driver";
    case MemoryKind::Static: return "static";
    case MemoryKind::Activations: return "activations";
    case MemoryKind::Unstated: return "unstated";
  }
  return {};
}

std::string_view name_of(ReadAt at) {
  switch (at) {
    case ReadAt::WorstRank: return "worst-rank";
    case ReadAt::Rank: return "rank";
    case ReadAt::PipelineRank: return "pipeline-rank";
  }
  return {};
}

Result<Knowledge> load_knowledge(const std::string& data_directory, Learned learned) {
  Knowledge knowledge;
  knowledge.data = data_directory;
  knowledge.learned = learned;
  knowledge.hardware = TW_TRY(load_hardware(data_directory));
  knowledge.trainers = TW_TRY(load_trainers(data_directory, learned));
  knowledge.sources = TW_TRY(load_sources(data_directory));
  return knowledge;
}

Cases cases_of(std::span<const MeasuredRun> runs, const Knowledge& knowledge) {
  CaseBook book(knowledge);
  for (std::size_t i = 0; i < runs.size(); ++i) book.add(runs[i], i);
  return std::move(book).finish();
}

Sources::const_iterator source_of(const MeasuredRun& run, const Sources& sources) {
  const auto named = sources.find(run.source);
  if (named != sources.end()) return named;
  return std::find_if(sources.begin(), sources.end(), [&](const auto& entry) {
    const std::string& rows = entry.second.rows;
    return !rows.empty() && detail::matches(run.source, rows);
  });
}

std::vector<std::string> known_sources(const Knowledge& knowledge) {
  std::vector<std::string> names;
  for (const auto& entry : knowledge.sources) names.push_back(entry.first);
  return names;
}

std::vector<std::string> memory_sources(const Knowledge& knowledge) {
  std::vector<std::string> names;
  for (const auto& [name, source] : knowledge.sources) {
    const bool never = std::any_of(source.rules.begin(), source.rules.end(), [](const auto& rule) {
      return !rule.no_memory.empty() && rule.when.empty();
    });
    if (!never) names.push_back(name);
  }
  return names;
}

}  // namespace trainwright
