#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/memory/memory.h"

namespace trainwright {
namespace {

struct Constant {
  std::string_view name;
  double MemoryConstants::* field;
  std::string_view unit;
  double least, most;  // whatever the file says
  bool newer = false;  // files of one's own may be older
};
constexpr double kMostLead = 1024;  // the launch queue of CUDA
constexpr std::array<Constant, 11> kConstants{{
    {"outside", &MemoryConstants::outside, "place between low and high", -1, 1},
    {"lead_alone", &MemoryConstants::lead_alone, "kernels", 0, kMostLead},
    {"lead_pipeline", &MemoryConstants::lead_pipeline, "kernels", 0, kMostLead},
    {"lead_most", &MemoryConstants::lead_most, "kernels", 0, kMostLead},
    {"expert_imbalance", &MemoryConstants::expert_imbalance, "busiest over mean", 1, 1000},
    {"spread_read", &MemoryConstants::spread_read, "standard deviation, share", 0, 10},
    {"spread_assumed", &MemoryConstants::spread_assumed, "standard deviation, share", 0, 10},
    {"spread_reserved", &MemoryConstants::spread_reserved, "standard deviation, share", 0, 10},
    {"spread_late", &MemoryConstants::spread_late, "standard deviation, share", 0, 10},
    {"doubt_unscored", &MemoryConstants::doubt_unscored, "standard deviation, share", 0, 10, true},
    {"doubt_adapters", &MemoryConstants::doubt_adapters, "standard deviation, share", 0, 10, true},
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

// 90 % intervals by counter.
Json interval_json(const RankClass& of) {
  Json json = Json::object();
  for (const Counter counter : {Counter::Allocated, Counter::Reserved, Counter::Driver}) {
    Json interval = Json::object();
    interval
        .add("low",
             Json::of(exceeded_with(0.95, bytes_of(of, counter), spread_of(of, counter)).value()))
        .add("high",
             Json::of(exceeded_with(0.05, bytes_of(of, counter), spread_of(of, counter)).value()));
    json.add(std::string(name_of(counter)), std::move(interval));
  }
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
      .add("intervals", interval_json(of))
      .add("peak", moment_json(of.moment));
  return json;
}

}  // namespace

Result<MemoryConstants> read_memory_constants(const Json& json, const std::string& origin) {
  Diagnostics faults;
  MemoryConstants constants;
  JsonFields fields(json, origin, "", faults);
  for (const Constant& constant : kConstants) {
    if (constant.newer && fields.raw(constant.name) == nullptr) continue;
    const Json* object = fields.object(constant.name);
    if (object == nullptr) continue;
    JsonFields of(*object, origin, fields.path(constant.name), faults);
    const double value = of.number("value");
    const double least = of.number("least"), most = of.number("most");
    of.string("unit");
    of.string("source");
    of.finish();
    // Written so that NaN fails, too.
    if (!(value >= std::max(least, constant.least) && value <= std::min(most, constant.most))) {
      of.fault("value", "it is not within its bounds");
    }
    constants.*constant.field = value;
  }
  if (fields.raw("scored") != nullptr && fields.object("scored") != nullptr) {
    JsonFields of(*fields.object("scored"), origin, fields.path("scored"), faults);
    constants.scored = of.optional_strings("trainers");
    of.string("source");
    of.finish();
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return constants;
}

Result<MemoryConstants> load_memory_constants(const std::string& data_directory,
                                              const std::optional<std::string>& file) {
  const std::string path = file.value_or(data_directory + "/calibrations/memory.json");
  const Json json = TW_TRY(read_json_file(path));
  MemoryConstants constants = TW_TRY(read_memory_constants(json, path));
  constants.facts = TW_TRY(load_outside_facts(data_directory));
  return constants;
}

Json to_json(const MemoryConstants& constants) {
  Json json = Json::object();
  for (const Constant& constant : kConstants) {
    Json entry = Json::object();
    entry.add("value", Json::of(constants.*constant.field))
        .add("unit", Json::of(constant.unit))
        .add("least", Json::of(constant.least))
        .add("most", Json::of(constant.most))
        .add("source", Json::of("trainwright validate memory"));
    json.add(std::string(constant.name), std::move(entry));
  }
  Json trainers = Json::array();
  for (const std::string& name : constants.scored) trainers.push(Json::of(name));
  Json scored = Json::object();
  scored.add("trainers", std::move(trainers))
      .add("source", Json::of("trainwright validate memory"));
  json.add("scored", std::move(scored));
  return json;
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
      .add("oom", Json::of(std::round(estimate.oom * 1e6) / 1e6))
      .add("outside", to_json(estimate.outside));
  return json;
}

}  // namespace trainwright
