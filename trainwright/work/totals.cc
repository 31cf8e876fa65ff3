// The sums of a list, and the most bytes alive in its forward and backward pass.
#include "trainwright/work/walk.h"
#include "trainwright/work/work.h"

namespace trainwright {
namespace {

using detail::Stay;

Effort& effort_of(Totals& sum, Pass pass) { return sum.effort[static_cast<std::size_t>(pass)]; }

void add_efforts(const OperatorList& list, Totals& sum) {
  for (const Operator& op : list.operators) {
    effort_of(sum, Pass::Forward) += op.forward;
    effort_of(sum, Pass::InputGradient) += op.input_gradient;
    effort_of(sum, Pass::WeightGradient) += op.weight_gradient;
    if (detail::runs_again(op.again)) effort_of(sum, Pass::Recompute) += op.forward;
  }
}

void add_traffic(const OperatorList& list, Totals& sum) {
  for (const Operator& op : list.operators) {
    const bool again = detail::runs_again(op.again);
    for (const Collective& call : op.collectives) {
      const Traffic one{1, call.bytes};
      if (call.pass != Pass::Recompute) sum.traffic.add(call.group, call.kind, call.pass, one);
      const bool repeats = call.pass == Pass::Forward || call.pass == Pass::Recompute;
      if (again && repeats) sum.traffic.add(call.group, call.kind, Pass::Recompute, one);
    }
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

// Bytes alive while a list runs, and the operator at which they are most.
struct Alive {
  Bytes now;
  Peak most = {};
  void make(std::int32_t, Bytes bytes) { now += bytes; }
  void drop(std::int32_t, Bytes bytes, bool) { now -= bytes; }
  void wait(std::int32_t, Bytes) {}  // counted by whoever knows the pass
  void run(std::size_t at) {
    if (now > most.bytes) most = {now, OperatorId(static_cast<std::int32_t>(at))};
  }
};

}  // namespace

Effort& Effort::operator+=(const Effort& more) {
  matmul += more.matmul;
  other += more.other;
  read += more.read;
  written += more.written;
  converted += more.converted;
  return *this;
}

Totals totals(const OperatorList& list, const HeldParameters& parameters) {
  const std::vector<Stay> stays = detail::stays(list);
  Totals sum;
  add_kept(list, stays, sum);
  Alive forward{list.at(list.input).bytes()};
  detail::Walk(list, stays, detail::BackwardPart::Both, forward).forward();
  sum.forward = forward.most;
  const Tensor& output = list.at(list.output);
  const Bytes before = sum.kept + (output.has_gradient ? output.bytes() : Bytes(0));
  Alive backward{before}, inputs{before};
  detail::Walk whole(list, stays, detail::BackwardPart::Both, backward);
  whole.backward();
  detail::Walk(list, stays, detail::BackwardPart::Inputs, inputs).backward();
  sum.backward = backward.most;
  sum.backward_input = inputs.most;
  sum.held_gradients = whole.held();
  sum.input = list.at(list.input).bytes();
  sum.output = list.at(list.output).bytes();
  sum.parameters = parameters;
  add_efforts(list, sum);
  add_traffic(list, sum);
  for (const Operator& op : list.operators) {
    if (op.stand_in.in > 0) add_shapes(sum.stand_ins, {op.stand_in});
  }
  return sum;
}

Totals efforts(const OperatorList& list) {
  Totals sum;
  add_efforts(list, sum);
  return sum;
}

}  // namespace trainwright
