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
    {"products", "factor", "on matrix products at settled clocks", 0.7, 3, 1.05, 0.12},
    {"attention", "factor", "on fused attention", 0.3, 6, 1.1, 0.3},
    {"streams", "factor", "on memory-bound kernels", 0.3, 8, 1.3, 0.4},
    {"loss", "factor", "on the loss, which lists have as one pass", 0.3, 12, 2, 0.5},
    {"launch", "s", "that each kernel adds on the device", 1e-7, 1e-4, 8e-6, 0.8},
    {"host", "s", "that the host needs for each kernel", 1e-7, 5e-4, 4e-5, 0.8},
    {"hop", "s", "that a hop of a tensor-parallel collective across nodes takes", 1e-7, 1e-3, 1e-6,
     2},
    {"stalled_hop", "s", "the same where stages of the pipeline sit on several nodes", 1e-7, 1e-3,
     1e-6, 2},
    {"collectives", "factor", "on collectives within a micro-batch", 0.3, 6, 1.2, 0.3},
    {"reductions", "factor", "on all-reduces beside that", 0.5, 4, 1.1, 0.25},
    {"exposed", "share", "of collectives beside other work that shows", 0.02, 1, 0.5, 0.5},
    {"transfer", "factor", "on transfers between stages", 0.2, 20, 1.5, 0.7},
    {"data", "factor", "on gradients and weights that travel", 0.2, 20, 1.5, 0.7},
    {"data_exposed", "share", "of them that shows where they are overlapped", 0.02, 1, 0.4, 0.5},
    {"data_growth", "share", "of them with every doubling of the ranks beyond 64", 0.005, 2, 0.1,
     0.7},
    {"optimizer", "factor", "on its bytes at full bandwidth", 0.3, 20, 1.5, 0.6},
    {"growth", "share", "of a step with every doubling of the ranks beyond 8", 0.0005, 0.05, 0.006,
     0.7},
    {"scale", "factor", "on the whole step of one's own machine", 0.3, 3, 1, 0.14},
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

Stack read_stack(const Json& json, const std::string& origin, const std::string& path,
                 Diagnostics& faults) {
  Stack stack;
  JsonFields fields(json, origin, path, faults);
  stack.name = fields.string("name");
  stack.trainers = fields.optional_strings("trainers");
  stack.source = fields.string("source");
  read_spreads(fields, stack);
  if (const Json* constants = fields.object("constants")) {
    JsonFields of(*constants, origin, fields.path("constants"), faults);
    for (std::size_t i = 0; i < kStackConstants; ++i) {
      const StackPrior& known = kPriors[i];
      const std::size_t before = faults.size();
      const double value = of.number(known.name);
      // Written so that NaN fails, too. What is absent has its fault already.
      if (faults.size() == before && !(value >= known.least && value <= known.most)) {
        of.fault(known.name,
                 fmt::format("not between {} and {} ({})", known.least, known.most, known.unit));
      }
      stack.constants.values[i] = value;
    }
    of.finish();
  }
  fields.finish();
  return stack;
}

}  // namespace

bool is_untaught(const Cluster& cluster) {
  return std::any_of(cluster.groups.begin(), cluster.groups.end(),
                     [](const Group& group) { return group.accelerator.vendor != "NVIDIA"; });
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
  const Json* width = json.find("width") != nullptr ? fields.object("width") : nullptr;
  fields.finish();
  if (width != nullptr) read_width(*width, origin, stacks, faults);
  for (std::size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    stacks.list.push_back(read_stack(list->items[i], origin, fmt::format("/stacks/{}", i), faults));
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

Json to_json(const Stacks& stacks) {
  Json list = Json::array();
  for (const Stack& stack : stacks.list) {
    Json trainers = Json::array();
    for (const std::string& name : stack.trainers) trainers.push(Json::of(name));
    Json constants = Json::object();
    for (std::size_t i = 0; i < kStackConstants; ++i) {
      constants.add(std::string(kPriors[i].name), Json::of(rounded(stack.constants.values[i])));
    }
    Json spreads = Json::array();
    for (const double spread : stack.spreads) spreads.push(Json::of(rounded(spread)));
    list.push(Json::object()
                  .add("name", Json::of(stack.name))
                  .add("trainers", std::move(trainers))
                  .add("constants", std::move(constants))
                  .add("spread", std::move(spreads))
                  .add("source", Json::of(stack.source)));
  }
  Json json = Json::object().add("stacks", std::move(list));
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
