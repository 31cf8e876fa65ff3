#pragma once
// Private: one walk over a list, for those who count what is alive and those who replay it.
//
// Forward, an operator makes its outputs and what it works with; a tensor goes after its last
// reader unless the backward pass needs it. Backward, from the last operator to the first, a
// segment that is run again comes before the first operator that needs something of it; an operator
// makes gradients of its inputs, or passes on that of its output; gradients of one tensor are
// summed up when the operator is done, and what no earlier operator needs goes.
//
// Storages are numbered: tensors first, then gradients, workspaces and what is made again. `Heap`
// is told of each, and when an operator has all it needs:
//   make(storage, bytes)   drop(storage, bytes, sent)   run(operator)
//   wait(storage, bytes): gradients of weights are made and live on when the list is done
#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainwright/work/kept.h"

namespace trainwright::detail {

// The whole backward pass, or its half for inputs: what the half for weights needs then stays.
enum class BackwardPart : std::uint8_t { Both, Inputs };

template <class Heap>
class Walk {
 public:
  Walk(const OperatorList& list, const std::vector<Stay>& stays, BackwardPart part, Heap& heap)
      : list_(list),
        stays_(stays),
        part_(part),
        heap_(heap),
        storages_(static_cast<std::int32_t>(list.tensors.size())),
        alive_(list.tensors.size()),
        again_(list.tensors.size(), -1),
        gradient_(list.tensors.size(), -1),
        made_(list.tensors.size()) {
    for (std::size_t t = 0; t < made_.size(); ++t) made_[t].bytes = list.tensors[t].bytes();
    made_.reserve(4 * made_.size());
  }

  // The input is there already.
  void forward() {
    alive_[list_.input.at()] = true;
    for (std::size_t t = 0; t < stays_.size(); ++t) {
      if (stays_[t].writer < 0) bear(t);
    }
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      for (const TensorId id : op.outputs) bear(id.at());
      for (const TensorId id : op.outputs) mark_sent(op, Pass::Forward, id.index());
      for (const TensorId id : op.inputs) mark_sent(op, Pass::Forward, id.index());
      work(i, op.workspace);
      for (const TensorId id : op.inputs) let_read_go(id, i);
      for (const TensorId id : op.outputs) let_read_go(id, i);
      for (const TensorId id : op.held) let_read_go(id, i);
    }
  }

  // What forward keeps is there, and so is the gradient of the output.
  void backward() {
    find_triggers();
    find_released();
    if (list_.at(list_.output).has_gradient) {
      output_gradient_ = number(list_.at(list_.output).bytes());
      give(list_.output, output_gradient_);
    }
    for (std::size_t i = list_.operators.size(); i-- > 0;) {
      for (std::size_t segment = 1; segment < triggers_.size(); ++segment) {
        if (triggers_[segment] == static_cast<std::int32_t>(i)) run_again(segment, i);
      }
      step(i);
    }
  }

  std::int32_t storages() const { return storages_; }
  std::int32_t output_gradient() const { return output_gradient_; }  // -1: there is none
  std::int32_t input_gradient() const { return gradient_[list_.input.at()]; }
  const std::vector<std::int32_t>& waiting() const { return waiting_; }
  // Gradients of outputs of operators with weights, which the half for weights reads.
  Bytes held() const { return held_; }

 private:
  struct Made {
    Bytes bytes;
    bool sent = false;  // a collective read or wrote it
    bool held = false;  // by the half for weights
    std::int32_t users = 0;
  };
  Made& made(std::int32_t storage) { return made_[static_cast<std::size_t>(storage)]; }
  std::int32_t number(Bytes bytes) {
    made_.push_back({bytes});
    return storages_++;
  }
  std::int32_t make(Bytes bytes) {
    const std::int32_t storage = number(bytes);
    heap_.make(storage, bytes);
    return storage;
  }
  void drop(std::int32_t storage) { heap_.drop(storage, made(storage).bytes, made(storage).sent); }
  // A storage that a collective of the operator reads or writes whole in that pass.
  void mark_sent(const Operator& op, Pass pass, std::int32_t storage) {
    for (const Collective& call : op.collectives) {
      if (call.pass == pass && call.bytes == made(storage).bytes) made(storage).sent = true;
    }
  }
  // What an operator needs beside its tensors comes and goes; with collectives it is what they
  // gather or scatter.
  std::int32_t begin_work(Bytes bytes, const Operator& op) {
    if (bytes == Bytes(0)) return -1;
    const std::int32_t storage = make(bytes);
    made(storage).sent = !op.collectives.empty();
    return storage;
  }
  void work(std::size_t i, Bytes bytes) {
    const std::int32_t storage = begin_work(bytes, list_.operators[i]);
    heap_.run(i);
    if (storage >= 0) drop(storage);
  }

  void bear(std::size_t t) {
    if (alive_[t]) return;
    alive_[t] = true;
    heap_.make(static_cast<std::int32_t>(t), made_[t].bytes);
  }
  void let_read_go(TensorId id, std::size_t i) {
    const Stay& stay = stays_[id.at()];
    if (stay.kept() || id == list_.output || !alive_[id.at()]) return;
    if (stay.last_read > static_cast<std::int32_t>(i)) return;
    alive_[id.at()] = false;
    drop(id.index());
  }

