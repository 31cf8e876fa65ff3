#pragma once
// Private: a batch that grows during the run.
//
//   256-1024      doubles: 256, 512, 1,024
//   256:128:1024  128 more each time, as Megatron's --rampup-batch-size has it
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trainwright::cli {

inline constexpr std::size_t kMostStages = 64;
// Ascending, at least two and the last one as it is said; nullopt where the text is no ramp.
std::optional<std::vector<std::int64_t>> parse_ramp(std::string_view text);

}  // namespace trainwright::cli
