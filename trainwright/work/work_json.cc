// Lists and sums as JSON.
#include <algorithm>
#include <cmath>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

Json flops(Flops work) { return Json::of(work.value()); }
Json bytes(Bytes size) { return Json::of(size.value()); }

Json effort_json(const Effort& effort) {
  Json json = Json::object();
  json.add("matmul_flops", flops(effort.matmul))
      .add("other_flops", flops(effort.other))
      .add("bytes_read", bytes(effort.read))
      .add("bytes_written", bytes(effort.written))
      .add("bytes_converted", bytes(effort.converted));
  return json;
}

std::string_view name_of_again(Again again) {
  switch (again) {
    case Again::No: return "no";
    case Again::Rerun: return "rerun";
    case Again::Discarded: return "discarded";
    case Again::Stored: return "stored";
    case Again::Tail: return "tail";
  }
  return "no";
}

template <class Ids>
Json places(const Ids& ids) {
  Json json = Json::array();
  for (const TensorId id : ids) json.push(Json::of(static_cast<std::int64_t>(id.index())));
  return json;
}

// As the forward pass has it: rows follow from the FLOPs.
Json product_json(const Operator& op) {
  const double of_row = 2.0 * static_cast<double>(op.matrix.in) *
                        static_cast<double>(op.matrix.out) * static_cast<double>(op.matrices);
  return Json::object()
      .add("rows",
           Json::of(static_cast<std::int64_t>(std::llround(op.forward.matmul.value() / of_row))))
      .add("in", Json::of(op.matrix.in))
      .add("out", Json::of(op.matrix.out))
      .add("count", Json::of(op.matrices));
}

Json operator_json(const Operator& op) {
  Json saves = Json::array();
  for (const Save& save : op.saves) {
    Json one = Json::object();
    one.add("tensor", Json::of(static_cast<std::int64_t>(save.tensor.index())))
        .add("half", Json::of(name_of(save.half)));
    saves.push(std::move(one));
  }
  Json calls = Json::array();
  for (const Collective& call : op.collectives) {
    Json one = Json::object();
    one.add("kind", Json::of(name_of(call.kind)))
        .add("group", Json::of(name_of(call.group)))
        .add("pass", Json::of(name_of(call.pass)))
        .add("beside", Json::of(name_of(call.beside)))
        .add("bytes", bytes(call.bytes));
    calls.push(std::move(one));
  }
  Json json = Json::object();
  json.add("name", Json::of(op.name))
      .add("kind", Json::of(name_of(op.kind)))
      .add("part", Json::of(name_of(op.part)))
      .add("inputs", places(op.inputs))
      .add("outputs", places(op.outputs))
      .add("saves", std::move(saves))
      .add("collectives", std::move(calls))
      .add("forward", effort_json(op.forward))
      .add("input_gradient", effort_json(op.input_gradient))
      .add("weight_gradient", effort_json(op.weight_gradient))
      .add("workspace", bytes(op.workspace))
      .add("backward_workspace", bytes(op.backward_workspace + op.weight_workspace))
      .add("stored", bytes(op.stored))
      .add("waiting", bytes(op.waiting))
      .add("trained", Json::of(op.trained))
      .add("has_weight", Json::of(op.has_weight))
      .add("gradients_passed", Json::of(static_cast<std::int64_t>(op.gradients_passed)))
      .add("again", Json::of(name_of_again(op.again)))
      .add("segment", Json::of(static_cast<std::int64_t>(op.segment)));
  if (op.kind == OperatorKind::Matmul && op.matrix.in > 0) json.add("product", product_json(op));
  if (op.head_width > 0) {
    json.add(
        "attention",
        Json::object().add("head_width", Json::of(op.head_width)).add("keys", Json::of(op.keys)));
  }
  return json;
}

