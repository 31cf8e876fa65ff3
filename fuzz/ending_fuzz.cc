// Whatever a trial's log and Slurm's answer are, a trial ends in one way, with a reason, and a step
// only if it ran.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "trainwright/tune/slurm.h"
#include "trainwright/tune/tune.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// The first byte says how the command ended; the rest is the log, and what scontrol says.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  constexpr int kKinds = static_cast<int>(CommandEnd::Kind::NodeFailure) + 1;
  const int how = data[0] % (2 * kKinds);
  CommandEnd end{static_cast<CommandEnd::Kind>(how / 2), how % 2, Seconds(1), "it was said"};
  if (const auto state = detail::job_state(text)) {
    require(!state->name.empty() && state->ran >= Seconds(0));
    if (const auto said = detail::end_of_job("1", *state)) end = *said;
  }
  const Reading reading{.size = {.ranks = 8, .sequences = 64, .tokens = 64 * 4096},
                        .pattern = (data[0] & 0x80) != 0 ? "step time: ([0-9.]+) s" : ""};
  const TrialResult result = ending_of(text, end, reading);
  const bool ran = result.end == TrialEnd::Ok;
  require(ran == (result.step > Seconds(0)) && std::isfinite(result.step.value()));
  require(!result.cause.empty());
  return 0;
}
