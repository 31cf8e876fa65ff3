#include "trainwright/simulate/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright {
namespace {

// Middles and spreads from what several sources agree on; `usual` was rounded with all of them in
// view, so it is no prediction for any of them.
constexpr std::array<StackPrior, kStackConstants> kPriors = {{
    {"products", "factor", "on GEMMs at settled clocks", 0.95, 3, 1.03, 0.06, 0.05, 0.05},
    {"attention", "factor", "on fused attention", 1, 6, 1.05, 0.12, 0.1, 0.2},
    {"streams", "factor", "on memory-bound kernels", 0.8, 8, 1.3, 0.25, 0.2, 0.4},
    {"loss", "factor", "on the loss, which lists have as one pass", 0.8, 8, 1.1, 0.25, 0.15, 0.25},
    {"accumulate", "share", "of the traffic of adding up gradients that shows", 0.3, 1.2, 0.7, 0.3,
     0, 0.3},
    {"host", "factor", "on what the host takes for an operator", 0.3, 5, 1, 0.06, 0.1, 0.3},
    {"hop", "s", "of the host for a hop of a tensor-parallel collective where ranks leave a node",
     1e-7, 1e-3, 1e-6, 1, 1, 1},
    {"in_node", "factor", "on collectives within a node", 1, 5, 1.15, 0.15, 0, 0.3},
    {"network", "factor", "on what crosses the network", 1, 10, 1.3, 0.3, 0.2, 0.6},
    {"reductions", "factor", "on all-reduces beside that", 1, 2, 1.1, 0.15, 0, 0.3},
    {"exposed", "share", "of collectives beside other work that shows", 0.05, 1, 0.4, 0.4, 0.3,
     1.5},
    {"transfer", "share", "of a transfer between stages that shows", 0.1, 1, 0.6, 0.4, 0.3, 1.5},
    {"data_in_node", "factor", "on gradients and weights within a node, beside that", 1, 2, 1.1,
     0.15, 0, 0.3},
    {"data_exposed", "share", "of gradients and weights that shows where they are overlapped", 0.05,
     1, 0.4, 0.4, 0.3, 1.5},
    {"data_growth", "share", "of them on the network with every doubling of the ranks beyond 64",
     0.003, 0.4, 0.05, 0.6, 0, 0.6},
    {"optimizer", "factor", "on its bytes at full bandwidth", 0.9, 4, 1.1, 0.2, 0, 0.3},
    {"growth", "share", "of a step with every doubling of the ranks beyond 8", 0.0005, 0.02, 0.004,
     0.6, 0, 0.6},
    {"fixed", "s", "of a step beside all of it", 5e-4, 0.08, 0.015, 0.6, 0.4, 0.7},
    {"tuned", "factor", "on the step of a vendor's own recipe", 0.75, 1, 0.92, 0.06, 0, 0},
    {"scale", "factor", "on the whole step of one's own machine", 0.3, 3, 1, 0.14, 0, 0.14},
}};

// More digits than the runs determine.
double rounded(double value) { return parse_number(fmt::format("{:.4g}", value)).value_or(value); }

void read_spreads(JsonFields& fields, Stack& stack) {
  const Json* list = fields.array("spread");
  if (list == nullptr) return;
  bool good = list->items.size() == stack.spreads.size();
  for (std::size_t i = 0; good && i < stack.spreads.size(); ++i) {
    const Json& item = list->items[i];
    good = item.is_number() && item.number > 0 && item.number < 5;
    stack.spreads[i] = item.number;
  }
  if (!good) fields.fault("spread", "not three numbers between 0 and 5");
  stack.constants.spread = stack.spreads.front();
}

void read_width(const Json& json, const std::string& origin, Stacks& stacks, Diagnostics& faults) {
  WidthRule& rule = stacks.width;
  JsonFields fields(json, origin, "/width", faults);
  stacks.width_source = fields.string("source");
  const auto read = [&](const char* name, double& value, double least) {
    const std::size_t before = faults.size();
    value = fields.number(name);
    if (faults.size() == before && !(value >= least && value <= 10)) {
      fields.fault(name, fmt::format("not between {} and 10", least));
    }
  };
  read("least", rule.least, 0.01);
  read("rest", rule.rest, 0);
  read("nodes", rule.nodes, 0);
  read("experts", rule.experts, 0.1);
  read("adapters", rule.adapters, 0.1);
  // Files of one's own may be older than these numbers.
  if (fields.raw("untaught") != nullptr) read("untaught", rule.untaught, 0.1);
  if (fields.raw("slow") != nullptr) read("slow", rule.slow, 1);
  fields.finish();
}

// Values by name; what is not there is as it was.
void read_constants(const Json& json, const std::string& origin, const std::string& path,
                    StackConstants& constants, Diagnostics& faults) {
  JsonFields of(json, origin, path, faults);
  for (std::size_t i = 0; i < kStackConstants; ++i) {
    const StackPrior& known = kPriors[i];
    if (of.raw(known.name) == nullptr) continue;
    const std::size_t before = faults.size();
    const double value = of.number(known.name);
    // Written so that NaN fails, too.
    if (faults.size() == before && !(value >= known.least && value <= known.most)) {
      of.fault(known.name,
               fmt::format("not between {} and {} ({})", known.least, known.most, known.unit));
    }
    constants.values[i] = value;
  }
  of.finish();
}

Stack read_stack(const Json& json, const std::string& origin, const std::string& path,
                 const StackConstants& shared, Diagnostics& faults) {
  Stack stack;
  stack.constants = shared;
  JsonFields fields(json, origin, path, faults);
  stack.name = fields.string("name");
  stack.trainers = fields.optional_strings("trainers");
  stack.source = fields.string("source");
  read_spreads(fields, stack);
  if (const Json* constants = fields.object("constants")) {
    read_constants(*constants, origin, fields.path("constants"), stack.constants, faults);
  }
  const double host = fields.number("host");
  if (!(host > 0 && host < 1e-2)) fields.fault("host", "not between 0 and 0.01 s");
  stack.constants.host = Seconds(host);
  fields.finish();
  return stack;
}

}  // namespace

