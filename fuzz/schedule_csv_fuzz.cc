// Whatever the CSV reader accepts prints to a CSV that reads back to the same schedule, and what
// the checker then finds sound can be timed, lowered and checked again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/schedule/schedule.h"

using namespace trainwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schedule = read_schedule_csv(text, "fuzz");
  if (!schedule) return 0;
  const auto again = read_schedule_csv(to_csv(*schedule), "again");
  if (!again || !(*again == *schedule)) std::abort();
  check_lowered(*schedule);
  if (!check(*schedule).empty()) return 0;
  const Costs costs =
      even_costs(schedule->placement.stages(), Seconds(1), Seconds(1), Seconds(1), Seconds(1));
  const Timeline timeline = simulate(*schedule, costs, {.detail = Detail::Full});
  to_drawing(*schedule, timeline);
  const auto lowered = lower(*schedule, costs);
  if (!lowered || !check_lowered(*lowered).empty()) std::abort();
  return 0;
}
