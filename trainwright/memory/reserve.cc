#include "trainwright/memory/reserve.h"

#include "trainwright/memory/heap.h"
#include "trainwright/memory/optimizer_step.h"
#include "trainwright/memory/passes.h"
#include "trainwright/memory/standing.h"

namespace trainwright::detail {
namespace {

// Rounds of the steady state that are played, and calls after which a step is cut short.
constexpr std::size_t kRounds = 4;
constexpr std::int64_t kMostCalls = 150'000;

void play_passes(Passes& passes, const Heap& heap, const ReserveQuestion& question) {
  const std::int64_t most = heap.calls() + kMostCalls;
  std::size_t backwards = 0;
  for (const Action& action : question.actions) {
    ActionKind kind = action.kind;
    // The first stage has no input gradient to send: its backward pass is one.
    if (question.rules.pipeline.sends_stay && action.stage == 0) {
      if (kind == ActionKind::BackwardInput) continue;
      if (kind == ActionKind::BackwardWeight) kind = ActionKind::Backward;
    }
    passes.run(kind, static_cast<std::size_t>(question.chunk_of[action.stage]), action.microbatch);
    if (kind != ActionKind::Forward) ++backwards;
    if (backwards >= kRounds * question.chunks.size() || heap.calls() > most) break;
  }
  passes.end_step();
}

}  // namespace

Reserved replay_class(const ReserveQuestion& question) {
  Heap heap(question.settings, question.lead);
  make_standing(heap, question);
  heap.forget_most();
  Passes passes(question, heap);
  // The first step ends in states.
  play_passes(passes, heap, question);
  Blocks copies = copy_gradients(heap, question);
  pass_gathered_weights(heap, question);
  make_states(heap, question);
  pass_temporaries(heap, question);
  passes.drop_gradients();
  const Bytes first_requested = heap.most_requested(), first_reserved = heap.stats().reserved_peak;
  // The second one lives with them.
  heap.drop(copies);
  play_passes(passes, heap, question);
  copies = copy_gradients(heap, question);
  pass_gathered_weights(heap, question);
  pass_temporaries(heap, question);
  const AllocatorStats& stats = heap.stats();
  return {heap.most_requested(), stats.allocated_peak, stats.reserved_peak,
          first_requested,       first_reserved,       heap.calls()};
}

AllocatorSettings allocator_settings(const Trainer& trainer) {
  AllocatorSettings settings;
  settings.expandable_segments = trainer.allocator.expandable_segments;
  // Paddle's strategy is a flag of its own.
  if (trainer.allocator.setting.starts_with("FLAGS_allocator_strategy")) {
    settings.strategy = AllocatorStrategy::Paddle;
  }
  return settings;
}

}  // namespace trainwright::detail
