// From cases to rows: every case's question is asked, and each of its figures becomes a row.
#include <algorithm>

#include "trainwright/base/parallel.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

// The pipeline rank of a rank: its digit on that axis of the order.
std::int64_t pipeline_rank_of(std::int64_t rank, const Layout& layout) {
  std::int64_t stride = 1;
  for (const Axis axis : layout.order) {
    if (axis == Axis::Pp) break;
    if (axis == Axis::Tp) stride *= layout.tp;
    if (axis == Axis::Cp) stride *= layout.cp;
    if (axis == Axis::Dp) stride *= layout.dp;  // ep folds into it
  }
  return rank / stride % layout.pp;
}

bool lead_matters(const Trainer& trainer) {
  return records_streams(trainer.libraries) && !trainer.allocator.lead;
}

MemoryConstants with_lead(MemoryConstants constants, double lead) {
  constants.lead_pipeline = lead;
  return constants;
}

std::size_t lead_of(const MemoryConstants& constants) {
  const auto found = std::find(kLeads.begin(), kLeads.end(), constants.lead_pipeline);
  return found == kLeads.end() ? 0 : static_cast<std::size_t>(found - kLeads.begin());
}

Result<EstimatedCase> estimated(const Case& made, const Cases& cases,
                                const MemoryConstants& constants, const Asking& asking) {
  const Trainer& trainer = cases.trainer_of(made);
  const auto ask = [&](MemoryConstants with, bool interval) {
    if (!interval) with.lead_most = 0;
    return estimate_memory({.model = cases.model_of(made),
                            .cluster = cases.cluster_of(made),
                            .trainer = trainer,
                            .layout = made.layout,
                            .job = made.job,
                            .constants = with,
                            .schedule = made.order ? &*made.order : nullptr});
  };
  EstimatedCase estimate;
  if (!lead_matters(trainer)) {
    estimate.by_lead.emplace(0, TW_TRY(ask(constants, asking.intervals)));
    return estimate;
  }
  for (const std::size_t lead : asking.leads) {
    const bool first = estimate.by_lead.empty();
    MemoryEstimate of = TW_TRY(ask(with_lead(constants, kLeads[lead]), asking.intervals && first));
    // The longest lead is the same for all of them.
    for (std::size_t i = 0; i < of.classes.size() && !first; ++i) {
      of.classes[i].slack_most = estimate.by_lead.begin()->second.classes[i].slack_most;
    }
    estimate.by_lead.emplace(lead, std::move(of));
  }
  return estimate;
}

ScoredRow row_of(const Case& made, std::size_t index) {
  ScoredRow row;
  row.source = made.source;
  row.label = made.label;
  row.fold = made.fold;
  row.run = made.run;
  row.of_case = index;
  row.broken = !made.broken.empty();
  row.undetermined = !made.undetermined.empty();
  return row;
}

void add_rows(const Case& made, std::size_t index, bool judged, ScoredRows& scored) {
  for (std::size_t i = 0; i < made.memory.size(); ++i) {
    const MemoryReading& reading = made.memory[i];
    if (reading.size <= Bytes(0)) continue;
    ScoredRow row = row_of(made, index);
    row.reading = i;
    row.kind = reading.kind;
    row.at = reading.at;
    row.pipeline_rank =
        reading.at == ReadAt::Rank ? pipeline_rank_of(reading.index, made.layout) : reading.index;
    row.measured = real(reading.size).value();
    row.rounding = real(reading.rounding).value();
    scored.rows.push_back(std::move(row));
  }
  if (!judged || made.outcome == Outcome::Other) return;
  ScoredRow row = row_of(made, index);
  row.reading = made.memory.size();
  row.verdict = true;
  row.crash_likely = made.outcome == Outcome::CrashLikely;
  row.out_of_memory = made.outcome != Outcome::Ok;
  row.measured = real(made.capacity).value();
  scored.rows.push_back(std::move(row));
}

// The rule that forbids a case's layout, if one does.
std::string refusal(const Case& made, const Cases& cases) {
  for (const LayoutViolation& violation :
       violations(made.layout, made.job, cases.model_of(made), cases.cluster_of(made),
                  cases.trainer_of(made))) {
    if (violation.severity == Severity::Forbidden) return violation.id;
  }
  return {};
}

