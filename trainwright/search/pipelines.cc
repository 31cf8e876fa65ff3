// Schedules, chunks and ways to deal out layers that a trainer runs and a question allows.
#include <algorithm>
#include <numeric>

#include "trainwright/search/manners.h"
#include "trainwright/search/space.h"

namespace trainwright::detail {
namespace {

// Schedules that a rank of `vpp` chunks can have. What runs all forward passes first takes as long
// as one forward, one backward, and more memory: it is listed where the other is not offered.
std::vector<ScheduleKind> schedules_of(const Trainer& trainer, std::int64_t pp, std::int64_t vpp) {
  if (pp == 1) return {usual_schedule(pp, vpp)};
  const auto offered = [&](ScheduleKind kind) {
    return find_kind(trainer.schedules, kind) != nullptr;
  };
  std::vector<ScheduleKind> found;
  for (const KindFacts& facts : kinds()) {
    if (!offered(facts.kind) || vpp < facts.chunks_least || vpp > facts.chunks_most) continue;
    const bool passes_first =
        facts.kind == ScheduleKind::GPipe || facts.kind == ScheduleKind::LoopedBfs;
    if (!passes_first || !offered(usual_schedule(pp, vpp))) found.push_back(facts.kind);
  }
  return found;
}

// No rule of the trainer speaks against so many layers on so many stages, whatever the rest is.
bool deals_out(const Trainer& trainer, const Layout& layout, std::int64_t layers) {
  Facts known;
  known.set(Variable::Layers, layers);
  known.set(Variable::Pp, layout.pp);
  known.set(Variable::Vpp, layout.vpp);
  known.set(Variable::Stages, stage_count(layout));
  known.set(Variable::CountEmbedding, layout.count_embedding);
  known.set(Variable::CountLoss, layout.count_loss);
  known.set(Variable::Split, layout.layers.empty() ? "even" : "explicit");
  return !forbids(trainer, known);
}

// Layers of the largest stage, ends that count included.
std::int64_t largest_stage(const Layout& layout, std::int64_t layers) {
  const std::int64_t slots = layers + layout.count_embedding + layout.count_loss;
  return (slots + stage_count(layout) - 1) / stage_count(layout);
}

// Layers that do not come out even: of all numbers of chunks that leave the largest stage the same
// layers, the fewest. More of them cut only other stages.
bool fewest_chunks(const Layout& layout, std::int64_t layers) {
  Layout fewer = layout;
  --fewer.vpp;
  const bool even =
      (layers + layout.count_embedding + layout.count_loss) % stage_count(layout) == 0;
  return even || largest_stage(layout, layers) < largest_stage(fewer, layers);
}

// Layers of each stage where they do not come out even: as many as the largest from the first on,
// which leaves the last one room for the loss (DeepSeek-V3 on 16 stages: 4*15/1); or one less on
// some, the last ones or those at both ends.
std::vector<std::vector<std::int64_t>> uneven_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<std::vector<std::int64_t>> found;
  const std::int64_t least = layers / stages, larger = layers % stages;
  std::vector<std::int64_t> counts;
  const auto add = [&](std::int64_t count, std::int64_t times) {
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
  };
  const auto end = [&] {
    if (std::find(found.begin(), found.end(), counts) == found.end()) found.push_back(counts);
    counts.clear();
  };
  const std::int64_t full = layers / (least + 1);
  if (larger == 0) return {};
  if (full + 1 == stages) {
    add(least + 1, full);
    add(layers - (least + 1) * full, 1);
    end();
  }
  // The loss on a stage of its own (DeepSeek-V3 on 32: 1/2*30/0).
  const std::int64_t first = layers - (least + 1) * (stages - 2);
  if (first >= 1 && first <= least + 1) {
    add(first, 1);
    add(least + 1, stages - 2);
    add(0, 1);
    end();
  }
  if (least == 0) return found;
  const std::int64_t smaller = stages - larger;
  for (const std::int64_t ahead : {std::int64_t{0}, smaller / 2}) {
    add(least, ahead);
    add(least + 1, larger);
    add(least, smaller - ahead);
    end();
  }
  return found;
}

// By name, or what is run today.
bool asks_for_chunks(const SearchQuestion& question, std::int64_t vpp) {
  if (question.from && question.from->vpp == vpp) return true;
  return std::any_of(question.limits.begin(), question.limits.end(), [&](const Limit& limit) {
    return limit.key == "vpp" && limit.least == vpp && limit.most == vpp;
  });
}

// Of all numbers of chunks that leave the largest stage as many layers the fewest, or more by name.
bool is_worth(const SearchQuestion& question, const Layout& layout, std::int64_t layers) {
  return layout.vpp == 1 || asks_for_chunks(question, layout.vpp) || fewest_chunks(layout, layers);
}

// How layers are dealt out to the layout's stages: evenly, with ends that count as layers, or stage
// by stage where the trainer takes such a list and chunks do not come out even otherwise.
std::vector<Layout> splits_of(const SearchQuestion& question, const Layout& layout,
                              std::int64_t layers) {
  std::vector<Layout> splits = pipeline_splits(layout, layers);
  std::erase_if(splits, [&](const Layout& split) {
    return split.vpp > 1 &&
           (!deals_out(question.trainer, split, layers) || !is_worth(question, split, layers));
  });
  if (!splits.empty() || !is_worth(question, layout, layers)) return splits;
  Layout listed = layout;
  listed.count_embedding = listed.count_loss = 0;
  for (std::vector<std::int64_t>& counts : uneven_stages(layers, stage_count(layout))) {
    listed.layers = std::move(counts);
    if (deals_out(question.trainer, listed, layers)) splits.push_back(listed);
  }
  return splits;
}

}  // namespace

