#pragma once
// Liveness of an operator list, moment by moment from sets, without any bookkeeping: the oracle of
// `totals`.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "trainwright/work/work.h"

namespace trainwright {

struct SlowWork {
  Bytes kept, forward, backward;
};

class SlowLiveness {
 public:
  explicit SlowLiveness(const OperatorList& list) : list_(list) {}

  SlowWork run() {
    SlowWork result;
    for (std::size_t t = 0; t < list_.tensors.size(); ++t) {
      if (is_kept(t)) result.kept += list_.tensors[t].bytes();
    }
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      result.forward = std::max(result.forward, forward_at(i));
    }
    result.backward = backward();
    return result;
  }

 private:
  static bool again(const Operator& op) {
    return op.again == Again::Rerun || op.again == Again::Discarded;
  }
  const Operator* maker(std::size_t t) const {
    if (t == list_.input.at()) return nullptr;
    for (const Operator& op : list_.operators) {
      for (const TensorId id : op.outputs) {
        if (id.at() == t) return &op;
      }
    }
    return nullptr;
  }
  static bool holds(const auto& ids, std::size_t t) {
    return std::any_of(ids.begin(), ids.end(), [t](TensorId id) { return id.at() == t; });
  }
  static bool saves(const Operator& op, std::size_t t) {
    return std::any_of(op.saves.begin(), op.saves.end(),
                       [t](const Save& save) { return save.tensor.at() == t; });
  }

  // Made inside a segment for somebody of the same one, or dropped on purpose.
  bool is_made_again(std::size_t t) const {
    const Operator* from = maker(t);
    if (from == nullptr || !again(*from)) return false;
    for (const Operator& op : list_.operators) {
      const bool inside = op.segment == from->segment;
      if (saves(op, t) && (inside || from->again == Again::Discarded)) return true;
      if (from->again == Again::Discarded && again(op) && !inside && holds(op.inputs, t)) {
        return true;
      }
    }
    return false;
  }
  bool is_kept(std::size_t t) const {
    const Operator* from = maker(t);
    if (from != nullptr && from->again == Again::Discarded) return false;
    if (from != nullptr && from->again == Again::Stored) return true;
    const int segment = from == nullptr ? 0 : from->segment;
    for (const Operator& op : list_.operators) {
      const bool inside = op.segment == segment && segment != 0;
      const bool needs = saves(op, t) || (again(op) && holds(op.inputs, t));
      if (needs && !(inside && from != nullptr && again(*from))) {
        if (!(inside && !saves(op, t))) return true;
      }
    }
    return false;
  }

  bool written_by(std::size_t t, std::size_t i) const {
    if (maker(t) == nullptr) return true;
    for (std::size_t k = 0; k <= i; ++k) {
      if (holds(list_.operators[k].outputs, t)) return true;
    }
    return false;
  }
  Bytes forward_at(std::size_t i) const {
    Bytes sum = list_.operators[i].workspace;
    for (std::size_t t = 0; t < list_.tensors.size(); ++t) {
      if (!written_by(t, i)) continue;
      bool alive = is_kept(t) || t == list_.output.at() || holds(list_.operators[i].outputs, t);
      for (std::size_t k = i; k < list_.operators.size(); ++k) {
        alive |= holds(list_.operators[k].inputs, t) || holds(list_.operators[k].held, t);
      }
      // Never read: there until somebody looks.
      bool ever = false;
      for (const Operator& op : list_.operators) ever |= holds(op.inputs, t);
      alive |= maker(t) == nullptr && !ever;
      if (alive) sum += list_.tensors[t].bytes();
    }
    return sum;
  }

