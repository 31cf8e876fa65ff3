// Layouts as trials, and the words for how they end.
#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/tune/tune.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, 8> kEnds = {
    "ok", "out-of-memory", "crash", "hang", "time-limit", "node-failure", "preempted", "refused"};
// What a kernel takes before it runs at its rate: benchmarks put it at 3 to 37 us for products of
// one shape (`start` in kernels.json), and the gap between two of a queue at 1 to 7 (traces). A
// step has other shapes and other queues.
constexpr Seconds kStartUnknown(20e-6);

constexpr std::array<std::string_view, 6> kStops = {"",       "proven",       "not-worth-it",
                                                    "budget", "nothing-left", "same-cause"};

// From nothing to everything, neighbours one apart.
double recompute_place(const Layout& layout) {
  switch (layout.recompute.kind) {
    case RecomputeKind::None: return 0;
    case RecomputeKind::Selective: return 1;
    case RecomputeKind::Full: return 3;
    default: return 2;
  }
}

double doublings(std::int64_t degree) { return std::log2(static_cast<double>(degree)); }

}  // namespace

std::string_view name_of(TrialEnd end) { return kEnds[static_cast<std::size_t>(end)]; }
std::string_view name_of(TuneStop stop) { return kStops[static_cast<std::size_t>(stop)]; }

std::optional<TrialEnd> trial_end_named(std::string_view name) {
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    if (kEnds[i] == name) return static_cast<TrialEnd>(i);
  }
  return std::nullopt;
}

bool blames_layout(TrialEnd end) {
  return end != TrialEnd::NodeFailure && end != TrialEnd::Preempted;
}

std::vector<double> place_of(const Layout& layout) {
  return {doublings(layout.tp), doublings(layout.pp), doublings(layout.mbs), doublings(layout.cp),
          doublings(layout.ep), doublings(layout.vpp), recompute_place(layout),
          layout.sp ? 1.0 : 0.0, static_cast<double>(layout.zero),
          // Kinds have no order: what matters is whether two are the same.
          2.0 * static_cast<double>(layout.schedule), 2.0 * static_cast<double>(layout.sharding)};
}

Trial trial_of(const Layout& layout, const StepPieces& pieces, const StackConstants& stack,
               double oom) {
  constexpr double kNudge = 1e-3;  // of a logarithm
  Trial trial{.layout = to_text(layout),
              .predicted = step_time(pieces, stack).step,
              .slopes = {},
              .place = place_of(layout),
              .oom = oom};
  const StepPieces known = with_known_idle(pieces, stack);
  const double at = step_time(known, stack).step.value();
  // The scale has a term of its own.
  for (std::size_t k = 0; k + 1 < kStackConstants; ++k) {
    StackConstants nudged = stack;
    nudged.values[k] *= std::exp(kNudge);
    const double slope = std::log(step_time(known, nudged).step.value() / at) / kNudge;
    trial.slopes.push_back(slope * stack_priors()[k].machine);
  }
  StepPieces later = known;
  later.gap += kStartUnknown * kNudge;
  trial.slopes.push_back(std::log(step_time(later, stack).step.value() / at) / kNudge);
  return trial;
}

Trial trial_of(const Layout& layout, const StepPieces& pieces, const StackConstants& stack,
               const MemoryEstimate& memory) {
  Trial trial = trial_of(layout, pieces, stack, memory.oom);
  trial.memory = TrialMemory{layout, memory.classes, memory.worst};
  return trial;
}

std::optional<SeenMemory> seen_memory(std::span<const LoggedMemory> logged,
                                      const TrialMemory& memory) {
  std::optional<SeenMemory> fullest;
  Bytes most;
  for (const LoggedMemory& one : logged) {
    const Counter counter = one.reserved ? Counter::Reserved : Counter::Allocated;
    const Bytes measured = one.reserved ? *one.reserved : one.allocated.value_or(Bytes(0));
    const bool named = one.rank && *one.rank < world_size(memory.layout);
    const auto place =
        named ? static_cast<std::size_t>(pipeline_rank(memory.layout, *one.rank)) : memory.worst;
    const RankClass& rank = memory.ranks.at(place);
    const bool fuller =
        rank.driver > most || (rank.driver == most && fullest && measured > fullest->measured);
    if (measured <= Bytes(0) || !fuller) continue;
    const Bytes predicted = bytes_of(rank, counter);
    const bool above = measured > predicted;
    const auto side = [&](Counter of) {
      const Spread& spread = spread_of(rank, of);
      return above ? spread.above : spread.below;
    };
    const RealBytes whole = side(Counter::Driver);
    const double part = whole > RealBytes(0) ? side(counter) / whole : 0;
    if (!(part > 0)) continue;
    most = rank.driver;
    fullest = SeenMemory{counter, measured, predicted, (real(measured) - real(predicted)) / whole,
                         std::min(1.0, part * part)};
  }
  return fullest;
}

}  // namespace trainwright
