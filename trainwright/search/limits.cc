#include "trainwright/search/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainwright/base/count.h"
#include "trainwright/base/text.h"

namespace trainwright {
namespace {

constexpr std::array<std::string_view, 9> kDegreeKeys = {"tp", "pp",  "vpp", "cp",  "dp",
                                                         "ep", "etp", "mbs", "zero"};
constexpr std::string_view kKeys =
    "tp, pp, vpp, cp, dp, ep, etp, mbs, zero, recompute, sharding, offload, cp_kind, gradients, "
    "dispatcher, on, loss or schedule";

std::vector<std::string> kinds_of(std::string_view key) {
  if (key == "recompute") return to_strings(all_names(RecomputeKind{}));
  if (key == "sharding") return to_strings(all_names(ShardingKind{}));
  if (key == "schedule") return to_strings(all_names(ScheduleKind{}));
  if (key == "gradients") return to_strings(all_names(GradientDtype{}));
  if (key == "cp_kind") return to_strings(all_names(CpKind{}));
  if (key == "dispatcher") return to_strings(all_names(DispatcherKind{}));
  if (key == "on") return to_strings(all_names(Switch{}));
  if (key == "offload") return {"none", "optimizer", "optimizer+parameters"};
  return {};
}

bool is_degree(std::string_view key) {
  return std::find(kDegreeKeys.begin(), kDegreeKeys.end(), key) != kDegreeKeys.end();
}

// "8", "..4", "2..", "8..64"
Result<Limit> range_of(Limit limit, std::string_view value, const std::string& where) {
  const auto dots = value.find("..");
  const std::string_view low = value.substr(0, dots);
  const std::string_view high = dots == value.npos ? low : value.substr(dots + 2);
  const auto least = low.empty() && dots != value.npos ? limit.least : parse_count(low);
  const auto most = high.empty() && dots != value.npos ? limit.most : parse_count(high);
  if (!least || !most || *least > *most || (low.empty() && high.empty())) {
    return fail(where, fmt::format("'{}' is no number and no range", value),
                "for instance 8, ..4, 2.. or 2..8");
  }
  limit.least = *least;
  limit.most = *most;
  return limit;
}

}  // namespace

std::span<const std::string_view> all_names(Also) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "overlaps", "dispatcher",           "order",         "compile", "graphs",
      "loss",     "fp8-parameter-gather", "bf16-gradients"};
  return kNames;
}

Result<Limit> parse_limit(std::string_view text, const std::string& where) {
  const auto equals = text.find('=');
  Limit limit{.key = lower_case(trim(text.substr(0, equals)))};
  if (equals == text.npos) {
    return fail(where, fmt::format("'{}' has no '='", text), "for instance tp=8 or vpp=..4");
  }
  const std::string value = lower_case(trim(text.substr(equals + 1)));
  if (is_degree(limit.key)) return range_of(std::move(limit), value, where);
  if (limit.key == "loss") {  // which there are, the trainer knows
    limit.kind = value;
    return limit;
  }
  const std::vector<std::string> kinds = kinds_of(limit.key);
  if (kinds.empty()) {
    return fail(where, fmt::format("'{}' cannot be fixed", limit.key),
                fmt::format("one of {}", kKeys));
  }
  const bool several = limit.key == "on";
  for (const std::string_view one :
       several ? split(value, '+') : std::vector{std::string_view(value)}) {
    if (std::find(kinds.begin(), kinds.end(), one) != kinds.end()) continue;
    return fail(where,
                several ? fmt::format("'{}' is nothing to switch on", one)
                        : fmt::format("'{}' is no kind of {}", one, limit.key),
                did_you_mean(one, kinds, "one of " + enumerate(kinds, "or")));
  }
  limit.kind = value;
  return limit;
}

std::string to_text(const Limit& limit) {
  if (!limit.kind.empty()) return fmt::format("{}={}", limit.key, limit.kind);
  if (limit.least == limit.most) return fmt::format("{}={}", limit.key, limit.least);
  const bool open = limit.most == std::numeric_limits<std::int64_t>::max();
  return fmt::format("{}={}..{}", limit.key, limit.least > 0 ? std::to_string(limit.least) : "",
                     open ? "" : std::to_string(limit.most));
}

bool allows(const Limits& limits, std::string_view key, std::int64_t value) {
  return std::all_of(limits.begin(), limits.end(), [&](const Limit& limit) {
    return limit.key != key || (value >= limit.least && value <= limit.most);
  });
}

bool allows(const Limits& limits, std::string_view key, std::string_view kind) {
  return std::all_of(limits.begin(), limits.end(),
                     [&](const Limit& limit) { return limit.key != key || limit.kind == kind; });
}

Flags<Switch> fixed_switches(const Limits& limits) {
  Flags<Switch> on;
  for (const Limit& limit : limits) {
    if (limit.key != "on") continue;
    for (const std::string_view name : split(limit.kind, '+')) on.insert(*named<Switch>(name));
  }
  return on;
}

}  // namespace trainwright
