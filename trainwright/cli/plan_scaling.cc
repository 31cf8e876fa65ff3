// The fastest layout of the same step on fewer and more accelerators.
#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

// Further searches of a larger space would take longer than anybody waits for a picture.
constexpr std::int64_t kMostLayouts = 300'000;

Json point_json(const Cluster& cluster, const PlannedLayout& plan, const Wanted& wanted) {
  Json json = Json::object();
  json.add("accelerators", Json::of(accelerator_count(cluster)))
      .add("short", Json::of(short_text(plan.layout, wanted.model)))
      .add("step", Json::of(plan.time.step.value()))
      .add("tokens_per_second",
           Json::of(tokens_per_second_per_rank(plan.time) * static_cast<double>(plan.time.ranks)))
      .add("mfu", Json::of(plan.time.mfu));
  return json;
}

}  // namespace

Result<Json> scaling_json(const Plan& plan, const SearchQuestion& question,
                          const Hardware& hardware) {
  Json list = Json::array();
  const bool offload = plan.offloads || question.offload;
  if (plan.result.best.empty() || plan.result.space > kMostLayouts || offload || question.from) {
    return list;
  }
  const std::int64_t count = accelerator_count(question.cluster);
  const ClusterOf sizes = sizes_of(question.cluster, hardware);
  for (const auto& [times, parts] : {std::pair{1, 4}, {1, 2}, {1, 1}, {2, 1}, {4, 1}}) {
    if (times == parts) {
      list.push(point_json(question.cluster, plan.result.best.front(), plan.wanted));
      continue;
    }
    if (count % parts != 0) continue;
    const auto cluster = sizes(count / parts * times);
    if (!cluster) continue;
    SearchQuestion other = with_cluster(question, *cluster);
    other.most = 1;
    const SearchResult result = TW_TRY(search(other));
    if (result.stopped == SearchStop::Interrupt || result.stopped == SearchStop::Time) break;
    if (result.best.empty()) continue;
    list.push(point_json(*cluster, result.best.front(), plan.wanted));
  }
  return list;
}

}  // namespace trainwright::cli
