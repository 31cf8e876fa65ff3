#pragma once
// Private: a list of operators on the device, at kernel rates.
#include <array>
#include <vector>

#include "trainwright/simulate/simulate.h"

namespace trainwright::detail {

// The calls of a list, as long as nobody knows where their group sits.
struct Call {
  CollectiveKind kind;
  GroupKind group;
  Beside beside;
  Bytes bytes;
};
// A list on the device at kernel rates; `calls` are timed when a layout places their groups.
struct ListTime {
  std::array<PassPieces, 4> passes{};      // by Pass
  std::array<PassPieces, 4> of_experts{};  // of these, what grows with the rows they receive
  std::array<double, 4> one_by_one{};      // further kernels of experts without a grouped product
  std::array<std::vector<Call>, 4> calls{};
};

// Of a layout's kernels that the host launches, where CUDA graphs launch the others: about half of
// a layer's, if those of its parts do.
double host_share(const Layout& layout, const Trainer& trainer, const Accelerator& accelerator);

class ListTimer {
 public:
  ListTimer(const AcceleratorRates& rates, PrecisionKind precision, const Trainer& trainer);
  ListTime timed(const OperatorList& list) const;

 private:
  void add(ListTime& time, Pass pass, const Operator& op, const Effort& effort) const;
  Seconds product(const Operator& op, const Effort& effort, Pass pass) const;
  double kernels(const Operator& op) const;
  void count(ListTime& time, Pass pass, const Operator& op, const Effort& effort) const;

  const AcceleratorRates& rates_;
  PrecisionKind precision_;
  const LibraryFacts& libraries_;
  double expert_streams_ = 0;  // which take products of experts in turn; 0: all in one kernel
};

}  // namespace trainwright::detail
