#pragma once
// Private: what is in flight when, for a schedule.
//
// A pipeline rank walks through its actions. Of each of its chunks c it has run f forwards, i
// backwards of inputs and w backwards of weights (a B is both at once), so that
//
//   whole = f - i      micro-batches that keep everything
//   half  = i - w      micro-batches that keep what W needs
//
// A moment is an action together with these counts, the action's own micro-batch left out. What is
// alive is a linear function of the counts with coefficients that are not negative, so only the
// corners of the set of moments can hold its maximum: a moment between two others on a straight
// line (the F and B of a steady state walk along one) and one that another exceeds in every count
// are dropped.
//
// In the steady state moments repeat. A schedule of many micro-batches therefore has the moments of
// one with a few times as many micro-batches as ranks, and only that one is made.
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright::detail {

// Of one chunk, while an action runs, without the action's own micro-batch. The last two only where
// what was sent stays until the step ends: how many forwards and input gradients have been done.
struct InFlight {
  std::int32_t whole = 0, half = 0;
  std::int32_t forwards = 0, inputs = 0;
  friend bool operator==(const InFlight&, const InFlight&) = default;
};

struct MomentAction {
  ActionKind kind = ActionKind::Forward;
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;     // the first one that reaches it, in the schedule that was walked
  std::uint64_t has_gradient = 0;  // a bit per chunk: a backward of its weights has run
  bool late = false;  // in the second half of the list: with more micro-batches, as many more
                      // `forwards` and `inputs` are done
};

// Moments one after the other, `chunks` counts each.
struct Moments {
  std::int32_t chunks = 1;
  std::vector<MomentAction> actions;
  std::vector<InFlight> counts;

  std::size_t size() const { return actions.size(); }
  std::span<const InFlight> at(std::size_t i) const {
    const auto n = static_cast<std::size_t>(chunks);
    return {counts.data() + i * n, n};
  }
  void add(const MomentAction& action, std::span<const InFlight> in_flight);
};

struct MomentKey {
  ScheduleKind kind = ScheduleKind::None;
  std::int32_t ranks = 1, chunks = 1;
  std::int64_t microbatches = 1;
  std::int32_t group = 0;   // as in MakeOptions
  std::int32_t ahead = 0;   // micro-batches in flight beyond those of the kind
  bool sends_stay = false;  // PyTorch's runtime: sent tensors live until the step ends, and I of
                            // stage 0 does nothing
  friend auto operator<=>(const MomentKey&, const MomentKey&) = default;
};

// Micro-batches that have the same moments as `key.microbatches`, at most as many.
std::int64_t enough_microbatches(const MomentKey& key);
// A rank's list, its forwards as much earlier as the key says.
std::vector<Action> ahead_of(const MomentKey& key, std::vector<Action> list);
// By pipeline rank. O(ranks^2 chunks) actions are walked, whatever the number of micro-batches,
// except for gpipe and looped-bfs, which keep all of them in flight.
Result<std::vector<Moments>> moments_of(const MomentKey& key);
// Of a given schedule, which must pass `check`.
std::vector<Moments> moments_of(const Schedule& schedule, bool sends_stay);

// The corners of several ranks' moments together, for ranks that hold the same.
Moments joined(std::span<const Moments* const> moments);

// Of all chunks with one content together.
struct SumInFlight {
  std::int32_t whole = 0, half = 0;
  std::int32_t forwards = 0, inputs = 0;
  std::int32_t with_gradient = 0;  // chunks of whose weights a backward has run
};
struct SummedAction {
  ActionKind kind = ActionKind::Forward;
  std::int32_t content = 0;
  bool has_gradient = false;  // its own chunk
  bool late = false;          // as in MomentAction
  friend bool operator==(const SummedAction&, const SummedAction&) = default;
};
// The corners of moments by content, far fewer than those by chunk: the highest of them is as high
// if chunks with the same content need the same.
struct MomentSums {
  std::vector<std::int32_t> chunks;  // that have the content, by content
  std::vector<SummedAction> actions;
  std::vector<SumInFlight> counts;  // of each action one for each content
};
// `content_of`: of each chunk, from 0 on. O(moments x (chunks + corners x contents)).
MomentSums summed(const Moments& moments, std::span<const std::int32_t> content_of);

}  // namespace trainwright::detail
