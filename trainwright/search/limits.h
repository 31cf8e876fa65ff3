#pragma once
// What somebody fixes of the decision beforehand. Part of search.h: include that one.
//
//   tp=8        one value            recompute=none   a kind by its name
//   vpp=..4     at most              sharding=fsdp
//   mbs=2..     at least             schedule=1f1b
//   dp=8..64    between              offload=none
//   on=graphs+overlap-ep             dispatcher=flex
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/layout/layout.h"

namespace trainwright {

struct Limit {
  std::string key;  // of the layout's text
  std::int64_t least = 0, most = std::numeric_limits<std::int64_t>::max();
  // Of recompute, sharding, offload, cp_kind, gradients, schedule and dispatcher; loss by its name,
  // and switches that are on joined by '+'.
  std::string kind = {};
};
// Diagnoses unknown keys and kinds, and ranges that are none. `where` is the option's name.
Result<Limit> parse_limit(std::string_view text, const std::string& where);
std::string to_text(const Limit& limit);

// What a layout may say beside its degrees, recompute, sharding and pipeline: as the trainer does
// it unasked, unless the search is to look at it too.
enum class Also : std::uint8_t {
  Overlaps,
  Dispatcher,
  Order,
  Compile,
  Graphs,
  Loss,
  Fp8ParameterGather,
  Bf16Gradients,  // which change what is learned
};
std::span<const std::string_view> all_names(Also);
// All that changes no numbers beyond rounding: what `plan` looks at.
inline constexpr Flags<Also> kUsualAxes{Also::Overlaps,          Also::Dispatcher, Also::Order,
                                        Also::Compile,           Also::Graphs,     Also::Loss,
                                        Also::Fp8ParameterGather};

using Limits = std::vector<Limit>;
bool allows(const Limits& limits, std::string_view key, std::int64_t value);
bool allows(const Limits& limits, std::string_view key, std::string_view kind);
Flags<Switch> fixed_switches(const Limits& limits);  // of on=...

}  // namespace trainwright
