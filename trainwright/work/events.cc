// A list as a program for an allocator. The rules are those of totals.cc: a test holds the two to
// the same peaks.
#include <algorithm>

#include "trainwright/work/kept.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

using detail::Stay;

class Program {
 public:
  explicit Program(const OperatorList& list)
      : list_(list),
        stays_(detail::stays(list)),
        alive_(list.tensors.size()),
        again_(list.tensors.size(), -1),
        gradient_(list.tensors.size(), -1) {
    events_.storages = static_cast<std::int32_t>(list.tensors.size());
    events_.input = list.input.index();
    events_.output = list.output.index();
    find_triggers();
  }

  StorageEvents run() {
    forward();
    backward();
    return std::move(events_);
  }

 private:
  using Events = std::vector<StorageEvent>;

  void make(Events& events, std::int32_t storage, Bytes bytes) {
    made(storage) = {bytes, false};
    events.push_back({storage, true, bytes});
  }
  void drop(Events& events, std::int32_t storage) {
    events.push_back({storage, false, made(storage).bytes, made(storage).sent});
  }
  // Marks a storage that a collective of the operator reads or writes whole in that pass.
  void mark_sent(const Operator& op, Pass pass, std::int32_t storage, Bytes bytes) {
    for (const Collective& call : op.collectives) {
      if (call.pass == pass && call.bytes == bytes) made(storage).sent = true;
    }
  }
  // What an operator needs beside its tensors comes and goes; with collectives it is what they
  // gather or scatter.
  void work(Events& events, Bytes bytes, const Operator& op) {
    const std::int32_t storage = begin_work(events, bytes, op);
    if (storage >= 0) drop(events, storage);
  }
  std::int32_t begin_work(Events& events, Bytes bytes, const Operator& op) {
    if (bytes == Bytes(0)) return -1;
    const std::int32_t storage = events_.storages++;
    make(events, storage, bytes);
    made(storage).sent = !op.collectives.empty();
    return storage;
  }

