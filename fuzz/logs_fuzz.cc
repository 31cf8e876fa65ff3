// Whatever the bytes, reading a log ends in a run or in faults, and what it tells of is possible.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/logs/logs.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto run = read_log(text, "fuzz");
  if (!run) {
    require(!run.error().diagnostics.empty());
    return 0;
  }
  require(run->format.has_value() != run->steps.empty());
  for (const LoggedStep& step : run->steps) {
    require(step.line > 0 && step.number >= 0);
    const int figures =
        step.seconds.has_value() + step.tokens_per_rank.has_value() + step.sequences.has_value();
    require(figures == 1);
    if (step.seconds) require(is_positive(step.seconds->value()));
  }
  for (const LoggedMemory& memory : run->memory) require(memory.allocated || memory.reserved);
  for (const LoggedOutOfMemory& failure : run->failures)
    require(!failure.asked || *failure.asked >= Bytes(0));
  const StepSize step{.ranks = 8, .sequences = 64, .tokens = 64 * 4096};
  contradictions(*run, step);
  if (const auto summary = summarize(*run, step)) {
    require(is_positive(summary->median.value()) && summary->spread >= 0);
    require(summary->lines + summary->warm_up == std::ssize(run->steps));
  }
  return 0;
}
