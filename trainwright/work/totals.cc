// The sums of a list, and the most bytes alive in its forward and backward pass.
#include <algorithm>

#include "trainwright/work/kept.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

using detail::Stay;

Effort& effort_of(Totals& sum, Pass pass) { return sum.effort[static_cast<std::size_t>(pass)]; }

void add_work(const OperatorList& list, Totals& sum) {
  for (const Operator& op : list.operators) {
    const bool again = detail::runs_again(op.again);
    if (op.stand_in.in > 0) add_shapes(sum.stand_ins, {op.stand_in});
    effort_of(sum, Pass::Forward) += op.forward;
    effort_of(sum, Pass::InputGradient) += op.input_gradient;
    effort_of(sum, Pass::WeightGradient) += op.weight_gradient;
    if (again) effort_of(sum, Pass::Recompute) += op.forward;
    for (const Collective& call : op.collectives) {
      const Traffic one{1, call.bytes};
      if (call.pass != Pass::Recompute) sum.traffic.add(call.group, call.kind, call.pass, one);
      const bool repeats = call.pass == Pass::Forward || call.pass == Pass::Recompute;
      if (again && repeats) sum.traffic.add(call.group, call.kind, Pass::Recompute, one);
    }
  }
}

// Adapters, and which weights are quantised, stand in the list only.
void add_parameters(const OperatorList& list, HeldParameters& sum) {
  for (const Operator& op : list.operators) {
    const bool expert = op.part == Part::RoutedExperts;
    const Params numbers = Params(checked_mul(op.matrix.in, op.matrix.out)) * op.matrices;
    if (op.adapter) (expert ? sum.adapter_expert : sum.adapter_dense) += numbers;
    if (op.stored == Bytes(0)) continue;
    (expert ? sum.quantised_expert : sum.quantised_dense) += numbers;
    (expert ? sum.stored_expert : sum.stored_dense) += op.stored;
  }
}

void add_kept(const OperatorList& list, const std::vector<Stay>& stays, Totals& sum) {
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const Stay& stay = stays[i];
    const Bytes bytes = list.tensors[i].bytes();
    if (stay.kept()) {
      sum.kept += bytes;
      if (stay.writer >= 0 &&
          list.operators[static_cast<std::size_t>(stay.writer)].part == Part::RoutedExperts) {
        sum.kept_of_experts += bytes;
      }
    }
    if (stay.weights && (stay.kept() || stay.made_again)) sum.kept_for_weights += bytes;
  }
}

void raise(Peak& peak, Bytes bytes, std::size_t at) {
  if (bytes > peak.bytes) peak = {bytes, OperatorId(static_cast<std::int32_t>(at))};
}

// Bytes alive while operators run forward, in order. Of a segment that is run again only its own
// operators run, and what it makes for the backward pass stays.
class ForwardWalk {
 public:
  ForwardWalk(const OperatorList& list, const std::vector<Stay>& stays) : list_(list) {
    alive_.resize(stays.size());
  }
  void bear(TensorId id) {
    if (alive_[id.at()]) return;
    alive_[id.at()] = true;
    now_ += list_.at(id).bytes();
  }
  void drop(TensorId id) {
    if (!alive_[id.at()]) return;
    alive_[id.at()] = false;
    now_ -= list_.at(id).bytes();
  }
  Bytes now() const { return now_; }

 private:
  const OperatorList& list_;
  std::vector<char> alive_;
  Bytes now_;
};

Peak forward_peak(const OperatorList& list, const std::vector<Stay>& stays) {
  ForwardWalk walk(list, stays);
  Peak peak;
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (stays[i].writer < 0) walk.bear(TensorId(static_cast<std::int32_t>(i)));
  }
  for (std::size_t i = 0; i < list.operators.size(); ++i) {
    const Operator& op = list.operators[i];
    for (const TensorId id : op.outputs) walk.bear(id);
    raise(peak, walk.now() + op.workspace, i);
    const auto done = [&](TensorId id) {
      const Stay& stay = stays[id.at()];
      if (stay.kept() || id == list.output) return;
      if (stay.last_read <= static_cast<std::int32_t>(i)) walk.drop(id);
    };
    for (const TensorId id : op.inputs) done(id);
    for (const TensorId id : op.outputs) done(id);
  }
  return peak;
}