  // The last operator, backward, that needs t.
  std::size_t needed_until(std::size_t t) const {
    std::size_t until = list_.operators.size();
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (saves(op, t)) until = std::min(until, i);
      if (op.again == Again::Stored && holds(op.outputs, t)) until = std::min(until, i);
      const Operator* from = maker(t);
      const bool enters =
          again(op) && holds(op.inputs, t) && (from == nullptr || from->segment != op.segment);
      for (std::size_t k = 0; enters && k < list_.operators.size(); ++k) {
        if (list_.operators[k].segment == op.segment) until = std::min(until, k);
      }
    }
    return until;
  }
  // Before the backward of which operator a segment runs again.
  std::size_t trigger(int segment) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (op.segment == segment) at = i;
      for (std::size_t t = 0; t < list_.tensors.size(); ++t) {
        const Operator* from = maker(t);
        if (from == nullptr || from->again != Again::Discarded || from->segment != segment)
          continue;
        if (saves(op, t) || (again(op) && holds(op.inputs, t))) at = std::max(at, i);
      }
    }
    return at;
  }

  // What is saved, and of a segment that has been run again also what it made, before operator i.
  Bytes saved_at(std::size_t i, int running) const {
    Bytes sum;
    for (std::size_t t = 0; t < list_.tensors.size(); ++t) {
      const std::size_t until = needed_until(t);
      if (until > i) continue;
      if (is_kept(t)) sum += list_.tensors[t].bytes();
      if (!is_made_again(t)) continue;
      const int segment = maker(t)->segment;
      const std::size_t at = trigger(segment);
      if (at > i || (at == i && (running == 0 || segment < running))) {
        sum += list_.tensors[t].bytes();
      }
    }
    return sum;
  }

  // The most alive while a segment runs again, of its own tensors.
  Bytes run_again(int segment) const {
    Bytes most;
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (op.segment != segment || !again(op)) continue;
      Bytes sum = op.workspace;
      for (std::size_t t = 0; t < list_.tensors.size(); ++t) {
        bool born = false;
        for (std::size_t k = 0; k <= i; ++k) {
          const Operator& earlier = list_.operators[k];
          born |= earlier.segment == segment && again(earlier) && holds(earlier.outputs, t);
        }
        if (!born) continue;
        bool alive = is_made_again(t) || holds(op.outputs, t);
        for (std::size_t k = i; k < list_.operators.size(); ++k) {
          alive |= holds(list_.operators[k].inputs, t) || holds(list_.operators[k].held, t);
        }
        if (alive) sum += list_.tensors[t].bytes();
      }
      most = std::max(most, sum);
    }
    return most;
  }

  Bytes gradient_bytes() const {
    std::set<int> storages;
    Bytes sum;
    for (const auto& [tensor, storage] : gradient_) storages.insert(storage);
    for (const int storage : storages) sum += sizes_.at(storage);
    return sum;
  }

  Bytes backward() {
    Bytes most;
    if (list_.at(list_.output).has_gradient) make(list_.output.at());
    for (std::size_t i = list_.operators.size(); i-- > 0;) {
      for (int segment = 1; segment < 256; ++segment) {
        const bool exists = std::any_of(list_.operators.begin(), list_.operators.end(),
                                        [&](const Operator& op) { return op.segment == segment; });
        if (!exists || trigger(segment) != i) continue;
        // What this operator itself still needs counts as saved.
        most = std::max(most, saved_at(i, segment) + gradient_bytes() + run_again(segment));
      }
      most = std::max(most, step(i));
    }
    return most;
  }
  void make(std::size_t t) {
    sizes_[next_] = list_.tensors[t].bytes();
    gradient_[t] = next_++;
  }
  Bytes step(std::size_t i) {
    const Operator& op = list_.operators[i];
    std::map<std::size_t, int> old = gradient_;
    int from = -1;
    for (const TensorId id : op.outputs) {
      if (from < 0 && gradient_.contains(id.at())) from = gradient_.at(id.at());
    }
    std::set<int> all;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const std::size_t t = op.inputs[k].at();
      if (!list_.tensors[t].has_gradient) continue;
      if (k < op.gradients_passed && from >= 0) {
        gradient_[t] = from;
      } else {
        make(t);
      }
      all.insert(gradient_.at(t));
    }
    for (const auto& [tensor, storage] : old) all.insert(storage);
    for (const auto& [tensor, storage] : gradient_) all.insert(storage);
    Bytes sum = saved_at(i, 0) + op.backward_workspace + op.weight_workspace;
    for (const int storage : all) sum += sizes_.at(storage);
    for (const TensorId id : op.outputs) {
      if (!holds(op.inputs, id.at())) gradient_.erase(id.at());
    }
    return sum;
  }

  const OperatorList& list_;
  std::map<std::size_t, int> gradient_;
  std::map<int, Bytes> sizes_;
  int next_ = 0;
};

}  // namespace trainwright
