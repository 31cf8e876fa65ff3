// Whatever the bytes, a load of experts is read or diagnosed, and its busiest rank is possible.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/work/expert_load.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const ExpertLoad& load, std::int64_t experts) {
  for (const std::int64_t ep : {1, 2, 7}) {
    if (ep > experts) continue;
    const RankLoad busiest =
        busiest_rank(load, {.experts = experts, .per_token = 1, .ep = ep, .rows = 100});
    const double most = static_cast<double>(ep) * 4;  // counting adds noise
    require(std::isfinite(busiest.in_a_layer) && busiest.in_a_layer <= most);
    require(busiest.over_layers <= busiest.in_a_layer * (1 + 1e-9));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto word = parse_expert_load(text); word && *word) check(**word, 8);
  const auto load = read_expert_load(text, "fuzz");
  if (!load) {
    require(!load.error().diagnostics.empty());
    return 0;
  }
  for (const auto& layer : load->counts) {
    check({ExpertLoad::Kind::Counted, 0, {layer}, "one"}, std::ssize(layer));
  }
  return 0;
}
