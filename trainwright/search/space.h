#pragma once
// Private: the layouts of a question as a tree, so that a bound on a branch speaks for all above
// it.
//
//   stem    tp, pp, cp, dp, ep, etp and the micro-batch: what the lists of a layer hang on
//   trunk   with a manner (manners.h)
//   twig    with a way to recompute and to share weights: what passes and traffic hang on
//   leaf    with a pipeline: schedule, chunks, how layers are dealt out. One layout but for the way
//           that it is run (late.h)
//
// A tree of n layouts is held in O(stems + manners); a trunk and a layout are put together when
// they are looked at.
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trainwright/search/late.h"
#include "trainwright/search/manners.h"
#include "trainwright/search/search.h"

namespace trainwright::detail {

struct Pipeline {
  std::int64_t vpp = 1;
  ScheduleKind schedule = ScheduleKind::None;
  StagePlacement placement = StagePlacement::Single;
  std::int64_t count_embedding = 0, count_loss = 0, first_layers = 0, last_layers = 0;
  std::vector<std::int64_t> layers = {};
  double idle = 0;    // micro-batches' worth at least: least_idle
  double flight = 0;  // of its ranks, on average
  // Those that no other one has more of.
  struct Rank {
    std::vector<std::int64_t> layers;  // by kind
    double flight = 0;
  };
  std::vector<Rank> ranks = {};
};

struct Sharing {
  ShardingKind kind = ShardingKind::Ddp;
  std::int64_t zero = 0, replicas = 1;
  Flags<Offload> offload = {};
  Flags<Switch> on = {};  // weights gathered in 8 bits
};

std::vector<std::int64_t> divisors(std::int64_t n);  // ascending
// What the trainer offers and the question allows, cheapest first: ways to recompute, and to share
// weights among dp ranks, or dp groups of them with context parallelism.
std::vector<Recompute> recomputes_of(const SearchQuestion& question);
std::vector<Sharing> sharings_of(const SearchQuestion& question, std::int64_t dp, bool context);
// Of the trunk's ranks, with its loss; `only_split`: those whose backward passes are in two parts.
std::vector<Pipeline> pipelines_of(const SearchQuestion& question, const Layout& trunk,
                                   bool only_split);
// Layers whose micro-batches each rank holds at once, at least: each layer as often as
// micro-batches are in flight on it.
std::vector<double> layers_in_flight(const Layout& layout, const std::vector<Stage>& stages,
                                     bool many);
// Of them, and of layers by kind, what no other rank has more of.
std::vector<Pipeline::Rank> fullest_ranks(const Layout& layout, const Model& model,
                                          const std::vector<Stage>& stages, bool many);
bool has_many(const Layout& trunk);  // micro-batches: as many as pipeline ranks
// Whether the trainer may gather weights in 8 bits, and is to be asked.
bool gathers_in_8_bits(const SearchQuestion& question);

// Where a branch ends: what is not chosen yet is -1.
struct Branch {
  std::int64_t trunk = -1;
  std::int32_t recompute = -1, sharing = -1, pipeline = -1, way = -1;
  friend auto operator<=>(const Branch&, const Branch&) = default;
};

inline Branch leaf_of(Branch way) {
  way.way = -1;
  return way;
}

class Space {
 public:
  explicit Space(const SearchQuestion& question);

  const std::vector<Layout>& stems() const { return stems_; }
  const std::vector<Manner>& manners() const { return manners_; }
  const Late& late() const { return late_; }
  std::int64_t trunk_of(std::size_t stem, std::size_t manner) const {
    return static_cast<std::int64_t>(stem * manners_.size() + manner);
  }
  // Those of stems that do not feel a manner have no layouts.
  std::int64_t trunks() const { return trunk_of(stems_.size(), 0); }
  bool is_felt(std::int64_t trunk) const;
  const std::vector<Recompute>& recomputes() const { return recomputes_; }
  const std::vector<Sharing>& sharings(std::int64_t trunk) const;
  const std::vector<Pipeline>& pipelines(std::int64_t trunk) const;
  // The same pipelines, those that stand idle least first.
  const std::vector<std::int32_t>& by_idle(std::int64_t trunk) const;
  // Whether a leaf is in the space: where the first n layers of a stage are run again, n is below
  // an even share, which would be full recompute; and it is not far from what is run today.
  bool holds(const Branch& leaf) const;
  // Of a trunk or what is below it down to its pipelines.
  std::int64_t leaves(const Branch& branch) const;
  std::int64_t size() const;                       // of all
  double least_idle_of(std::int64_t trunk) const;  // of all its pipelines
  // The same number for stems that differ in their micro-batch alone: weights do not hang on it,
  // nor on any of the manners but the dtype of gradients.
  std::size_t degrees_of(std::int64_t trunk) const { return degrees_of_[stem_of(trunk)]; }
  GradientDtype gradients_of(std::int64_t trunk) const {
    return manners_[manner_of(trunk)].gradients.value_or(stems_[stem_of(trunk)].gradients);
  }
  // What is not chosen stays as the trunk has it: no recompute, no sharding, the trunk's pp in one
  // chunk, no switch.
  Layout layout(const Branch& branch) const;

 private:
  std::int64_t layers_;  // of the model
  std::optional<Layout> from_;
  std::vector<Layout> stems_;
  std::vector<std::size_t> degrees_of_ = {};
  std::vector<Manner> manners_;
  Late late_;
  std::vector<Recompute> recomputes_;
  // By ranks that hold the same weights: (dp, cp > 1).
  std::map<std::pair<std::int64_t, bool>, std::vector<Sharing>> sharings_;
  // By pp, whether there are as many micro-batches, whether it is compiled, and what of the manner
  // matters to it.
  struct Pipelines {
    std::vector<Pipeline> list;
    std::vector<std::int32_t> by_idle;
    std::vector<std::int64_t> held = {};  // by way to recompute, wherever weights are shared
    double idle = 0;                      // at least
  };
  std::map<std::tuple<std::int64_t, bool, bool, std::size_t>, Pipelines> pipelines_;
  // The first manner that is the same to pipelines: by manner; and all of these.
  std::vector<std::size_t> same_to_pipelines_, pipeline_manners_;
  std::size_t stem_of(std::int64_t trunk) const;
  std::size_t manner_of(std::int64_t trunk) const;
  const Pipelines& pipelines_at(std::int64_t trunk) const;
  void add_pipelines(const SearchQuestion& question, std::size_t stem, std::size_t place);
  // By stem; the latter by stem and place in `pipeline_manners_`.
  std::vector<const std::vector<Sharing>*> sharings_of_;
  std::vector<const Pipelines*> pipelines_of_;
};

}  // namespace trainwright::detail