// Gradients as storages that several tensors may share.
class Gradients {
 public:
  explicit Gradients(const OperatorList& list) : of_(list.tensors.size(), -1) {
    users_.reserve(list.tensors.size());
    sizes_.reserve(list.tensors.size());
  }
  bool has(TensorId id) const { return of_[id.at()] >= 0; }
  int storage(TensorId id) const { return of_[id.at()]; }
  int make(Bytes bytes) {
    users_.push_back(0);
    sizes_.push_back(bytes);
    now_ += bytes;
    return static_cast<int>(users_.size()) - 1;
  }
  // A further contribution: its storage is counted until the two are summed up into one.
  void give(TensorId id, int storage) {
    int& mine = of_[id.at()];
    ++users_[static_cast<std::size_t>(storage)];
    if (mine >= 0) summed_.push_back(mine);
    mine = storage;
  }
  // One more user, who never lets go.
  void share(int storage) { ++users_[static_cast<std::size_t>(storage)]; }
  void finish_sums() {
    for (const int storage : summed_) release(storage);
    summed_.clear();
  }
  void drop(TensorId id) {
    if (of_[id.at()] >= 0) release(of_[id.at()]);
    of_[id.at()] = -1;
  }
  Bytes now() const { return now_; }
  Bytes bytes(int storage) const { return sizes_[static_cast<std::size_t>(storage)]; }
  std::size_t storages() const { return sizes_.size(); }

 private:
  void release(int storage) {
    if (--users_[static_cast<std::size_t>(storage)] == 0) now_ -= bytes(storage);
  }
  std::vector<int> of_;
  std::vector<int> users_;
  std::vector<Bytes> sizes_;
  std::vector<int> summed_;
  Bytes now_;
};

// The backward pass, operator by operator from the last to the first.
class BackwardWalk {
 public:
  // `split`: only the gradients of inputs are made; what W needs stays until then.
  BackwardWalk(const OperatorList& list, const std::vector<Stay>& stays, Bytes kept, bool split)
      : list_(list), stays_(stays), gradients_(list), saved_(kept), split_(split) {
    find_segments();
  }

  Totals run() {
    if (list_.at(list_.output).has_gradient) {
      gradients_.give(list_.output, gradients_.make(list_.at(list_.output).bytes()));
    }
    for (std::size_t i = list_.operators.size(); i-- > 0;) {
      for (std::size_t segment = 1; segment < triggers_.size(); ++segment) {
        if (triggers_[segment] == static_cast<std::int32_t>(i)) run_again(segment, i);
      }
      step(i);
    }
    return result_;
  }