bool is_untaught(const Cluster& cluster) {
  return std::any_of(cluster.groups.begin(), cluster.groups.end(),
                     [](const Group& group) { return group.accelerator.vendor != "NVIDIA"; });
}

std::array<bool, kUnspecified> told_of(const Cluster& cluster) {
  const auto all = [&](const auto& told) {
    return std::all_of(cluster.groups.begin(), cluster.groups.end(),
                       [&](const Group& group) { return told(group.told); });
  };
  return {all([](const Told& told) { return told.network.has_value(); }),
          all([](const Told& told) { return told.host.has_value(); }),
          all([](const Told& told) { return told.power > 0; })};
}

double width_of(const WidthRule& rule, const Regime& regime, double other) {
  return (rule.least + rule.rest * other) *
         (1 + rule.nodes * std::log2(std::max(1.0, regime.nodes))) *
         (regime.experts ? rule.experts : 1) * (regime.adapters ? rule.adapters : 1) *
         (regime.untaught ? rule.untaught : 1);
}

std::span<const StackPrior> stack_priors() { return kPriors; }

StackConstants usual_stack() {
  StackConstants usual;
  for (std::size_t i = 0; i < kStackConstants; ++i) usual.values[i] = kPriors[i].usual;
  return usual;
}

Result<Stacks> read_stacks(const Json& json, const std::string& origin) {
  Diagnostics faults;
  Stacks stacks;
  JsonFields fields(json, origin, "", faults);
  const Json* list = fields.array("stacks");
  StackConstants shared = usual_stack();
  if (const Json* json_of = fields.object("shared")) {
    read_constants(*json_of, origin, "/shared", shared, faults);
  }
  const Json* width = json.find("width") != nullptr ? fields.object("width") : nullptr;
  fields.finish();
  if (width != nullptr) read_width(*width, origin, stacks, faults);
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    stacks.list.push_back(
        read_stack(list->items[i], origin, fmt::format("/stacks/{}", i), shared, faults));
  }
  if (list != nullptr && (stacks.list.empty() || !stacks.list.back().trainers.empty())) {
    fields.fault("stacks", "the last one must be that of all other trainers",
                 "give it an empty list of trainers");
  }
  if (!faults.empty()) return fail(std::move(faults));
  for (Stack& stack : stacks.list) stack.constants.width = stacks.width;
  return stacks;
}

Result<Stacks> load_stacks(const std::string& data_directory,
                           const std::optional<std::string>& file) {
  const std::string path = file.value_or(data_directory + "/calibrations/time.json");
  const Json json = TW_TRY(read_json_file(path));
  return read_stacks(json, path);
}

Stacks as_tuned(Stacks stacks) {
  for (Stack& stack : stacks.list) {
    auto& values = stack.constants.values;
    values[static_cast<std::size_t>(StackConstant::Scale)] *=
        stack.constants.at(StackConstant::Tuned);
  }
  return stacks;
}

Json to_json(const Stacks& stacks) {
  // The last stack, of all other trainers, has what all share; the others say where they deviate.
  Json list = Json::array(), shared = Json::object();
  const auto value = [](const Stack& stack, std::size_t i) {
    return rounded(stack.constants.values[i]);
  };
  for (std::size_t i = 0; i < kStackConstants; ++i) {
    shared.add(std::string(kPriors[i].name), Json::of(value(stacks.list.back(), i)));
  }
  for (const Stack& stack : stacks.list) {
    Json trainers = Json::array();
    for (const std::string& name : stack.trainers) trainers.push(Json::of(name));
    Json constants = Json::object();
    for (std::size_t i = 0; i < kStackConstants; ++i) {
      if (value(stack, i) == value(stacks.list.back(), i)) continue;
      constants.add(std::string(kPriors[i].name), Json::of(value(stack, i)));
    }
    Json spreads = Json::array();
    for (const double spread : stack.spreads) spreads.push(Json::of(rounded(spread)));
    list.push(Json::object()
                  .add("name", Json::of(stack.name))
                  .add("trainers", std::move(trainers))
                  .add("host", Json::of(rounded(stack.constants.host.value())))
                  .add("constants", std::move(constants))
                  .add("spread", std::move(spreads))
                  .add("source", Json::of(stack.source)));
  }
  Json json = Json::object().add("shared", std::move(shared)).add("stacks", std::move(list));
  if (!stacks.width_source.empty()) {
    json.add("width", Json::object()
                          .add("least", Json::of(stacks.width.least))
                          .add("rest", Json::of(stacks.width.rest))
                          .add("nodes", Json::of(stacks.width.nodes))
                          .add("experts", Json::of(stacks.width.experts))
                          .add("adapters", Json::of(stacks.width.adapters))
                          .add("untaught", Json::of(stacks.width.untaught))
                          .add("slow", Json::of(stacks.width.slow))
                          .add("source", Json::of(stacks.width_source)));
  }
  return json;
}

const Stack& stack_of(const Stacks& stacks, const Trainer& trainer) {
  const auto found = std::find_if(stacks.list.begin(), stacks.list.end(), [&](const Stack& stack) {
    return std::find(stack.trainers.begin(), stack.trainers.end(), trainer.stack) !=
           stack.trainers.end();
  });
  return found == stacks.list.end() ? stacks.list.back() : *found;
}

}  // namespace trainwright