// Before its first backward pass a rank has run that many forward passes, the first ranks more than
// the last (1F1B), or chunk by chunk with every chunk but the last for all ranks' micro-batches
// (interleaved); of others one on one chunk. As many micro-batches as ranks, where there are more.
std::vector<double> layers_in_flight(const Layout& layout, const std::vector<Stage>& stages,
                                     bool many) {
  const std::int64_t p = layout.pp, v = layout.vpp;
  std::vector<std::int64_t> all(static_cast<std::size_t>(p)), least(all.size());
  for (const Stage& stage : stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    least[rank] = stage.chunk == 0 ? stage.count : std::min(least[rank], stage.count);
    all[rank] += stage.count;
  }
  std::vector<double> held(all.size());
  for (std::int64_t r = 0; r < p; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    switch (running_schedule(layout)) {
      case ScheduleKind::None: held[rank] = real(all[rank]); break;
      case ScheduleKind::GPipe: held[rank] = real(all[rank] * (many ? p : 1)); break;
      case ScheduleKind::OneFOneB: held[rank] = real(all[rank] * (many ? p - r : 1)); break;
      case ScheduleKind::InterleavedOneFOneB: {
        const std::int64_t before = 2 * (p - r - 1) + (v - 1) * p + 1;
        held[rank] = real(least[rank] * (many ? std::min(p * v, before) : 1));
        break;
      }
      default: held[rank] = real(least[rank]); break;
    }
  }
  return held;
}

std::vector<Pipeline::Rank> fullest_ranks(const Layout& layout, const Model& model,
                                          const std::vector<Stage>& stages, bool many) {
  std::vector<Pipeline::Rank> ranks;
  for (const double flight : layers_in_flight(layout, stages, many)) {
    ranks.push_back({std::vector<std::int64_t>(model.kinds.size()), flight});
  }
  for (const Stage& stage : stages) {
    for (const LayerRun& run : stage.runs) {
      const auto kind = static_cast<std::size_t>(run.kind.index());
      ranks[static_cast<std::size_t>(stage.rank)].layers[kind] += run.count;
    }
  }
  const auto covers = [](const Pipeline::Rank& a, const Pipeline::Rank& b) {
    return a.flight >= b.flight && std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(),
                                              [](auto x, auto y) { return x >= y; });
  };
  std::vector<Pipeline::Rank> fullest;
  for (const Pipeline::Rank& one : ranks) {
    const bool covered = std::any_of(ranks.begin(), ranks.end(), [&](const Pipeline::Rank& other) {
      return &other != &one && covers(other, one) && (!covers(one, other) || &other < &one);
    });
    if (!covered) fullest.push_back(one);
  }
  return fullest;
}

bool has_many(const Layout& trunk) { return micro_batch_count(trunk) >= trunk.pp; }

namespace {

Pipeline pipeline_of(const Layout& of, const Model& model, const std::vector<Stage>& stages,
                     bool many) {
  const std::vector<double> flight = layers_in_flight(of, stages, many);
  return {of.vpp,
          of.schedule,
          of.placement,
          of.count_embedding,
          of.count_loss,
          of.first_layers,
          of.last_layers,
          of.layers,
          least_idle(of.schedule, of.pp, of.vpp),
          std::accumulate(flight.begin(), flight.end(), 0.0) / real(of.pp),
          fullest_ranks(of, model, stages, many)};
}

}  // namespace

std::vector<Pipeline> pipelines_of(const SearchQuestion& question, const Layout& trunk,
                                   bool only_split) {
  const std::int64_t layers = std::ssize(question.model.layers), pp = trunk.pp;
  // Ends that count as layers add two.
  const std::int64_t most = pp == 1 || !has_many(trunk) ? 1 : (layers + 2) / pp;
  std::vector<Pipeline> found;
  if (question.from && question.from->pp == pp && !question.from->layers.empty()) {
    if (const auto stages = stage_layers(*question.from, question.model)) {
      found.push_back(pipeline_of(*question.from, question.model, *stages, has_many(trunk)));
    }
  }
  for (std::int64_t vpp = 1; vpp <= most; ++vpp) {
    if (!allows(question.limits, "vpp", vpp)) continue;
    for (const ScheduleKind schedule : schedules_of(question.trainer, pp, vpp)) {
      if (!allows(question.limits, "schedule", name_of(schedule))) continue;
      Layout layout = usual_layout(question.trainer);
      layout.pp = pp;
      layout.vpp = vpp;
      layout.schedule = schedule;
      layout.placement = usual_placement(schedule, vpp);
      layout.loss = trunk.loss;
      if (trunk.on.has(Switch::Compile)) layout.on.insert(Switch::Compile);
      if (only_split && !facts_of(schedule).splits_backward) continue;
      if (!runs_with_loss(layout, question.trainer)) continue;
      for (const Layout& split : splits_of(question, layout, layers)) {
        const auto stages = stage_layers(split, question.model);
        if (!stages) continue;
        found.push_back(pipeline_of(split, question.model, *stages, has_many(trunk)));
      }
    }
  }
  return found;
}

}  // namespace trainwright::detail
