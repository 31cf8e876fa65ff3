#pragma once
// Tuners replayed on a table of outcomes: everything was tried once, so that any order of trials
// can be played through. Part of tune.h: include that one.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"
#include "trainwright/tune/tune.h"

namespace trainwright {

struct TableRow {
  Layout layout;
  std::string kernels;  // what else differs between rows: equal or not
  bool ran = false;     // else it ran out of memory
  Seconds measured;     // of what ran
  Seconds roofline;     // products at the accelerator's peak
};
struct OutcomeTable {
  std::string name;
  std::vector<TableRow> rows;  // at least one ran
  std::vector<Trial> trials;   // by row
  std::int64_t nodes = 1;
};

// Rows in the order in which they are tried.
using TrialOrder = std::vector<std::size_t>;
TrialOrder tuned_order(const OutcomeTable& table, const TuneTerms& terms, const Doubt& doubt = {});
// The order of paddle.distributed.auto_tuner's grid (utils.py memory_sort: most mp, pp, vpp,
// sharding, stage first, then the smaller micro-batch, then recompute), without what its history
// rules drop (prune.py): where all else is equal, a smaller micro-batch once a larger one ran, a
// larger one once a smaller ran out of memory, more recompute once less ran, less once more ran out
// of memory, a smaller vpp once a larger ran out of memory. What was dropped counts like its
// reason.
TrialOrder grid_order(const OutcomeTable& table);
// Least FLOPs of the busiest rank first; the first listed of equals.
TrialOrder roofline_order(const OutcomeTable& table);
TrialOrder random_order(const OutcomeTable& table, std::uint64_t seed);

// What it takes to come within a share of the best measured step.
struct OrderScore {
  std::optional<double> within_2, within_1;  // trials; none: the order ends before
  double ooms = 0;                           // met until within 1 %, or to the end
  double node_minutes = 0;                   // likewise
  double trials = 0;                         // until the order ends
  double regret = 0;                         // at its end
};
OrderScore score_order(const OutcomeTable& table, const TrialOrder& order, const TuneTerms& terms);
// The mean over so many random orders, which all come to an end at the best.
OrderScore score_random(const OutcomeTable& table, const TuneTerms& terms, std::int64_t orders);

// Within 2 % after at most 3 trials, within 1 % after at most 5, with at most one OOM.
bool reaches_goal(const OrderScore& score);

struct TableScore {
  std::string name;
  std::int64_t rows = 0, ran = 0;
  OrderScore tuned, random, grid, roofline;
};
TableScore score_table(const OutcomeTable& table, const TuneTerms& terms);
Json to_json(std::span<const TableScore> scores);

}  // namespace trainwright
