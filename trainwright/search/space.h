#pragma once
// Private: the layouts of a question as a tree, so that a bound on a branch speaks for all above
// it.
//
//   trunk   tp, pp, cp, dp, ep, etp and the micro-batch: what the lists of a layer hang on
//   twig    with a way to recompute and to share weights: what passes and traffic hang on
//   leaf    with a pipeline: schedule, chunks, how layers are dealt out. One layout
//
// A tree of n layouts is held in O(trunks); a layout is put together when it is looked at.
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trainwright/search/search.h"

namespace trainwright::detail {

struct Pipeline {
  std::int64_t vpp = 1;
  ScheduleKind schedule = ScheduleKind::None;
  StagePlacement placement = StagePlacement::Single;
  std::int64_t count_embedding = 0, count_loss = 0, first_layers = 0, last_layers = 0;
  std::vector<std::int64_t> layers = {};
  double idle = 0;  // micro-batches' worth at least: least_idle
};

struct Sharing {
  ShardingKind kind = ShardingKind::Ddp;
  std::int64_t zero = 0, replicas = 1;
  Flags<Offload> offload = {};
};

// What the trainer offers and the question allows, cheapest first: ways to recompute, and to share
// weights among dp ranks, or dp groups of them with context parallelism.
std::vector<Recompute> recomputes_of(const SearchQuestion& question);
std::vector<Sharing> sharings_of(const SearchQuestion& question, std::int64_t dp, bool context);

// Where a branch ends: what is not chosen yet is -1.
struct Branch {
  std::int32_t trunk = -1, recompute = -1, sharing = -1, pipeline = -1;
  friend auto operator<=>(const Branch&, const Branch&) = default;
};

class Space {
 public:
  explicit Space(const SearchQuestion& question);

  const std::vector<Layout>& trunks() const { return trunks_; }
  const std::vector<Recompute>& recomputes() const { return recomputes_; }
  const std::vector<Sharing>& sharings(std::int32_t trunk) const;
  const std::vector<Pipeline>& pipelines(std::int32_t trunk) const;
  // The same pipelines, those that stand idle least first.
  const std::vector<std::int32_t>& by_idle(std::int32_t trunk) const;
  // Whether a leaf is in the space: where the first n layers of a stage are run again, n is below
  // an even share, which would be full recompute; and it is not far from what is run today.
  bool holds(const Branch& leaf) const;
  std::int64_t leaves(std::int32_t trunk) const;  // of a trunk
  std::int64_t leaves_of(std::int32_t trunk, std::int32_t sharing) const;
  std::int64_t size() const;  // of all
  // What is not chosen stays as the trunk has it: no recompute, no sharding, the trunk's pp in one
  // chunk.
  Layout layout(const Branch& branch) const;

 private:
  std::int64_t layers_;  // of the model
  std::optional<Layout> from_;
  std::vector<Layout> trunks_;
  std::vector<Recompute> recomputes_;
  // By ranks that hold the same weights: (dp, cp > 1).
  std::map<std::pair<std::int64_t, bool>, std::vector<Sharing>> sharings_;
  // By pp, whether there are as many micro-batches, and the loss.
  struct Pipelines {
    std::vector<Pipeline> list;
    std::vector<std::int32_t> by_idle;
    std::int64_t held = 0;  // with a way to recompute, wherever weights are shared
  };
  std::map<std::tuple<std::int64_t, bool, std::string>, Pipelines> pipelines_;
  // By trunk.
  std::vector<const std::vector<Sharing>*> sharings_of_;
  std::vector<const Pipelines*> pipelines_of_;
};

}  // namespace trainwright::detail
