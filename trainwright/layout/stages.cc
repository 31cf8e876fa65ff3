// Which layers a stage holds, and where it sits.
#include "trainwright/layout/stages.h"

#include <fmt/format.h>

#include <numeric>

#include "trainwright/base/check.h"

namespace trainwright {
namespace {

// Most stages that are dealt out: 1,024 pipeline ranks x 8 chunks is 8,192.
constexpr std::int64_t kMostStages = std::int64_t{1} << 20;

std::int64_t layer_count(const Model& model) {
  return static_cast<std::int64_t>(model.layers.size());
}

// The share of part `index` when `total` is dealt to `parts`, what is over to the first ones.
std::int64_t dealt(std::int64_t total, std::int64_t parts, std::int64_t index) {
  return total / parts + (index < total % parts ? 1 : 0);
}

Result<std::vector<std::int64_t>> explicit_counts(const Layout& layout, std::int64_t layers) {
  const auto stages = static_cast<std::size_t>(stage_count(layout));
  if (layout.layers.size() != stages) {
    return fail("layers", fmt::format("{} stages are listed, but pp {} x vpp {} is {}",
                                      layout.layers.size(), layout.pp, layout.vpp, stages));
  }
  std::int64_t sum = 0;
  for (const std::int64_t count : layout.layers) {
    if (count < 0 || count > layers) return fail("layers", fmt::format("a stage of {}", count));
    sum += count;
  }
  if (sum != layers) {
    return fail("layers", fmt::format("the stages hold {} layers, the model has {}", sum, layers),
                fmt::format("{} {} layers", sum < layers ? "add" : "take away",
                            sum < layers ? layers - sum : sum - layers));
  }
  return layout.layers;
}

Result<std::vector<std::int64_t>> even_counts(const Layout& layout, std::int64_t layers) {
  const std::int64_t stages = stage_count(layout);
  const std::int64_t slots = layers + layout.count_embedding + layout.count_loss;
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(stages));
  for (std::int64_t s = 0; s < stages; ++s) counts.push_back(dealt(slots, stages, s));
  return counts;
}

// The ranks in the middle share what the first and the last leave.
Result<std::vector<std::int64_t>> uneven_counts(const Layout& layout, std::int64_t layers) {
  const std::int64_t first = layout.first_layers;
  const std::int64_t last = layout.last_layers;
  const std::int64_t middle = layout.pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  std::int64_t rest = layers - first - last;
  if (first == 0) rest += layout.count_embedding;
  if (last == 0) rest += layout.count_loss;
  if (layout.pp == 1 || rest < 0 || (middle == 0 && rest != 0)) {
    return fail(
        "first_layers",
        fmt::format("{} layers on the first and {} on the last of {} pipeline ranks leave "
                    "{} of {} layers for the {} others",
                    first, last, layout.pp, rest, layers, std::max<std::int64_t>(0, middle)),
        "set them apart only when pp is more than 1, and leave the others their share");
  }
  std::vector<std::int64_t> counts;
  for (std::int64_t s = 0; s < stage_count(layout); ++s) {
    const std::int64_t rank = stage_rank(layout, s);
    std::int64_t of_rank = 0;
    if (first > 0 && rank == 0) {
      of_rank = first;
    } else if (last > 0 && rank == layout.pp - 1) {
      of_rank = last;
    } else {
      of_rank = dealt(rest, middle, rank - (first > 0 ? 1 : 0));
    }
    counts.push_back(dealt(of_rank, layout.vpp, stage_chunk(layout, s)));
  }
  return counts;
}

// Embedding and loss take the place of layers where they were counted as such.
Result<std::vector<std::int64_t>> without_ends(const Layout& layout,
                                               std::vector<std::int64_t> counts) {
  if (layout.first_layers == 0) counts.front() -= layout.count_embedding;
  if (layout.last_layers == 0) counts.back() -= layout.count_loss;
  if (counts.front() >= 0 && counts.back() >= 0) return counts;
  const bool embedding = counts.front() < 0;
  return fail(embedding ? "count_embedding" : "count_loss",
              fmt::format("the {} counts as {} layers, more than a stage has",
                          embedding ? "embedding" : "loss",
                          embedding ? layout.count_embedding : layout.count_loss),
              "use fewer stages, or state the layers of each");
}

std::vector<LayerRun> runs_of(const Model& model, std::int64_t first, std::int64_t count) {
  std::vector<LayerRun> runs;
  for (std::int64_t i = first; i < first + count; ++i) {
    const LayerKindId kind = model.layers[static_cast<std::size_t>(i)];
    if (!runs.empty() && runs.back().kind == kind) {
      ++runs.back().count;
    } else {
      runs.push_back({.kind = kind, .count = 1});
    }
  }
  return runs;
}

}  // namespace

