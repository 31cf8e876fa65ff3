// The same step on fewer and more accelerators.
#include <fmt/core.h>

#include <array>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

// Further searches of a larger space would take longer than anybody waits for a picture.
constexpr std::int64_t kMostLayouts = 300'000;
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 5> kSizes = {
    {{1, 4}, {1, 2}, {1, 1}, {2, 1}, {4, 1}}};  // times, parts

Json point_json(std::int64_t accelerators, const Layout& layout, const StepTime& time,
                const Model& model) {
  Json json = Json::object();
  json.add("accelerators", Json::of(accelerators))
      .add("short", Json::of(short_text(layout, model)))
      .add("step", Json::of(time.step.value()))
      .add("tokens_per_second",
           Json::of(tokens_per_second_per_rank(time) * static_cast<double>(time.ranks)))
      .add("mfu", Json::of(time.mfu));
  return json;
}

// The layout with more or fewer copies, where they divide the batch.
std::optional<Layout> with_copies(Layout layout, std::int64_t times, std::int64_t parts) {
  const auto scale = [&](std::int64_t& ways) {
    const bool divides = ways * times % parts == 0;
    ways = ways * times / parts;
    return divides;
  };
  if (!scale(layout.dp) || (layout.dp_replicate > 1 && !scale(layout.dp_replicate)) ||
      layout.gbs % (layout.mbs * layout.dp) != 0) {
    return std::nullopt;
  }
  return layout;
}

// A cluster of `times / parts` as many accelerators.
struct Size {
  std::int64_t times, parts, count;
  Cluster cluster;
};
std::vector<Size> sizes_around(const Cluster& here, const ClusterOf& cluster_of) {
  const std::int64_t all = accelerator_count(here);
  std::vector<Size> sizes;
  for (const auto& [times, parts] : kSizes) {
    if (all % parts != 0) continue;
    const std::int64_t count = all * times / parts;
    if (const auto cluster = cluster_of(count)) sizes.push_back({times, parts, count, *cluster});
  }
  return sizes;
}

struct Curve {
  Json points = Json::array();
  std::vector<std::string> left_out;  // "512 (does not fit)"
};

// Each with its fastest layout.
Result<Curve> searched(const Plan& plan, const SearchQuestion& question,
                       const std::vector<Size>& sizes) {
  Curve curve;
  for (const Size& size : sizes) {
    SearchQuestion other = with_cluster(question, size.cluster);
    other.most = 1;
    std::vector<PlannedLayout> best = plan.result.best;
    if (size.times != size.parts) {
      SearchResult result = TW_TRY(search(other));
      if (result.stopped == SearchStop::Interrupt || result.stopped == SearchStop::Time) break;
      best = std::move(result.best);
    }
    if (best.empty()) {
      curve.left_out.push_back(fmt::format("{} (nothing fits)", with_thousands(size.count)));
      continue;
    }
    curve.points.push(
        point_json(size.count, best.front().layout, best.front().time, plan.wanted.model));
  }
  return curve;
}

// Each with the recommended layout, on more or fewer copies.
Result<Curve> copied(const Plan& plan, const SearchQuestion& question,
                     const std::vector<Size>& sizes) {
  Curve curve;
  for (const Size& size : sizes) {
    const auto leave_out = [&](const char* why) {
      curve.left_out.push_back(fmt::format("{} ({})", with_thousands(size.count), why));
    };
    const auto layout =
        with_copies(plan.result.best[plan.result.recommended].layout, size.times, size.parts);
    if (!layout) {
      leave_out("copies do not divide");
      continue;
    }
    const Judged found = TW_TRY(judged(with_cluster(question, size.cluster), *layout));
    if (!found.refused.empty()) {
      leave_out("refused");
    } else if (fit_of(found.memory->oom, question.risk) != Fit::Fits) {
      leave_out("does not fit");
    } else {
      curve.points.push(point_json(size.count, *layout, *found.time, plan.wanted.model));
    }
  }
  return curve;
}

// Why no size is searched anew; empty where each is.
std::string why_copies(const Plan& plan, const SearchQuestion& question) {
  if (question.from) return "what is run today is not searched anew for each size";
  if (plan.offloads || question.offload) return "with offloading no size is searched anew";
  if (plan.result.space <= kMostLayouts) return {};
  return fmt::format("to search {} layouts anew for each size would take too long",
                     with_thousands(plan.result.space));
}

}  // namespace

Result<Json> scaling_json(const Plan& plan, const SearchQuestion& question,
                          const Hardware& hardware) {
  Json json = Json::object();
  if (plan.result.best.empty()) return json.add("points", Json::array());
  const ClusterOf cluster_of = sizes_of(question.cluster, hardware);
  if (!cluster_of(accelerator_count(question.cluster))) {
    json.add("points", Json::array());
    return json.add("says", Json::of("Not drawn: other sizes of this cluster are not known."));
  }
  const std::vector<Size> sizes = sizes_around(question.cluster, cluster_of);
  const std::string why = why_copies(plan, question);
  Curve curve =
      TW_TRY(why.empty() ? searched(plan, question, sizes) : copied(plan, question, sizes));
  std::string says = why.empty() ? "The same step, each time with its fastest layout."
                                 : fmt::format(
                                       "The same step, each time with layout {} on more or "
                                       "fewer copies (dp): {}.",
                                       plan.result.recommended + 1, why);
  if (!curve.left_out.empty()) says += fmt::format(" Left out: {}.", join(curve.left_out, ", "));
  json.add("points", std::move(curve.points));
  return json.add("says", Json::of(says));
}

}  // namespace trainwright::cli
