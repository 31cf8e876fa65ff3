// From settings to our words: how many sequences a step, a rank and a micro-batch have.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/count.h"
#include "trainwright/base/text.h"
#include "trainwright/export/hear.h"

namespace trainwright::detail {
namespace {

using Number = std::optional<std::int64_t>;

// At most more than any layout may have; nothing overflows.
std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = kMostBatch;
  a = std::clamp<std::int64_t>(a, 0, kMost);
  b = std::clamp<std::int64_t>(b, 0, kMost);
  return std::min(a * b, kMost);
}

Number positive(Number number) { return number && *number > 0 ? number : std::nullopt; }

// What is asked for beside the settings, which goes before them.
Number asked(const Hearing& hearing, std::string_view key) {
  for (const std::string_view entry : split(hearing.beside, ',')) {
    const std::size_t at = entry.find('=');
    if (at != entry.npos && lower_case(trim(entry.substr(0, at))) == key)
      return parse_count(trim(entry.substr(at + 1)));
  }
  return std::nullopt;
}

// Ranks that have sequences of their own, if the cluster is known and divides.
Number data_ranks(const Hearing& hearing) {
  const auto degree = [&](const char* key, std::int64_t heard) {
    return asked(hearing, key).value_or(heard);
  };
  const std::int64_t model = std::max<std::int64_t>(
      times(times(degree("tp", hearing.tp), degree("pp", hearing.pp)), degree("cp", hearing.cp)),
      1);
  if (!hearing.world || *hearing.world % model != 0) return std::nullopt;
  return *hearing.world / model;
}

std::string setting_of(const Hearing& hearing, std::string_view key) {
  const std::string* text = find_setting(hearing.trainer, key);
  return text == nullptr ? std::string(key) : *text;
}

// A step of gbs sequences is micro-batches of mbs, so many on each rank: DeepSpeed stops where its
// three numbers do not fit (runtime/config.py _batch_assertion). Next to other words of ours it is
// the number of micro-batches that yields.
void compare_batch(Hearing& hearing, std::int64_t gbs, std::int64_t mbs, std::int64_t steps,
                   std::int64_t dp, bool is_asked) {
  const std::int64_t product = times(times(mbs, steps), dp);
  if (product == gbs) return;
  if (is_asked) {
    hearing.notes.push_back(
        fmt::format("{} {} is left aside: it would make {} sequences a step, not {}.",
                    setting_of(hearing, "micro_batches"), steps, product, gbs));
    return;
  }
  hearing.faults.push_back(
      {setting_of(hearing, "gbs"),
       fmt::format("{} is not {} {} x {} {} x {} data-parallel ranks, which is {}", gbs,
                   setting_of(hearing, "mbs"), mbs, setting_of(hearing, "micro_batches"), steps, dp,
                   product),
       fmt::format("write {}, or leave out one of the three; --batch {} asks about it as it is",
                   product, product)});
}

// The size of a micro-batch where the other two are given.
Number mbs_of(Hearing& hearing, std::int64_t gbs, std::int64_t steps, std::int64_t dp,
              bool is_asked) {
  const std::int64_t parts = times(steps, dp);
  if (gbs % parts == 0) return gbs / parts;
  if (is_asked) return std::nullopt;
  hearing.faults.push_back({setting_of(hearing, "gbs"),
                            fmt::format("{} is no multiple of {} {} x {} data-parallel ranks", gbs,
                                        setting_of(hearing, "micro_batches"), steps, dp),
                            fmt::format("write {}", times((gbs + parts - 1) / parts, parts))});
  return std::nullopt;
}

}  // namespace

void hear_batch(Hearing& hearing) {
  const Number local = hear_number(hearing, "local_batch");
  Number mbs = hear_number(hearing, "mbs");
  if (!mbs) mbs = hearing.pp > 1 ? hear_number(hearing, "pipeline_mbs") : local;
  if (!mbs && hearing.pp > 1 && local) mbs = 1;
  Number gbs = positive(hear_number(hearing, "gbs"));
  const Number steps = positive(hear_number(hearing, "micro_batches"));
  const Number dp = data_ranks(hearing);
  const Number own_mbs = asked(hearing, "mbs"), own_gbs = asked(hearing, "gbs");
  const bool is_asked = own_mbs || own_gbs;
  const Number step = own_gbs ? own_gbs : gbs;
  if (!mbs && !own_mbs && step && steps && dp) mbs = mbs_of(hearing, *step, *steps, *dp, is_asked);
  const Number micro = positive(own_mbs ? own_mbs : mbs);
  if (!gbs && dp) {
    if (local) gbs = times(own_mbs && hearing.pp == 1 ? *own_mbs : *local, *dp);
    if (micro && steps) gbs = times(times(*micro, *steps), *dp);
  }
  if (step && micro && steps && dp) compare_batch(hearing, *step, *micro, *steps, *dp, is_asked);
  if (mbs) heard(hearing, "mbs", std::to_string(*mbs));
  if (gbs && *gbs > 0) heard(hearing, "gbs", std::to_string(*gbs));
  if (!gbs || *gbs <= 0) hearing.missing.emplace_back("gbs");
  if (!mbs) hearing.missing.emplace_back("mbs");
  if (!is_heard(hearing, "seq")) hearing.missing.emplace_back("seq");
}

}  // namespace trainwright::detail