namespace detail {

SplitKind split_of(const Layout& layout) {
  if (!layout.layers.empty()) return SplitKind::Explicit;
  return layout.first_layers > 0 || layout.last_layers > 0 ? SplitKind::Uneven : SplitKind::Even;
}

Result<std::vector<std::int64_t>> stage_counts(const Layout& layout, const Model& model) {
  const std::int64_t layers = layer_count(model);
  if (stage_count(layout) > kMostStages) {
    return fail("pp", fmt::format("pp {} x vpp {} are more stages than any model has layers",
                                  layout.pp, layout.vpp));
  }
  switch (split_of(layout)) {
    case SplitKind::Explicit: return explicit_counts(layout, layers);
    case SplitKind::Uneven: return without_ends(layout, TW_TRY(uneven_counts(layout, layers)));
    case SplitKind::Even: return without_ends(layout, TW_TRY(even_counts(layout, layers)));
  }
  TW_CHECK(false, "no such split");
}

}  // namespace detail

std::int64_t stage_rank(const Layout& layout, std::int64_t stage) {
  return rank_of_stage(layout.placement, layout.pp, stage);
}

std::int64_t stage_chunk(const Layout& layout, std::int64_t stage) { return stage / layout.pp; }

std::vector<Layout> pipeline_splits(const Layout& layout, std::int64_t layers) {
  std::vector<Layout> splits = {layout};
  const std::int64_t stages = stage_count(layout);
  const auto even = [&](std::int64_t embedding, std::int64_t loss) {
    return (layers + embedding + loss) % stages == 0;
  };
  if (detail::split_of(layout) != detail::SplitKind::Even || layout.pp == 1 ||
      even(layout.count_embedding, layout.count_loss)) {
    return splits;
  }
  Layout other = layout;
  for (const std::int64_t embedding : {0, 1}) {
    if (!even(embedding, 1) || layers + embedding + 1 == stages) continue;
    other.count_embedding = embedding;
    other.count_loss = 1;
    splits.push_back(other);
  }
  const std::int64_t each = (layers + layout.pp - 1) / layout.pp;
  const std::int64_t ends = layers - each * (layout.pp - 2);
  if (splits.size() > 1 || layout.vpp > 1 || layout.pp < 3 || ends < 2) return splits;
  other.count_embedding = other.count_loss = 0;
  other.first_layers = (ends + 1) / 2;
  other.last_layers = ends / 2;
  splits.push_back(other);
  return splits;
}

Result<std::vector<Stage>> stage_layers(const Layout& layout, const Model& model) {
  const std::vector<std::int64_t> counts = TW_TRY(detail::stage_counts(layout, model));
  const auto last = static_cast<std::int64_t>(counts.size()) - 1;
  const std::int64_t mtp_stage = layout.mtp_stage.value_or(last);
  if (mtp_stage < 0 || mtp_stage > last) {
    return fail("mtp_stage", fmt::format("there is no stage {}", mtp_stage),
                fmt::format("stages are 0 to {}", last));
  }
  std::vector<Stage> stages;
  stages.reserve(counts.size());
  const bool spread = layout.vocab_parallel && layout.pp > 1;
  std::int64_t first = 0;
  for (std::int64_t s = 0; s <= last; ++s) {
    const std::int64_t count = counts[static_cast<std::size_t>(s)];
    const std::int64_t chunk = stage_chunk(layout, s);
    stages.push_back({.id = StageId(static_cast<std::int32_t>(s)),
                      .rank = stage_rank(layout, s),
                      .chunk = chunk,
                      .first = first,
                      .count = count,
                      .runs = runs_of(model, first, count),
                      .embedding = s == 0,
                      .head = s == last,
                      .embedding_share = spread && chunk == 0,
                      .head_share = spread && chunk == layout.vpp - 1,
                      .mtp = s == mtp_stage ? static_cast<std::int64_t>(model.mtp.size()) : 0});
    Stage& stage = stages.back();
    stage.away = (stage.mtp > 0 && s > 0) || (stage.head && stage.rank != stages.front().rank);
    first += count;
  }
  return stages;
}

}  // namespace trainwright
