#pragma once
// Whether the layout that we would pick is a good one. Part of calibrate.h: include that one.
//
// A sweep is what somebody tried for one model, on one number of accelerators, with one batch in
// tokens. Of what he tried our pick is what `plan` would rank first: the least predicted step time
// among layouts whose predicted chance of OOM is at most the usual risk. Its regret is
//
//   measured time of the first pick that really ran / best measured time - 1
//
// Two simple rules stand beside it: a random pick, whose regret is the mean over all that ran, and
// "most data parallelism, then the smaller tp, then the larger micro-batch".
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/calibrate/time.h"
#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright {

// One run of a sweep, and what is asked of it.
struct TriedRun {
  const Case* made = nullptr;
  StepPieces pieces;
  double as_shipped = 0, held_out = 0;  // predicted seconds
  double chance = 1;                    // of OOM
  bool ran() const { return made->outcome == Outcome::Ok; }
  double measured() const { return made->step_time->value(); }  // of what ran
};
struct TriedSweep {
  std::string source, name;  // "llama-13B on 64, 2,048 x 2,048 tokens"
  std::vector<TriedRun> tried;
};

struct Sweep {
  std::string source, name;
  std::int64_t tried = 0, ran = 0;
  struct Pick {
    std::string layout;
    double regret = 0;
    bool out_of_memory = false;  // the very first pick did not run
  };
  Pick as_shipped, held_out, simple;
  double random = 0;  // regret of a random one of those that ran
};
struct ChoiceScore {
  double mean = 0, median = 0, most = 0;
  std::int64_t first_picks_oom = 0;
};
// Sweeps of at least three runs, in the order of sources and names. Times by constants without the
// source (time.h), memory as it ships. Runs that are broken are no candidates.
struct ChoiceConstants {
  const Kernels& kernels;
  const MemoryConstants& memory;
  const LeftOut& left;
  const Stacks& stacks;  // which trainers make up one
};
std::vector<TriedSweep> tried_sweeps(const Cases& cases, const ChoiceConstants& constants,
                                     const std::vector<std::string>& sources);
std::vector<Sweep> sweeps_of(const Cases& cases, const ChoiceConstants& constants,
                             const std::vector<std::string>& sources);
ChoiceScore score_choice(const std::vector<Sweep>& sweeps, Sweep::Pick Sweep::* which);
// {"sources": [{"source", "as_shipped": {...}, "held_out": {...}, "simple": {...}, "sweeps":
// [...]}]}
Json choice_json(const std::vector<Sweep>& sweeps);

}  // namespace trainwright
