// Prints operator lists as JSON for the oracle tests. Standard input holds an array of
//   {"config": a config.json's content, "list": "layer" | "head" | "embedding", "layer": 0,
//    "layout": "tp=2,sp,...", "attention": "eager"}
// and the answer is an array in that order. One argument: the data directory.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

std::optional<AttentionKernel> kernel_of(const std::string& name) {
  for (const auto kernel : {AttentionKernel::Flash, AttentionKernel::FusedSoftmax,
                            AttentionKernel::Eager, AttentionKernel::Sdpa}) {
    if (name == name_of(kernel)) return kernel;
  }
  return std::nullopt;
}

Json kept_json(const OperatorList& list) {
  Json kept = Json::array();
  for (const Kept& one : kept_tensors(list)) {
    const Tensor& tensor = list.at(one.tensor);
    Json json = Json::object();
    json.add("name", Json::of(tensor.name))
        .add("dtype", Json::of(name_of(tensor.dtype)))
        .add("bytes", Json::of(tensor.bytes().value()))
        .add("half", Json::of(name_of(one.half)))
        .add("checkpoint", Json::of(one.checkpoint));
    kept.push(std::move(json));
  }
  return kept;
}

Json operators_json(const OperatorList& list) {
  Json operators = Json::array();
  for (const Operator& op : list.operators) {
    Json calls = Json::array();
    for (const Collective& call : op.collectives) {
      Json json = Json::object();
      json.add("kind", Json::of(name_of(call.kind)))
          .add("pass", Json::of(name_of(call.pass)))
          .add("bytes", Json::of(call.bytes.value()));
      calls.push(std::move(json));
    }
    Json json = Json::object();
    json.add("name", Json::of(op.name)).add("kind", Json::of(name_of(op.kind)));
    json.add("collectives", std::move(calls));
    operators.push(std::move(json));
  }
  return operators;
}

// Of a stage that is this one layer.
Result<Json> parameter_json(const Model& model, const LayerKind& kind, const Layout& layout,
                            const Slice& slice, const Trainer& trainer) {
  const Recipe recipe = recipe_of(trainer, layout.precision);
  const ParameterBytes bytes = TW_TRY(parameter_bytes(trainer, name_of(layout.precision), "adamw"));
  const HeldParameters held = held_parameters(layer_weights(model, kind), &kind, slice, recipe);
  Json calls = Json::array();
  for (const ParameterTraffic& one : parameter_traffic(held, 1, layout, recipe, bytes)) {
    Json json = Json::object();
    json.add("kind", Json::of(name_of(one.kind)))
        .add("pass", Json::of(name_of(one.pass)))
        .add("calls", Json::of(one.calls))
        .add("bytes", Json::of(one.bytes.value()));
    calls.push(std::move(json));
  }
  return calls;
}

Result<Json> answer(const Json& request, const std::string& data) {
  const Model model = TW_TRY(model_from_json(*request.find("config"), "config.json"));
  const Trainer trainer = TW_TRY(find_trainer("pytorch", data));
  const ReadLayout read = TW_TRY(parse_layout(request.find("layout")->string));
  const Slice slice =
      slice_of(read.layout, trainer, 0, kernel_of(request.find("attention")->string));
  const Recipe recipe = recipe_of(trainer, read.layout.precision);
  const std::string& which = request.find("list")->string;
  const auto layer = static_cast<std::size_t>(request.find("layer")->integer);
  const LayerKind& kind = model.kinds[model.layers[layer].at()];
  const OperatorList list = which == "head"        ? head_work(model, slice, recipe)
                            : which == "embedding" ? embedding_work(model, slice, recipe)
                                                   : layer_work(model, kind, slice, recipe);
  const Totals sums = totals(list);
  Json json = Json::object();
  json.add("kept", kept_json(list))
      .add("operators", operators_json(list))
      .add("kept_for_weights", Json::of(sums.kept_for_weights.value()))
      .add("forward", Json::of(sums.forward.bytes.value()))
      .add("backward", Json::of(sums.backward.bytes.value()))
      .add("held_gradients", Json::of(sums.held_gradients.value()))
      .add("parameters", TW_TRY(parameter_json(model, kind, read.layout, slice, trainer)));
  return json;
}

int run(const std::string& data) {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const Result<Json> requests = parse_json(text, "requests");
  if (!requests) return 2;
  Json answers = Json::array();
  for (const Json& request : requests->items) {
    Result<Json> one = answer(request, data);
    if (!one) {
      std::cerr << to_text(one.error());
      return 2;
    }
    answers.push(std::move(*one));
  }
  std::cout << to_text(answers);
  return 0;
}

}  // namespace
}  // namespace trainwright

int main(int count, char** arguments) { return count == 2 ? trainwright::run(arguments[1]) : 64; }
