#include "trainwright/cli/unspecified_text.h"

#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// What is taken, as --on would tell it: "network=8x400G".
std::string taken(Unspecified what, const Cluster& cluster) {
  const Accelerator& of = cluster.groups.front().accelerator;
  constexpr double kGigabit = 1e9 / 8;
  switch (what) {
    case Unspecified::Network:
      return fmt::format("network={}x{}G", of.node.nics,
                         significant(of.node.nic_bandwidth / BytesPerSecond(kGigabit), 4));
    case Unspecified::Host: return "cpu=NAME";
    case Unspecified::Power:
      return of.power > 0 ? fmt::format("power={}W", significant(of.power, 4)) : "power=WATTS";
  }
  return {};
}

}  // namespace

std::string unspecified_text(const std::vector<UnspecifiedEffect>& open, const Cluster& cluster) {
  if (open.empty()) return {};
  const UnspecifiedEffect& widest = open.front();
  std::string text = fmt::format(
      "Not specified, and widens the interval most: {}. With {} a step takes {}; with --on {},{} "
      "the interval is {}.",
      name_of(widest.what), worse_of(widest.what), seconds_text(widest.worse), cluster.name,
      taken(widest.what, cluster), range_text(widest.low, widest.high));
  std::vector<std::string> others;
  for (std::size_t i = 1; i < open.size(); ++i) {
    others.push_back(fmt::format("{} ({})", name_of(open[i].what), seconds_text(open[i].worse)));
  }
  return others.empty() ? text : text + fmt::format(" Also open: {}.", enumerate(others));
}

Json unspecified_json(const std::vector<UnspecifiedEffect>& open, const Cluster& cluster) {
  Json list = Json::array();
  for (const UnspecifiedEffect& one : open) {
    list.push(Json::object()
                  .add("name", Json::of(name_of(one.what)))
                  .add("option", Json::of(taken(one.what, cluster)))
                  .add("step_if_worse", Json::of(one.worse.value()))
                  .add("low_if_specified", Json::of(one.low.value()))
                  .add("high_if_specified", Json::of(one.high.value())));
  }
  return list;
}

}  // namespace trainwright::cli
