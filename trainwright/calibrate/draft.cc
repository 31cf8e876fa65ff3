// What the makers of all sources share.
#include "trainwright/calibrate/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

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

}  // namespace

std::int64_t or_one(const std::optional<std::int64_t>& degree) { return degree.value_or(1); }

const Trainer* known_trainer(const Knowledge& knowledge, std::string_view text) {
  const std::size_t at = text.find('@');
  const auto version = parse_version(at == std::string_view::npos ? "" : text.substr(at + 1));
  const Trainer* found = nullptr;
  for (const Trainer& trainer : knowledge.trainers) {
    if (trainer.name != text.substr(0, at)) continue;
    if (!version || trainer.from <= *version) found = &trainer;
  }
  return found;
}

DraftOrReason start(const MeasuredRun& run, const Knowledge& knowledge, TrainerChoice trainer,
                    std::string cluster, ModelOrReason model) {
  if (!model) return skip(model.error());
  if (std::string reason = out_of_bounds(run); !reason.empty()) return skip(std::move(reason));
  const Trainer* facts = known_trainer(knowledge, trainer.name);
  if (facts == nullptr) return skip(fmt::format("no trainer '{}' is known", trainer.name));
  Draft draft;
  draft.model = *std::move(model);
  draft.cluster = std::move(cluster);
  draft.trainer = std::move(trainer);
  Layout& layout = draft.made.layout;
  layout = usual_layout(*facts);
  layout.tp = or_one(run.tp);
  layout.pp = or_one(run.pp);
  layout.dp = or_one(run.dp);
  layout.cp = or_one(run.cp);
  layout.vpp = or_one(run.vpp);
  layout.ep = or_one(run.ep);
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
  draft.made.outcome = run.outcome;
  draft.made.step_time = run.step_time;
  return draft;
}

MemoryReading printed(double value, PrintedUnit unit, int decimals, MemoryKind kind, ReadAt at,
                      std::int64_t index) {
  constexpr double kMost = 1e9;  // of units: beyond any memory, within 64 bits of bytes
  const double bytes = unit == PrintedUnit::GB ? 1e9 : 1024.0 * 1024.0 * 1024.0;
  return {.kind = kind,
          .at = at,
          .index = index,
          .size = Bytes(std::llround(std::min(value, kMost) * bytes)),
          .rounding = Bytes(std::llround(0.5 * std::pow(10, -decimals) * bytes))};
}

}  // namespace trainwright::detail