// The bytes of one class that a reading of that kind means.
double bytes_read(const RankClass& rank, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Static: return real(rank.between_steps).value();
    case MemoryKind::Activations:
      return real(rank.bytes[static_cast<std::size_t>(Category::Activations)]).value();
    case MemoryKind::Allocated: return real(rank.allocated).value();
    case MemoryKind::Reserved:
    case MemoryKind::Unstated: return real(rank.reserved).value();
    case MemoryKind::Driver: return real(rank.driver).value();
  }
  return 0;
}

Counter counter_of(MemoryKind kind) {
  if (kind == MemoryKind::Driver) return Counter::Driver;
  const bool reserved = kind == MemoryKind::Reserved || kind == MemoryKind::Unstated;
  return reserved ? Counter::Reserved : Counter::Allocated;
}

}  // namespace

ScoredRows score_rows(const Cases& cases, const MemoryConstants& constants, const Asking& asking) {
  // A source without a single failure has no verdict to get wrong.
  std::map<std::string, bool> judged;
  for (const Case& made : cases.cases) {
    const bool failed = made.outcome == Outcome::Oom || made.outcome == Outcome::OomOrCrash;
    judged[made.source] |= failed && made.no_memory.empty();
  }
  struct Asked {
    std::string refused, failed;
    EstimatedCase estimate;
  };
  std::vector<Asked> asked = parallel_map(cases.cases.size(), {}, [&](std::size_t i) {
    Asked one;
    if (!cases.cases[i].no_memory.empty()) return one;
    one.refused = refusal(cases.cases[i], cases);
    if (!one.refused.empty()) return one;
    auto estimate = estimated(cases.cases[i], cases, constants, asking);
    if (estimate) {
      one.estimate = *std::move(estimate);
    } else {
      one.failed = estimate.error().diagnostics.front().what;
    }
    return one;
  });
  ScoredRows scored;
  scored.skipped = cases.skipped;
  for (SkippedRun& run : scored.skipped) {
    if (!run.no_memory.empty()) run.reason = run.no_memory;
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Case& made = cases.cases[i];
    scored.estimates.push_back(std::move(asked[i].estimate));
    if (!made.no_memory.empty()) {
      scored.skipped.push_back({made.source, made.label, made.no_memory});
    } else if (!asked[i].refused.empty() && made.outcome != Outcome::Ok) {
      scored.skipped.push_back(
          {made.source, made.label, "failed, as a rule of ours says: " + asked[i].refused});
    } else if (!asked[i].refused.empty()) {
      scored.refused.push_back({made.source, made.label, asked[i].refused});
    } else if (!asked[i].failed.empty()) {
      scored.skipped.push_back({made.source, made.label, "memory: " + asked[i].failed});
    } else {
      add_rows(made, i, judged[made.source], scored);
    }
  }
  return scored;
}

MemoryConstants with_fitted(MemoryConstants constants, const FittedConstants& fitted) {
  if (fitted.lead) constants = with_lead(std::move(constants), kLeads[*fitted.lead]);
  if (fitted.outside) constants.outside = *fitted.outside;
  return constants;
}

Predicted predicted(const ScoredRow& row, const ScoredRows& of, const MemoryConstants& constants,
                    const FittedConstants& fitted) {
  const EstimatedCase& asked = of.estimates[row.of_case];
  const MemoryEstimate estimate =
      settled(asked.at(fitted.lead.value_or(lead_of(constants))), with_fitted(constants, fitted));
  Predicted figure;
  figure.oom = estimate.oom;
  const MemoryKind kind = row.verdict ? MemoryKind::Driver : row.kind;
  for (const RankClass& rank : estimate.classes) {
    if (row.at != ReadAt::WorstRank && rank.pipeline_rank != row.pipeline_rank) continue;
    const double bytes = bytes_read(rank, kind);
    if (bytes <= figure.bytes) continue;
    figure.bytes = bytes;
    const Spread& spread = spread_of(rank, counter_of(kind));
    const Bytes whole = rounded(RealBytes(bytes));
    figure.low = real(exceeded_with(0.95, whole, spread)).value();
    figure.high = real(exceeded_with(0.05, whole, spread)).value();
  }
  return figure;
}

}  // namespace trainwright