 private:
  // A segment is run again before the backward of the last operator that needs something of it.
  void find_segments() {
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      const auto needs = [&](std::size_t segment) {
        if (triggers_.size() <= segment) triggers_.resize(segment + 1, -1);
        triggers_[segment] = std::max(triggers_[segment], static_cast<std::int32_t>(i));
      };
      if (op.segment != 0) needs(op.segment);
      for (const Save& save : op.saves) needs_of(save.tensor, needs);
      for (const TensorId id : op.inputs) {
        if (detail::runs_again(op.again)) needs_of(id, needs);
      }
    }
  }
  template <class Needs>
  void needs_of(TensorId id, Needs needs) const {
    const std::int32_t writer = stays_[id.at()].writer;
    if (writer < 0) return;
    const Operator& maker = list_.operators[static_cast<std::size_t>(writer)];
    if (maker.again == Again::Discarded) needs(maker.segment);
  }

  void run_again(std::size_t segment, std::size_t before) {
    ForwardWalk walk(list_, stays_);
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (op.segment != segment) continue;
      if (detail::runs_again(op.again)) {
        for (const TensorId id : op.outputs) walk.bear(id);
        raise(result_.backward, saved_ + gradients_.now() + walk.now() + op.workspace, before);
      }
      const auto done = [&](TensorId id) {
        const Stay& stay = stays_[id.at()];
        if (!stay.made_again && stay.last_read <= static_cast<std::int32_t>(i)) walk.drop(id);
      };
      for (const TensorId id : op.inputs) done(id);
      for (const TensorId id : op.outputs) done(id);
    }
    for (std::size_t t = 0; t < stays_.size(); ++t) {
      const Stay& stay = stays_[t];
      if (!stay.made_again || stay.writer < 0) continue;
      if (list_.operators[static_cast<std::size_t>(stay.writer)].segment != segment) continue;
      saved_ += list_.tensors[t].bytes();
    }
  }

  void step(std::size_t i) {
    const Operator& op = list_.operators[i];
    int from = -1;
    for (const TensorId id : op.outputs) {
      if (from < 0 && gradients_.has(id)) from = gradients_.storage(id);
      if (op.has_weight && gradients_.has(id)) hold(id);
    }
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const TensorId id = op.inputs[k];
      if (!list_.at(id).has_gradient) continue;
      const bool passes = k < op.gradients_passed && from >= 0;
      gradients_.give(id, passes ? from : gradients_.make(list_.at(id).bytes()));
    }
    // The workspace of a matrix is its weight gradient, which W makes.
    const Bytes workspace =
        split_ && op.has_weight ? Bytes(0) : op.backward_workspace + op.weight_workspace;
    raise(result_.backward, saved_ + gradients_.now() + workspace, i);
    gradients_.finish_sums();
    for (const TensorId id : op.outputs) {
      const bool in_place = std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
      if (!in_place) gradients_.drop(id);
    }
    release(i);
  }

  void hold(TensorId id) {
    const int storage = gradients_.storage(id);
    const auto at = static_cast<std::size_t>(storage);
    if (held_.size() <= at) held_.resize(gradients_.storages() + 8);
    if (held_[at]) return;
    held_[at] = true;
    result_.held_gradients += gradients_.bytes(storage);
    if (split_) gradients_.share(storage);
  }

  // Tensors that no earlier operator needs.
  void release(std::size_t i) {
    const auto at = static_cast<std::int32_t>(i);
    for (std::size_t t = 0; t < stays_.size(); ++t) {
      const Stay& stay = stays_[t];
      if (stay.released != at) continue;
      if (split_ && stay.weights) continue;
      if (stay.kept()) saved_ -= list_.tensors[t].bytes();
      if (stay.made_again) saved_ -= list_.tensors[t].bytes();
    }
  }

  const OperatorList& list_;
  const std::vector<Stay>& stays_;
  Gradients gradients_;
  Bytes saved_;
  bool split_;
  std::vector<std::int32_t> triggers_;  // by segment
  std::vector<char> held_;
  Totals result_;
};

}  // namespace

Effort& Effort::operator+=(const Effort& more) {
  matmul += more.matmul;
  other += more.other;
  read += more.read;
  written += more.written;
  return *this;
}

Totals totals(const OperatorList& list, const HeldParameters& parameters) {
  const std::vector<Stay> stays = detail::stays(list);
  Totals sum;
  add_kept(list, stays, sum);
  const Totals backward = BackwardWalk(list, stays, sum.kept, false).run();
  sum.held_gradients = backward.held_gradients;
  sum.backward = backward.backward;
  sum.backward_input = BackwardWalk(list, stays, sum.kept, true).run().backward;
  sum.forward = forward_peak(list, stays);
  sum.input = list.at(list.input).bytes();
  sum.output = list.at(list.output).bytes();
  sum.parameters = parameters;
  add_parameters(list, sum.parameters);
  add_work(list, sum);
  return sum;
}

}  // namespace trainwright
