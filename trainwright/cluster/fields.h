#pragma once
// Private to the module: quantities with units as fields of a JSON object, each within bounds that
// keep later arithmetic finite, and the parts that accelerators and clusters share.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/cluster/cluster.h"

namespace trainwright::detail {

enum class Presence { Required, Optional };

// A fault is reported through `fields`; the value is then a default that keeps the rest readable.
Bytes bytes_field(JsonFields& fields, std::string_view key, Presence presence);
BytesPerSecond bandwidth_field(JsonFields& fields, std::string_view key);
FlopsPerSecond compute_field(JsonFields& fields, std::string_view key);
Seconds latency_field(JsonFields& fields, std::string_view key);
// A number in [least, most]; `otherwise` when absent.
double ratio_field(JsonFields& fields, std::string_view key, double least, double most,
                   double otherwise);
// A name that `--on` can hold: letters, digits, '.', '_', '-'; it does not begin like "64x" and
// does not end in ".json".
std::string name_field(JsonFields& fields, std::string_view key);
// Why a text is no such name, or nothing.
std::string name_fault(std::string_view name);

std::map<std::string, std::string> sources_field(JsonFields& fields, Diagnostics& diagnostics);

// A tier without "domain" has domain 0: the caller knows what it means there.
Tier read_tier(const Json& json, const std::string& origin, const std::string& path,
               Diagnostics& diagnostics);
std::vector<Tier> read_tiers(const Json& array, const std::string& origin, const std::string& path,
                             Diagnostics& diagnostics);
Json to_json(const Tier& tier);
Json to_json(const std::vector<Tier>& tiers);
Json to_json(const std::map<std::string, std::string>& sources);

// Like read_accelerator, below `path`, with the faults gathered elsewhere.
Accelerator read_accelerator(const Json& json, const std::string& origin, const std::string& path,
                             Diagnostics& diagnostics);

}  // namespace trainwright::detail
