#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

struct Constant {
  std::string_view name;
  double MemoryConstants::* field;
  double least, most;  // whatever the file says
};
constexpr double kMostBytes = 1e12;
constexpr std::array<Constant, 8> kConstants{{
    {"context", &MemoryConstants::context, 0, kMostBytes},
    {"communicator", &MemoryConstants::communicator, 0, kMostBytes},
    {"communicator_rank", &MemoryConstants::communicator_rank, 0, kMostBytes},
    {"workspace", &MemoryConstants::workspace, 0, kMostBytes},
    {"slack_share", &MemoryConstants::slack_share, 0, 10},
    {"slack_least", &MemoryConstants::slack_least, 0, kMostBytes},
    {"expert_imbalance", &MemoryConstants::expert_imbalance, 1, 1000},
    {"spread", &MemoryConstants::spread, 0, 10},
}};

Json moment_json(const Moment& moment) {
  Json json = Json::object();
  json.add("during", Json::of(name_of(moment.kind)));
  if (moment.kind == Moment::Kind::Step) return json;
  json.add("chunk", Json::of(moment.chunk))
      .add("micro_batch", Json::of(moment.micro_batch))
      .add("in_flight", Json::of(moment.in_flight))
      .add("operator", Json::of(moment.operator_name));
  return json;
}

Json class_json(const RankClass& of) {
  Json bytes = Json::object();
  for (std::size_t i = 0; i < kCategories; ++i) {
    bytes.add(std::string(name_of(static_cast<Category>(i))), Json::of(of.bytes[i].value()));
  }
  Json json = Json::object();
  json.add("pipeline_rank", Json::of(of.pipeline_rank))
      .add("ranks", Json::of(of.ranks))
      .add("layers", Json::of(of.layers))
      .add("bytes", std::move(bytes))
      .add("allocated", Json::of(of.allocated.value()))
      .add("reserved", Json::of(of.reserved.value()))
      .add("driver", Json::of(of.driver.value()))
      .add("between_steps", Json::of(of.between_steps.value()))
      .add("first_step", Json::object()
                             .add("allocated", Json::of(of.first_allocated.value()))
                             .add("reserved", Json::of(of.first_reserved.value())))
      .add("peak", moment_json(of.moment));
  return json;
}

}  // namespace

Result<MemoryConstants> read_memory_constants(const Json& json, const std::string& origin) {
  Diagnostics faults;
  MemoryConstants constants;
  JsonFields fields(json, origin, "", faults);
  for (const Constant& constant : kConstants) {
    const Json* object = fields.object(constant.name);
    if (object == nullptr) continue;
    JsonFields of(*object, origin, fields.path(constant.name), faults);
    const double value = of.number("value");
    const double least = of.number("least"), most = of.number("most");
    of.string("unit");
    of.string("source");
    of.finish();
    // Written so that a number that is none fails.
    if (!(value >= std::max(least, constant.least) && value <= std::min(most, constant.most))) {
      of.fault("value", "it is not within its bounds");
    }
    constants.*constant.field = value;
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return constants;
}

Result<MemoryConstants> load_memory_constants(const std::string& data_directory) {
  const std::string path = data_directory + "/calibrations/memory.json";
  const Json json = TW_TRY(read_json_file(path));
  return read_memory_constants(json, path);
}

Json to_json(const MemoryEstimate& estimate) {
  Json classes = Json::array();
  for (const RankClass& of : estimate.classes) classes.push(class_json(of));
  Json json = Json::object();
  json.add("classes", std::move(classes))
      .add("worst", Json::of(static_cast<std::int64_t>(estimate.worst)))
      .add("capacity", Json::of(estimate.capacity.value()))
      .add("low", Json::of(estimate.low.value()))
      .add("high", Json::of(estimate.high.value()))
      // Finer than a millionth is noise.
      .add("oom", Json::of(std::round(estimate.oom * 1e6) / 1e6));
  return json;
}

}  // namespace trainwright