Json tensors_json(const OperatorList& list) {
  Json tensors = Json::array();
  for (const Tensor& tensor : list.tensors) {
    Json json = Json::object();
    json.add("name", Json::of(tensor.name))
        .add("dtype", Json::of(name_of(tensor.dtype)))
        .add("elements", Json::of(tensor.elements))
        .add("bytes", bytes(tensor.bytes()))
        .add("copies", Json::of(tensor.copies))
        .add("has_gradient", Json::of(tensor.has_gradient));
    tensors.push(std::move(json));
  }
  return tensors;
}

Json traffic_json(const TrafficTable& traffic) {
  Json all = Json::array();
  for (const GroupKind group :
       {GroupKind::Tp, GroupKind::Cp, GroupKind::Ep, GroupKind::Etp, GroupKind::Pp}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const Pass pass : kPasses) {
        const Traffic one = traffic.at(group, kind, pass);
        if (one.calls == 0) continue;
        Json json = Json::object();
        json.add("group", Json::of(name_of(group)))
            .add("kind", Json::of(name_of(kind)))
            .add("pass", Json::of(name_of(pass)))
            .add("calls", Json::of(one.calls))
            .add("bytes", bytes(one.bytes));
        all.push(std::move(json));
      }
    }
  }
  return all;
}

Json parameters_json(const HeldParameters& held) {
  Json json = Json::object();
  const auto numbers = [&](const std::string& name, Params HeldGroup::* of) {
    json.add(name + "dense", Json::of((held.dense.*of).value()))
        .add(name + "expert", Json::of((held.expert.*of).value()));
  };
  const auto sizes = [&](const std::string& name, Bytes HeldGroup::* of) {
    json.add(name + "_dense", bytes(held.dense.*of)).add(name + "_expert", bytes(held.expert.*of));
  };
  numbers("", &HeldGroup::all);
  numbers("trained_", &HeldGroup::trained);
  numbers("adapter_", &HeldGroup::adapters);
  numbers("quantised_", &HeldGroup::quantised);
  sizes("stored", &HeldGroup::stored);
  sizes("states", &HeldGroup::states);
  sizes("step", &HeldGroup::step);
  json.add("replicated", Json::of(held.replicated.value()))
      .add("low_precision", Json::of(both(held, &HeldGroup::low_precision).value()));
  return json;
}

}  // namespace

Json to_json(const OperatorList& list) {
  Json kept = Json::array();
  for (const Kept& one : kept_tensors(list)) {
    Json json = Json::object();
    json.add("tensor", Json::of(static_cast<std::int64_t>(one.tensor.index())))
        .add("half", Json::of(name_of(one.half)))
        .add("checkpoint", Json::of(one.checkpoint));
    kept.push(std::move(json));
  }
  Json operators = Json::array();
  for (const Operator& op : list.operators) operators.push(operator_json(op));
  Json json = Json::object();
  json.add("input", Json::of(static_cast<std::int64_t>(list.input.index())))
      .add("output", Json::of(static_cast<std::int64_t>(list.output.index())))
      .add("tensors", tensors_json(list))
      .add("operators", std::move(operators))
      .add("kept", std::move(kept));
  return json;
}

Json to_json(const Totals& totals) {
  Json json = Json::object();
  for (const Pass pass : kPasses) {
    std::string key(name_of(pass));
    std::replace(key.begin(), key.end(), '-', '_');
    json.add(std::move(key), effort_json(totals.effort[static_cast<std::size_t>(pass)]));
  }
  json.add("kept", bytes(totals.kept))
      .add("kept_of_experts", bytes(totals.kept_of_experts))
      .add("kept_for_weights", bytes(totals.kept_for_weights))
      .add("held_gradients", bytes(totals.held_gradients))
      .add("input", bytes(totals.input))
      .add("output", bytes(totals.output))
      .add("forward_peak", bytes(totals.forward.bytes))
      .add("backward_peak", bytes(totals.backward.bytes))
      .add("backward_input_peak", bytes(totals.backward_input.bytes))
      .add("parameters", parameters_json(totals.parameters))
      .add("collectives", traffic_json(totals.traffic));
  return json;
}

}  // namespace trainwright
