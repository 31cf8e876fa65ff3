#include "trainwright/cluster/fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

// Bounds far outside anything built, so that products of fields stay finite.
constexpr Bytes kMostMemory(1'000'000'000'000'000);  // 1 PB in one accelerator
constexpr BytesPerSecond kLeastBandwidth(1e3);       // 1 kB/s
constexpr BytesPerSecond kMostBandwidth(1e18);       // 1,000 PB/s
constexpr FlopsPerSecond kLeastCompute(1e6);         // 1 MFLOP/s
constexpr FlopsPerSecond kMostCompute(1e21);         // 1,000 EFLOP/s
constexpr Seconds kMostLatency(60);
constexpr std::size_t kMostTiers = 16;
constexpr std::size_t kLongestName = 64;

template <class Quantity>
Quantity quantity_field(JsonFields& fields, std::string_view key, Presence presence,
                        Result<Quantity> parse(std::string_view), Quantity least, Quantity most,
                        std::string (*print)(Quantity)) {
  const auto text = presence == Presence::Required ? std::optional(fields.string(key))
                                                   : fields.optional_string(key);
  // A missing or mistyped field was reported by the call above.
  if (!text || (text->empty() && fields.raw(key) == nullptr)) return least;
  if (const Json* raw = fields.raw(key); raw != nullptr && !raw->is_string()) return least;
  const auto value = parse(*text);
  if (!value) {
    const Diagnostic& fault = value.error().diagnostics.front();
    fields.fault(key, fmt::format("{}: {}", fault.where, fault.what), fault.hint);
    return least;
  }
  if (*value < least || *value > most) {
    fields.fault(key, fmt::format("'{}' is out of range", *text),
                 fmt::format("between {} and {}", print(least), print(most)));
    return least;
  }
  return *value;
}

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

Bytes bytes_field(JsonFields& fields, std::string_view key, Presence presence) {
  return quantity_field<Bytes>(fields, key, presence, parse_bytes, Bytes(1), kMostMemory, to_text);
}

BytesPerSecond bandwidth_field(JsonFields& fields, std::string_view key) {
  return quantity_field<BytesPerSecond>(fields, key, Presence::Required, parse_bytes_per_second,
                                        kLeastBandwidth, kMostBandwidth, to_text);
}

FlopsPerSecond compute_field(JsonFields& fields, std::string_view key) {
  return quantity_field<FlopsPerSecond>(fields, key, Presence::Required, parse_flops_per_second,
                                        kLeastCompute, kMostCompute, to_text);
}

Seconds latency_field(JsonFields& fields, std::string_view key) {
  return quantity_field<Seconds>(fields, key, Presence::Required, parse_seconds, Seconds(0),
                                 kMostLatency, to_text);
}

double ratio_field(JsonFields& fields, std::string_view key, double least, double most,
                   double otherwise) {
  const double value = fields.optional_number(key).value_or(otherwise);
  if (value >= least && value <= most) return value;
  fields.fault(key, fmt::format("{} is out of range", significant(value)),
               fmt::format("between {} and {}", significant(least), significant(most)));
  return otherwise;
}

std::string name_fault(std::string_view name) {
  if (name.empty()) return "a name is never empty";
  if (name.size() > kLongestName) return fmt::format("longer than {} letters", kLongestName);
  if (!std::all_of(name.begin(), name.end(), is_name_letter)) {
    return "holds a letter other than a-z, A-Z, 0-9, '.', '_' and '-'";
  }
  const auto digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits > 0 && digits < name.size() && (name[digits] == 'x' || name[digits] == 'X')) {
    return "begins like a count";
  }
  if (name.ends_with(".json")) return "ends like a file";
  return {};
}

std::string name_field(JsonFields& fields, std::string_view key) {
  std::string name = fields.string(key);
  const Json* raw = fields.raw(key);
  if (raw == nullptr || !raw->is_string()) return name;
  if (const std::string fault = name_fault(name); !fault.empty()) {
    fields.fault(key, fmt::format("the name {}", fault), "names look like H100-SXM");
  }
  return name;
}

std::map<std::string, std::string> sources_field(JsonFields& fields, Diagnostics& diagnostics) {
  std::map<std::string, std::string> sources;
  const Json* json = fields.raw("sources");
  if (json == nullptr) return sources;
  JsonFields each(*json, fields.origin(), fields.path("sources"), diagnostics);
  for (const auto& [fact, value] : json->members) {
    if (auto text = each.optional_string(fact)) sources.emplace(fact, *std::move(text));
  }
  return sources;
}

Tier read_tier(const Json& json, const std::string& origin, const std::string& path,
               Diagnostics& diagnostics) {
  JsonFields fields(json, origin, path, diagnostics);
  if (!json.is_object()) return {};
  Tier tier;
  tier.name = name_field(fields, "name");
  tier.domain =
      fields.optional_integer("domain", {.least = 1, .most = kMostAccelerators}).value_or(0);
  tier.bandwidth = bandwidth_field(fields, "bandwidth");
  tier.latency = latency_field(fields, "latency");
  tier.efficiency = ratio_field(fields, "efficiency", 0.01, 1, 1);
  tier.oversubscription = ratio_field(fields, "oversubscription", 1, 1e6, 1);
  fields.finish();
  return tier;
}

std::vector<Tier> read_tiers(const Json& array, const std::string& origin, const std::string& path,
                             Diagnostics& diagnostics) {
  std::vector<Tier> tiers;
  if (array.items.empty() || array.items.size() > kMostTiers) {
    diagnostics.push_back({json_place(origin, array, path),
                           fmt::format("{} tiers", array.items.size()),
                           fmt::format("list 1 to {} tiers, innermost first", kMostTiers)});
    return tiers;
  }
  for (std::size_t i = 0; i < array.items.size(); ++i) {
    tiers.push_back(read_tier(array.items[i], origin, fmt::format("{}/{}", path, i), diagnostics));
  }
  return tiers;
}

Json to_json(const Tier& tier) {
  return Json::object()
      .add("name", Json::of(tier.name))
      .add("domain", Json::of(tier.domain))
      .add("bandwidth", Json::of(to_exact_text(tier.bandwidth)))
      .add("latency", Json::of(to_exact_text(tier.latency)))
      .add("efficiency", Json::of(tier.efficiency))
      .add("oversubscription", Json::of(tier.oversubscription));
}

Json to_json(const std::vector<Tier>& tiers) {
  Json array = Json::array();
  for (const Tier& tier : tiers) array.push(to_json(tier));
  return array;
}

Json to_json(const std::map<std::string, std::string>& sources) {
  Json object = Json::object();
  for (const auto& [fact, text] : sources) object.add(fact, Json::of(text));
  return object;
}

}  // namespace trainwright::detail