  void forward() {
    Events& events = events_.forward;
    alive_[list_.input.at()] = true;
    for (std::size_t t = 0; t < stays_.size(); ++t) {
      if (stays_[t].writer < 0 && !alive_[t]) bear(t);
    }
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      for (const TensorId id : op.outputs) {
        if (!alive_[id.at()]) bear(id.at());
        mark_sent(op, Pass::Forward, id.index(), list_.at(id).bytes());
      }
      for (const TensorId id : op.inputs) {
        mark_sent(op, Pass::Forward, id.index(), list_.at(id).bytes());
      }
      work(events, op.workspace, op);
      const auto done = [&](TensorId id) {
        const Stay& stay = stays_[id.at()];
        if (stay.kept() || id == list_.output || !alive_[id.at()]) return;
        if (stay.last_read > static_cast<std::int32_t>(i)) return;
        alive_[id.at()] = false;
        drop(events, id.index());
      };
      for (const TensorId id : op.inputs) done(id);
      for (const TensorId id : op.outputs) done(id);
    }
  }
  void bear(std::size_t t) {
    alive_[t] = true;
    make(events_.forward, static_cast<std::int32_t>(t), list_.tensors[t].bytes());
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
      if (!detail::runs_again(op.again)) continue;
      for (const TensorId id : op.inputs) needs_of(id, i);
    }
  }

  void backward() {
    if (list_.at(list_.output).has_gradient) {
      events_.output_gradient = events_.storages++;
      users_.resize(static_cast<std::size_t>(events_.storages));
      give(list_.output, events_.output_gradient);
    }
    for (std::size_t i = list_.operators.size(); i-- > 0;) {
      for (std::size_t segment = 1; segment < triggers_.size(); ++segment) {
        if (triggers_[segment] == static_cast<std::int32_t>(i)) run_again(segment);
      }
      step(i);
    }
    events_.input_gradient = gradient_[list_.input.at()];
  }

  void run_again(std::size_t segment) {
    Events& events = events_.backward;
    const auto let_go = [&](std::size_t t) {
      if (again_[t] < 0 || stays_[t].made_again) return;
      drop(events, again_[t]);
      again_[t] = -1;
    };
    for (std::size_t i = 0; i < list_.operators.size(); ++i) {
      const Operator& op = list_.operators[i];
      if (op.segment != segment || !detail::runs_again(op.again)) continue;
      for (const TensorId id : op.outputs) {
        if (again_[id.at()] >= 0) continue;
        again_[id.at()] = events_.storages++;
        make(events, again_[id.at()], list_.at(id).bytes());
      }
      work(events, op.workspace, op);
      const auto done = [&](TensorId id) {
        if (stays_[id.at()].last_read <= static_cast<std::int32_t>(i)) let_go(id.at());
      };
      for (const TensorId id : op.inputs) done(id);
      for (const TensorId id : op.outputs) done(id);
    }
    for (std::size_t t = 0; t < again_.size(); ++t) let_go(t);
  }

  void step(std::size_t i) {
    const Operator& op = list_.operators[i];
    std::int32_t from = -1;
    for (const TensorId id : op.outputs) {
      const std::int32_t gradient = gradient_[id.at()];
      if (from < 0) from = gradient;
      if (gradient >= 0) mark_sent(op, Pass::InputGradient, gradient, list_.at(id).bytes());
    }
    std::vector<std::int32_t> summed;
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const TensorId id = op.inputs[k];
      if (!list_.at(id).has_gradient) continue;
      std::int32_t storage = from;
      if (k >= op.gradients_passed || from < 0) {
        storage = events_.storages++;
        make(events_.backward, storage, list_.at(id).bytes());
        mark_sent(op, Pass::InputGradient, storage, list_.at(id).bytes());
      }
      if (gradient_[id.at()] >= 0) summed.push_back(gradient_[id.at()]);
      give(id, storage);
    }
    const std::int32_t beside =
        begin_work(events_.backward, op.backward_workspace + op.weight_workspace, op);
    if (op.waiting > Bytes(0)) {
      events_.waiting.push_back(events_.storages);
      make(events_.backward, events_.storages++, op.waiting);
    }
    if (beside >= 0) drop(events_.backward, beside);
    for (const std::int32_t storage : summed) release(storage);
    for (const TensorId id : op.outputs) {
      const bool in_place = std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
      if (in_place || gradient_[id.at()] < 0) continue;
      release(gradient_[id.at()]);
      gradient_[id.at()] = -1;
    }
    for (std::size_t t = 0; t < stays_.size(); ++t) let_saved_go(t, static_cast<std::int32_t>(i));
  }
  void let_saved_go(std::size_t t, std::int32_t i) {
    const Stay& stay = stays_[t];
    if (stay.released != i) return;
    if (stay.kept()) drop(events_.backward, static_cast<std::int32_t>(t));
    if (stay.made_again && again_[t] >= 0) {
      drop(events_.backward, again_[t]);
      again_[t] = -1;
    }
  }

  // Several tensors may share one gradient.
  void give(TensorId id, std::int32_t storage) {
    const auto at = static_cast<std::size_t>(storage);
    if (users_.size() <= at) users_.resize(at + 1);
    ++users_[at];
    gradient_[id.at()] = storage;
  }
  void release(std::int32_t storage) {
    if (--users_[static_cast<std::size_t>(storage)] == 0) drop(events_.backward, storage);
  }

  struct Made {
    Bytes bytes;
    bool sent = false;
  };
  Made& made(std::int32_t storage) {
    const auto at = static_cast<std::size_t>(storage);
    if (made_.size() <= at) made_.resize(at + 1);
    return made_[at];
  }

  const OperatorList& list_;
  std::vector<Stay> stays_;
  std::vector<Made> made_;  // by storage
  std::vector<char> alive_;
  std::vector<std::int32_t> again_, gradient_, users_, triggers_;
  StorageEvents events_;
};

}  // namespace

StorageEvents storage_events(const OperatorList& list) { return Program(list).run(); }

}  // namespace trainwright
