#pragma once
// List dispatch: walks through time and lets every free rank start the waiting node with the
// smallest key.
//
// What may start is also a matter of memory, and a careless answer deadlocks: a rank full of
// micro-batches that all wait for a later chunk on the same rank. There are two admission rules.
//
//   Banker  needs no example to follow. Micro-batches in flight are pictured as finishing one after
//           the other, oldest first (Dijkstra's banker). A node may take memory if every older
//           micro-batch could still get all it will ask for on this rank, counting what those older
//           still give back. The condition is about one rank only, so it costs O(chunks^2).
//   Follow  improves an order that is known to fit. A node may be drawn forward in its rank's
//           string if the levels it jumps over still fit the cap. What remains is an order that
//           fits and that does not wait for itself, so the dispatch always ends.
//
// A rank may also wait on purpose: with a ready node a and a node b of smaller key that becomes
// ready soon, it waits if the idle time is less than `patience` times the delay that a would cause
// to b. Patience 0 never waits; a large one keeps the order of the keys.
#include <cstdint>
#include <vector>

#include "trainwright/schedule/auto_problem.h"

namespace trainwright::detail {

struct Dispatch {
  PipelineOrder order;
  std::vector<double> end;  // by node
  double makespan = kNever;
  std::vector<std::int64_t> level;  // scratch: by place of the followed order

  // Keys are by node and must not fall with the micro-batch. `follow` may be null (Banker).
  // False only under Banker when the cap is below the smallest, or when keys starve.
  bool run(const PipelineProblem& problem, const std::vector<double>& key, double patience,
           const PipelineOrder* follow);

 private:
  struct Choice {
    int kind = -1;
    double start = kNever;
  };
  // The next node of a kind.
  struct Front {
    double ready = kNever;  // when its inputs are there; kNever: not yet known
    double key = 0;
    int batch = 0;
    bool takes_memory = false;
  };
  void prepare(const PipelineProblem& problem, const std::vector<double>& key,
               const PipelineOrder* follow);
  void read_levels(const PipelineProblem& problem, const PipelineOrder& follow);
  double ready_time(const PipelineProblem& problem, int kind) const;
  Choice choose(const PipelineProblem& problem, double patience, int rank, double now,
                bool follows) const;
  bool banker_admits(const PipelineProblem& problem, int kind) const;
  bool follow_admits(const PipelineProblem& problem, int kind) const;
  void start(const PipelineProblem& problem, const std::vector<double>& key, int kind, double now,
             bool follows);
  void draw_forward(const PipelineProblem& problem, int kind);
  void wake(int rank, double when);

  std::vector<Front> front_;                 // by kind
  std::vector<double> free_;                 // by rank
  std::vector<double> event_;                // a tree of the smallest: leaves are ranks
  std::vector<std::int64_t> live_;           // by rank
  std::vector<std::int64_t> head_, placed_;  // by rank
  std::vector<std::int64_t> position_;       // by node: place in the followed order
  int leaves_ = 0;
};

}  // namespace trainwright::detail
