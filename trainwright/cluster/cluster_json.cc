// Clusters as JSON: the files of data/clusters and those of users.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/cluster/fields.h"
#include "trainwright/cluster/names.h"
#include "trainwright/cluster/sizing.h"
#include "trainwright/cluster/told_words.h"

namespace trainwright {
namespace {

constexpr std::size_t kMostGroups = 64;
constexpr std::string_view kUsual = "usual";
constexpr IntegerRange kCount = {.least = 1, .most = kMostAccelerators};

// A known name or a whole object; nullopt after a fault.
std::optional<Accelerator> read_accelerator_field(JsonFields& fields, const Hardware& hardware,
                                                  Diagnostics& diagnostics) {
  const Json* json = fields.raw("accelerator");
  if (json != nullptr && json->is_object()) {
    const std::size_t before = diagnostics.size();
    Accelerator accelerator =
        detail::read_accelerator(*json, fields.origin(), fields.path("accelerator"), diagnostics);
    if (diagnostics.size() == before) return accelerator;
    return std::nullopt;
  }
  const std::string name = fields.string("accelerator");
  if (json == nullptr || !json->is_string()) return std::nullopt;
  if (const Accelerator* known = find_accelerator(hardware, name)) return *known;
  const std::vector<std::string> names = detail::accelerator_names(hardware);
  fields.fault("accelerator", fmt::format("unknown accelerator '{}'", name),
               did_you_mean(name, names, "or describe it with an object"));
  return std::nullopt;
}

// Nodes fill domains, and domains the group; the tiers grow from one domain to the whole group.
// Reports the first thing that does not nest, because the others follow from it.
void check_nesting(JsonFields& fields, const Group& group) {
  if (group.per_domain % group.per_node != 0) {
    return fields.fault("per_domain", fmt::format("{} is not a whole number of nodes of {}",
                                                  group.per_domain, group.per_node));
  }
  if (group.count % group.per_domain != 0) {
    return fields.fault("nodes", fmt::format("{} accelerators do not fill domains of {}",
                                             group.count, group.per_domain));
  }
  std::int64_t inner = 0;
  bool meets_domain = group.per_domain == 1;
  for (const Tier& tier : group.tiers) {
    const bool last = &tier == &group.tiers.back();
    // A single domain may meet other groups over a network, whom read_cluster counts.
    if (last && meets_domain && group.count == group.per_domain && tier.domain > group.count)
      return;
    if (tier.domain <= inner || (!last && inner > 0 && tier.domain % inner != 0) ||
        (tier.domain % std::max<std::int64_t>(1, std::min(inner, group.per_domain)) != 0)) {
      return fields.fault(
          "tiers",
          fmt::format("tier '{}' joins {}, the one below it {}", tier.name, tier.domain, inner),
          "list tiers innermost first; each joins a multiple of the one before");
    }
    meets_domain = meets_domain || tier.domain == group.per_domain;
    inner = tier.domain;
  }
  if (inner != group.count) {
    return fields.fault(
        "tiers", fmt::format("the last tier joins {} of {} accelerators", inner, group.count),
        "leave its \"domain\" out: it joins all");
  }
  if (!meets_domain) {
    fields.fault("tiers", fmt::format("no tier joins the {} accelerators of a scale-up domain",
                                      group.per_domain));
  }
}

// Without "tiers" a group is built as its accelerator usually is.
std::optional<Group> usual_tiers(JsonFields& fields, const Group& wanted) {
  const Group pattern = detail::usual_pattern(wanted.accelerator);
  const detail::DomainShape shape{.domains = wanted.count / wanted.per_domain,
                                  .per_domain = wanted.per_domain};
  if (!detail::fits(pattern, shape) || wanted.count % wanted.per_domain != 0 ||
      wanted.per_node != std::min(pattern.per_node, wanted.per_domain)) {
    fields.fault("",
                 fmt::format("{} is not usually built with {} to a node and {} to a domain",
                             wanted.accelerator.name, wanted.per_node, wanted.per_domain),
                 "list the tiers");
    return std::nullopt;
  }
  Group group = detail::sized(pattern, shape);
  group.told = wanted.told;
  detail::lay_network(group);
  group.rails =
      fields.optional_integer("rails", {.least = 1, .most = group.per_node}).value_or(group.rails);
  return group;
}

// "network", "cpu" and "power", as --on has them. Tiers that are listed are the network, unless
// they are said to be "usual".
void read_told(JsonFields& fields, const std::string& origin, const Hardware& hardware,
               Group& group, Diagnostics& diagnostics) {
  const bool usual = fields.optional_string("network").value_or("") == kUsual;
  if (fields.raw("tiers") != nullptr && !usual) group.told.network = Network{};
  std::string words;
  for (const char* key : {"network", "cpu", "power"}) {
    const auto value = fields.optional_string(key);
    if (!value || (usual && key == std::string_view("network"))) continue;
    words += fmt::format("{}{}={}", words.empty() ? "" : ",", key, *value);
  }
  detail::read_told(words, origin, hardware, group, diagnostics);
}

std::optional<Group> read_group(const Json& json, const std::string& origin,
                                const std::string& path, const Hardware& hardware,
                                Diagnostics& diagnostics) {
  JsonFields fields(json, origin, path, diagnostics);
  if (!json.is_object()) return std::nullopt;
  const std::size_t before = diagnostics.size();
  const auto accelerator = read_accelerator_field(fields, hardware, diagnostics);
  Group group;
  if (accelerator) group.accelerator = *accelerator;
  const UsualNode& usual = group.accelerator.node;
  const std::int64_t nodes = fields.integer("nodes", kCount);
  group.per_node = fields.optional_integer("per_node", kCount).value_or(usual.accelerators);
  const std::int64_t usual_domain = accelerator && group.per_node == usual.accelerators
                                        ? accelerator->scale_up.back().domain
                                        : group.per_node;
  group.per_domain = fields.optional_integer("per_domain", kCount).value_or(usual_domain);
  fields.ignore("rails");
  const Json* tiers = fields.raw("tiers");
  if (tiers != nullptr) {
    group.rails =
        fields.optional_integer("rails", {.least = 1, .most = group.per_node}).value_or(1);
    const Json* array = fields.array("tiers");
    if (array) group.tiers = detail::read_tiers(*array, origin, fields.path("tiers"), diagnostics);
  }
  read_told(fields, origin, hardware, group, diagnostics);
  fields.finish();
  if (diagnostics.size() != before) return std::nullopt;
  group.count = nodes * group.per_node;
  if (group.count > kMostAccelerators) {
    fields.fault("nodes", "more accelerators than are accepted",
                 fmt::format("at most {}", with_thousands(kMostAccelerators)));
    return std::nullopt;
  }
  if (tiers == nullptr) return usual_tiers(fields, group);
  if (group.tiers.back().domain == 0) group.tiers.back().domain = group.count;
  check_nesting(fields, group);
  if (diagnostics.size() != before) return std::nullopt;
  return group;
}

Json to_json(const Group& group) {
  Json json = Json::object();
  json.add("accelerator", to_json(group.accelerator))
      .add("nodes", Json::of(node_count(group)))
      .add("per_node", Json::of(group.per_node))
      .add("per_domain", Json::of(group.per_domain))
      .add("rails", Json::of(group.rails))
      .add("tiers", detail::to_json(group.tiers));
  const Told& told = group.told;
  if (!told.network) json.add("network", Json::of(kUsual));
  if (told.network && told.network->nics > 0) json.add("network", Json::of(told.network->name));
  if (told.host) json.add("cpu", Json::of(told.host->name));
  if (told.power > 0) json.add("power", Json::of(fmt::format("{}W", significant(told.power))));
  return json;
}

std::vector<Group> read_groups(JsonFields& fields, const Hardware& hardware,
                               Diagnostics& diagnostics) {
  std::vector<Group> groups;
  const Json* array = fields.array("groups");
  if (array == nullptr) return groups;
  if (array->items.empty() || array->items.size() > kMostGroups) {
    fields.fault("groups", fmt::format("{} groups", array->items.size()),
                 fmt::format("list 1 to {}", kMostGroups));
    return groups;
  }
  for (std::size_t i = 0; i < array->items.size(); ++i) {
    auto group = read_group(array->items[i], fields.origin(),
                            fmt::format("{}/{}", fields.path("groups"), i), hardware, diagnostics);
    if (group) groups.push_back(*std::move(group));
  }
  return groups;
}

}  // namespace

Tier detail::tier_between(const std::vector<Group>& groups) {
  Tier between = groups.front().tiers.back();
  between.name = "between";
  between.domain = 0;
  for (const Group& group : groups) {
    const Tier& outermost = group.tiers.back();
    between.domain += group.count;
    between.bandwidth = std::min(between.bandwidth, outermost.bandwidth);
    between.latency = std::max(between.latency, outermost.latency);
    between.efficiency = std::min(between.efficiency, outermost.efficiency);
    between.oversubscription = std::max(between.oversubscription, outermost.oversubscription);
  }
  return between;
}

Result<Cluster> read_cluster(const Json& json, const std::string& origin,
                             const Hardware& hardware) {
  Diagnostics diagnostics;
  JsonFields fields(json, origin, "", diagnostics);
  if (!json.is_object()) return fail(std::move(diagnostics));
  Cluster cluster;
  for (const char* key : {"schema", "made_by"}) {
    if (json.find(key) != nullptr) fields.ignore(key);  // what `show cluster --json` printed
  }
  const auto name = fields.optional_string("name");
  cluster.name = name.value_or(origin);
  if (const std::string hidden = hidden_fault(origin);
      !name && fields.raw("name") == nullptr && !hidden.empty()) {
    fields.fault("", "the file's name " + hidden, "rename it, or add a field \"name\"");
  }
  cluster.groups = read_groups(fields, hardware, diagnostics);
  if (const Json* between = fields.raw("between")) {
    cluster.between = detail::read_tier(*between, origin, fields.path("between"), diagnostics);
  }
  cluster.sources = detail::sources_field(fields, diagnostics);
  fields.finish();
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  const std::int64_t count = accelerator_count(cluster);
  if (count > kMostAccelerators) {
    fields.fault("groups", "more accelerators than are accepted",
                 fmt::format("at most {}", with_thousands(kMostAccelerators)));
  }
  for (const Group& group : cluster.groups) {
    const std::int64_t joined = group.tiers.back().domain;
    if (joined == group.count || joined == count) continue;
    fields.fault("groups", fmt::format("a network joins {} of {} accelerators", joined, count),
                 "leave the \"domain\" of the last tier out");
  }
  if (cluster.groups.size() > 1 && !cluster.between) {
    cluster.between = detail::tier_between(cluster.groups);
  }
  if (cluster.between && cluster.between->domain == 0) cluster.between->domain = count;
  if (cluster.between && cluster.between->domain != count) {
    fields.fault("between",
                 fmt::format("joins {} of {} accelerators", cluster.between->domain, count),
                 "leave its \"domain\" out: it joins all");
  }
  if (cluster.between && cluster.groups.size() == 1) {
    fields.fault("between", "there is only one group", "remove it");
  }
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return cluster;
}

Json to_json(const Cluster& cluster) {
  Json groups = Json::array();
  for (const Group& group : cluster.groups) groups.push(to_json(group));
  Json json = Json::object().add("name", Json::of(cluster.name)).add("groups", std::move(groups));
  if (cluster.between) json.add("between", detail::to_json(*cluster.between));
  return json.add("sources", detail::to_json(cluster.sources));
}

}  // namespace trainwright
