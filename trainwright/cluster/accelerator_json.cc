// Accelerators as JSON: the files of data/accelerators, and objects inside cluster files.
#include <fmt/format.h>

#include <array>

#include "trainwright/base/text.h"
#include "trainwright/cluster/fields.h"

namespace trainwright {
namespace {

constexpr std::array kComputeTypes = {ComputeType::Fp64, ComputeType::Fp32, ComputeType::Tf32,
                                      ComputeType::Fp16, ComputeType::Bf16, ComputeType::Fp8,
                                      ComputeType::Int8, ComputeType::Fp6,  ComputeType::Fp4};

std::map<ComputeType, FlopsPerSecond> read_peak(JsonFields& fields, Diagnostics& diagnostics) {
  std::map<ComputeType, FlopsPerSecond> peak;
  const Json* json = fields.object("peak");
  if (json == nullptr) return peak;
  JsonFields rates(*json, fields.origin(), fields.path("peak"), diagnostics);
  for (const ComputeType type : kComputeTypes) {
    if (rates.raw(name_of(type)) == nullptr) continue;
    peak.emplace(type, detail::compute_field(rates, name_of(type)));
  }
  rates.finish();
  // Every FLOP of training has to run as something; fp32 is what all of them have.
  if (peak.empty())
    fields.fault("peak", "no rate at all", "give at least one, \"bf16\" for example");
  return peak;
}

UsualNode read_node(JsonFields& fields, Diagnostics& diagnostics) {
  UsualNode node;
  const Json* json = fields.object("node");
  if (json == nullptr) return node;
  JsonFields parts(*json, fields.origin(), fields.path("node"), diagnostics);
  node.accelerators = parts.integer("accelerators", {.least = 1, .most = kMostAccelerators});
  node.nics = parts.integer("nics", {.least = 1, .most = kMostAccelerators});
  node.nic_bandwidth = detail::bandwidth_field(parts, "nic_bandwidth");
  node.leaf_domains = parts.integer("leaf_domains", {.least = 1, .most = kMostAccelerators});
  if (parts.raw("efa") != nullptr) node.efa = detail::bandwidth_field(parts, "efa");
  parts.finish();
  return node;
}

// The sizes of one accelerator's links, nodes and domains must nest.
void check_nesting(JsonFields& fields, const Accelerator& accelerator) {
  std::int64_t inner = 1;
  for (const Tier& tier : accelerator.scale_up) {
    if (tier.domain < 1) {
      fields.fault("scale_up", fmt::format("the domain of tier '{}' is missing", tier.name),
                   "say how many accelerators the links join");
      return;
    }
    if (tier.domain % inner != 0 || (inner > 1 && tier.domain == inner)) {
      fields.fault(
          "scale_up",
          fmt::format("a domain of {} does not hold whole domains of {}", tier.domain, inner),
          "list tiers innermost first; each is a multiple of the one before");
      return;
    }
    inner = tier.domain;
  }
  if (accelerator.node.accelerators < 1 || inner % accelerator.node.accelerators != 0) {
    fields.fault("node", fmt::format("a scale-up domain of {} is not a whole number of nodes of {}",
                                     inner, accelerator.node.accelerators));
    return;
  }
  const std::int64_t job = accelerator.job_domain;
  if (job > inner || (job > accelerator.node.accelerators && job % accelerator.node.accelerators)) {
    fields.fault("job_domain",
                 fmt::format("{} of a domain of {} in nodes of {}", job, inner,
                             accelerator.node.accelerators),
                 "whole nodes, at most the domain");
  }
}

Bytes read_visible_memory(JsonFields& fields, Bytes memory) {
  if (fields.raw("memory_visible") == nullptr) return memory;
  const Bytes visible = detail::bytes_field(fields, "memory_visible", detail::Presence::Optional);
  if (visible > memory) fields.fault("memory_visible", "more than the memory itself");
  return visible;
}

}  // namespace

Accelerator detail::read_accelerator(const Json& json, const std::string& origin,
                                     const std::string& path, Diagnostics& diagnostics) {
  Accelerator accelerator;
  JsonFields fields(json, origin, path, diagnostics);
  if (!json.is_object()) return accelerator;
  const std::size_t faults_before = diagnostics.size();
  accelerator.name = name_field(fields, "name");
  accelerator.aliases = fields.optional_strings("aliases");
  for (const std::string& alias : accelerator.aliases) {
    if (const std::string fault = name_fault(alias); !fault.empty()) {
      fields.fault("aliases", fmt::format("an alias {}", fault));
    }
  }
  accelerator.vendor = fields.string("vendor");
  accelerator.year = fields.integer("year", {.least = 1990, .most = 2100});
  accelerator.compute_capability = fields.optional_number("compute_capability").value_or(0);
  if (accelerator.compute_capability < 0 || accelerator.compute_capability > 1000) {
    fields.fault("compute_capability", "not a compute capability", "9.0 for Hopper");
  }
  accelerator.memory = bytes_field(fields, "memory", Presence::Required);
  accelerator.memory_visible = read_visible_memory(fields, accelerator.memory);
  accelerator.memory_bandwidth = bandwidth_field(fields, "memory_bandwidth");
  accelerator.peak = read_peak(fields, diagnostics);
  if (const Json* tiers = fields.array("scale_up")) {
    accelerator.scale_up = read_tiers(*tiers, origin, fields.path("scale_up"), diagnostics);
  }
  const std::int64_t domain = accelerator.scale_up.empty() ? 1 : accelerator.scale_up.back().domain;
  accelerator.job_domain =
      fields.optional_integer("job_domain", {.least = 1, .most = kMostAccelerators})
          .value_or(domain);
  accelerator.host_link = bandwidth_field(fields, "host_link");
  accelerator.power = ratio_field(fields, "power", 0, 1e5, 0);
  accelerator.node = read_node(fields, diagnostics);
  accelerator.sources = sources_field(fields, diagnostics);
  fields.finish();
  if (diagnostics.size() == faults_before) check_nesting(fields, accelerator);
  return accelerator;
}

Result<Accelerator> read_accelerator(const Json& json, const std::string& origin) {
  Diagnostics diagnostics;
  Accelerator accelerator = detail::read_accelerator(json, origin, "", diagnostics);
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return accelerator;
}

Json to_json(const Accelerator& accelerator) {
  Json aliases = Json::array();
  for (const std::string& alias : accelerator.aliases) aliases.push(Json::of(alias));
  Json peak = Json::object();
  for (const auto& [type, rate] : accelerator.peak) {
    peak.add(std::string(name_of(type)), Json::of(to_exact_text(rate)));
  }
  const UsualNode& node = accelerator.node;
  Json usual = Json::object()
                   .add("accelerators", Json::of(node.accelerators))
                   .add("nics", Json::of(node.nics))
                   .add("nic_bandwidth", Json::of(to_exact_text(node.nic_bandwidth)))
                   .add("leaf_domains", Json::of(node.leaf_domains));
  if (node.efa > BytesPerSecond(0)) usual.add("efa", Json::of(to_exact_text(node.efa)));
  Json json = Json::object();
  json.add("name", Json::of(accelerator.name))
      .add("aliases", std::move(aliases))
      .add("vendor", Json::of(accelerator.vendor))
      .add("year", Json::of(accelerator.year))
      .add("compute_capability", Json::of(accelerator.compute_capability))
      .add("memory", Json::of(to_exact_text(accelerator.memory)))
      .add("memory_visible", Json::of(to_exact_text(accelerator.memory_visible)))
      .add("memory_bandwidth", Json::of(to_exact_text(accelerator.memory_bandwidth)))
      .add("peak", std::move(peak))
      .add("scale_up", detail::to_json(accelerator.scale_up))
      .add("job_domain", Json::of(accelerator.job_domain))
      .add("host_link", Json::of(to_exact_text(accelerator.host_link)));
  if (accelerator.power > 0) json.add("power", Json::of(accelerator.power));
  return json.add("node", std::move(usual)).add("sources", detail::to_json(accelerator.sources));
}

}  // namespace trainwright