  // A segment is run again before the backward of the last operator that needs something of it.
  void find_triggers() {
    const auto needs = [&](std::size_t segment, std::size_t i) {
      if (triggers_.size() <= segment) triggers_.resize(segment + 1, -1);
      triggers_[segment] = std::max(triggers_[segment], static_cast<std::int32_t>(i));
    };
    const auto needs_of = [&](TensorId id, std::size_t i) {
      const std::int32_t writer = stays_[id.at()].writer;
      if (writer < 0) return;
      const Operator& maker = list_.operators[static_cast<std::size_t>(writer)];
      if (maker.again == Again::Discarded) needs(maker.segment, i);
    };
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (op.segment != 0) needs(op.segment, i);
      for (const Save& save : op.saves) needs_of(save.tensor, i);
      if (!runs_again(op.again)) continue;
      for (const TensorId id : op.inputs) needs_of(id, i);
    }
  }

  // Only the segment's own operators run, and what they make for the backward pass stays.
  void run_again(std::size_t segment, std::size_t before) {
    const auto let_go = [&](std::size_t t) {
      if (again_[t] < 0 || stays_[t].made_again) return;
      drop(again_[t]);
      again_[t] = -1;
    };
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (op.segment != segment) continue;
      if (runs_again(op.again)) make_again(op, before);
      const auto done = [&](TensorId id) {
        if (stays_[id.at()].last_read <= static_cast<std::int32_t>(i)) let_go(id.at());
      };
      for (const TensorId id : op.inputs) done(id);
      for (const TensorId id : op.outputs) done(id);
    }
    for (std::size_t t = 0; t < again_.size(); ++t) let_go(t);
  }

  void make_again(const Operator& op, std::size_t before) {
    for (const TensorId id : op.outputs) {
      if (again_[id.at()] < 0) again_[id.at()] = make(list_.at(id).bytes());
    }
    const std::int32_t beside = begin_work(op.workspace, op);
    heap_.run(before);
    if (beside >= 0) drop(beside);
  }

  void step(std::size_t i) {
    const Operator& op = list_.operators[i];
    const Few<std::int32_t, 8> summed = make_gradients(op);
    // The workspace of a matrix is its weight gradient, which the other half makes.
    const bool other_half = part_ == BackwardPart::Inputs && op.has_weight;
    const std::int32_t beside =
        begin_work(other_half ? Bytes(0) : op.backward_workspace + op.weight_workspace, op);
    heap_.run(i);
    if (op.waiting > Bytes(0)) {
      waiting_.push_back(number(op.waiting));
      heap_.wait(waiting_.back(), op.waiting);
    }
    if (beside >= 0) drop(beside);
    for (const std::int32_t storage : summed) release(storage);
    for (const TensorId id : op.outputs) {
      const bool in_place = std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
      if (in_place || gradient_[id.at()] < 0) continue;
      release(gradient_[id.at()]);
      gradient_[id.at()] = -1;
    }
    for (std::int32_t t = released_[i]; t >= 0; t = released_after_[static_cast<std::size_t>(t)]) {
      let_saved_go(static_cast<std::size_t>(t));
    }
  }

  // Those of the operator's inputs. Answers with storages whose sums are made: they go when the
  // operator is done.
  Few<std::int32_t, 8> make_gradients(const Operator& op) {
    std::int32_t from = -1;
    for (const TensorId id : op.outputs) {
      const std::int32_t gradient = gradient_[id.at()];
      if (gradient < 0) continue;
      if (from < 0) from = gradient;
      mark_sent(op, Pass::InputGradient, gradient);
      if (op.has_weight) hold(gradient);
    }
    Few<std::int32_t, 8> summed;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const TensorId id = op.inputs[k];
      if (!list_.at(id).has_gradient) continue;
      std::int32_t storage = from;
      if (k >= op.gradients_passed || from < 0) {
        storage = make(list_.at(id).bytes());
        mark_sent(op, Pass::InputGradient, storage);
      }
      if (gradient_[id.at()] >= 0) summed.push_back(gradient_[id.at()]);
      give(id, storage);
    }
    return summed;
  }

  // Several tensors may share one gradient.
  void give(TensorId id, std::int32_t storage) {
    ++made(storage).users;
    gradient_[id.at()] = storage;
  }
  void release(std::int32_t storage) {
    if (--made(storage).users == 0) drop(storage);
  }
  void hold(std::int32_t storage) {
    if (made(storage).held) return;
    made(storage).held = true;
    held_ += made(storage).bytes;
    if (part_ == BackwardPart::Inputs) ++made(storage).users;  // who does not let go in this half
  }

  // Tensors by the operator that lets them go, in their order.
  void find_released() {
    released_.assign(list_.operators.size(), -1);
    released_after_.assign(stays_.size(), -1);
    for (std::size_t t = stays_.size(); t-- > 0;) {
      if (stays_[t].released < 0) continue;
      std::int32_t& first = released_[static_cast<std::size_t>(stays_[t].released)];
      released_after_[t] = first;
      first = static_cast<std::int32_t>(t);
    }
  }
  void let_saved_go(std::size_t t) {
    const Stay& stay = stays_[t];
    if (part_ == BackwardPart::Inputs && stay.weights) return;
    if (stay.kept()) drop(static_cast<std::int32_t>(t));
    if (!stay.made_again || again_[t] < 0) return;
    drop(again_[t]);
    again_[t] = -1;
  }

  const OperatorList& list_;
  const std::vector<Stay>& stays_;
  BackwardPart part_;
  Heap& heap_;
  std::int32_t storages_ = 0;
  std::int32_t output_gradient_ = -1;
  std::vector<char> alive_;
  std::vector<std::int32_t> again_, gradient_;           // storages by tensor; -1: there is none
  std::vector<Made> made_;                               // by storage
  std::vector<std::int32_t> triggers_;                   // operators by segment
  std::vector<std::int32_t> released_, released_after_;  // first tensor by operator, the next ones
  std::vector<std::int32_t> waiting_;
  Bytes held_;
};

}  // namespace trainwright::detail
