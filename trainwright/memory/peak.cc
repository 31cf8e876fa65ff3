#include "trainwright/memory/peak.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

RealBytes& at(CategoryBytes& bytes, Category category) {
  return bytes[static_cast<std::size_t>(category)];
}

// Whole bytes.
RealBytes ceil(RealBytes bytes) { return RealBytes(std::ceil(bytes.value())); }
RealBytes floor(RealBytes bytes) { return RealBytes(std::floor(bytes.value())); }

// Every barrier between the shares of the head holds up one micro-batch more on each rank: one with
// 1F1B (README.md of sail-sg/VocabularyParallelism: p + 1 by default), two with V-Half
// (arXiv:2411.05288, Vocab-1).
std::int32_t vocabulary_ahead(const Layout& layout) {
  if (!layout.vocab_parallel || layout.pp == 1) return 0;
  const ScheduleKind kind = running_schedule(layout);
  if (kind == ScheduleKind::VHalf) return 2;
  return kind == ScheduleKind::OneFOneB ? 1 : 0;
}

}  // namespace

namespace {

// Unasked, graphs hold neither pipelines nor experts that are spread, and are made on NVIDIA's
// accelerators alone (torchtitan 0.3.0 trainer.py:193, distributed/cudagraph.py).
bool holds_passes_in_graph(const Layout& layout, const Trainer& trainer, const Cluster& cluster) {
  if (layout.on.has(Switch::Graphs)) return true;
  const bool held = layout.pp == 1 && layout.ep == 1;
  return held && asks(layout, Switch::Graphs, trainer) &&
         tightest_group(cluster).accelerator.vendor == "NVIDIA";
}

}  // namespace

Result<LayoutRules> layout_rules(const Layout& layout, const Job& job, const Trainer& trainer,
                                 const Cluster& cluster) {
  LayoutRules rules;
  rules.workspaces = workspaces_of(layout, cluster, trainer);
  if (trainer.code.gathers_into_buffer && layout.sp && layout.tp > 1) {
    rules.gathered_head = static_cast<double>(layout.tp);
  }
  rules.states = TW_TRY(state_rules(layout, job, trainer, cluster));
  rules.microbatches = std::max<std::int64_t>(1, micro_batch_count(layout));
  rules.product_workspace = product_workspace(cluster, trainer);
  const bool several = layout.pp > 1;
  const PipelineFacts& facts = trainer.pipeline;
  const bool wrapped = layout.sharding == ShardingKind::Ddp && layout.dp * layout.cp > 1;
  const bool freed = facts.outputs_freed_early && !(facts.outputs_stay_with_ddp && wrapped);
  rules.pipeline = {.outputs_freed_early = freed || !several,
                    .last_output_stays = facts.last_output_stays && several,
                    .buffers_per_micro_batch = trainer.pipeline.buffers_per_micro_batch && several,
                    .sends_stay = trainer.pipeline.sends_live_until_step_end && several,
                    .last_gradient_stays = trainer.pipeline.last_gradient_stays && several,
                    .last_input_stays = trainer.pipeline.last_input_stays && several,
                    .overlaps = several && asks(layout, Switch::OverlapP2p, trainer)};
  rules.experts_overlap =
      layout.ep > 1 && rules.microbatches > 1 && asks(layout, Switch::OverlapEp, trainer);
  rules.graphs = holds_passes_in_graph(layout, trainer, cluster);
  rules.part_graphs = !rules.graphs && asks(layout, Switch::PartGraphs, trainer);
  rules.moments = TW_TRY(moment_key(layout, rules));
  return rules;
}

Result<MomentKey> moment_key(const Layout& layout, const LayoutRules& rules) {
  if (layout.pp > kMaxRanks || stage_count(layout) > kMaxStages) {
    return fail("pp", fmt::format("{} stages are more than a schedule has", stage_count(layout)));
  }
  return MomentKey{.kind = running_schedule(layout),
                   .ranks = static_cast<std::int32_t>(layout.pp),
                   .chunks = static_cast<std::int32_t>(layout.vpp),
                   .microbatches = rules.microbatches,
                   .group = static_cast<std::int32_t>(running_group(layout)),
                   .ahead = vocabulary_ahead(layout),
                   .sends_stay = rules.pipeline.sends_stay};
}

ContentTerms content_terms(const ChunkBytes& bytes, const StageContent& content,
                           const LayoutRules& rules) {
  ContentTerms terms;
  terms.bytes = &bytes;
  terms.chunk = chunk_terms(bytes, content, rules.states, rules.pipeline);
  terms.whole = all_whole(terms.chunk);
  terms.transport = transport_bytes(bytes, rules.pipeline, rules.microbatches);
  if (rules.pipeline.last_input_stays && content.receives) terms.left = 2 * bytes.input;
  for (const PortionBytes& portion : bytes.portions) {
    if (portion.logits) terms.left += rules.gathered_head * real(portion.totals->input);
  }
  terms.own_products =
      content.stage.head || content.stage.head_share || bytes.held.expert.all.value() > 0;
  return terms;
}

namespace {

// What the forward pass of one layer holds at most, what it keeps included.
RealBytes forward_of_layer(const ChunkBytes& bytes) {
  RealBytes most;
  for (const PortionBytes& portion : bytes.portions) {
    if (!portion.end) most = std::max({most, portion.forward, portion.kept});
  }
  return most;
}

// The most temporaries of a layer: those of the list where an action is highest may be none, where
// that is the head.
RealBytes transients_of_layer(const ChunkBytes& bytes) {
  RealBytes most;
  for (const PortionBytes& portion : bytes.portions) {
    if (portion.logits || portion.end) continue;
    const RealBytes peak = std::max({portion.forward, portion.backward_input, portion.backward});
    most = std::max(most, peak - std::min(portion.kept, peak));
  }
  return most;
}

}  // namespace

void fill_terms(GroupTerms& terms, const PipelineGroup& group,
                std::span<const ContentTerms> contents, const LayoutRules& rules) {
  terms.chunks.clear();
  terms.distinct.clear();
  terms.transport = terms.largest = terms.left_behind = terms.left = RealBytes();
  RealBytes gradients, kept_gradients;
  for (const std::size_t chunk : group.chunks) {
    const ContentTerms& of = contents[chunk];
    terms.chunks.push_back(&of.chunk);
    terms.transport += of.transport;
    if (rules.microbatches > 1) terms.left_behind += of.bytes->left_behind;
    terms.left_behind += of.bytes->head_share;
    terms.left += of.left;
    gradients += of.chunk.gradients;
    kept_gradients += of.chunk.kept_gradients;
  }
  terms.whole = true;
  terms.gather_buffers = RealBytes();
  terms.graphs = terms.beside = RealBytes();
  terms.shares_embedding = group.sums_embedding;
  bool own_products = false;
  HeldParameters held;
  StandIns stand_ins;
  for (const std::size_t content : group.distinct) {
    const ContentTerms& of = contents[content];
    terms.distinct.push_back(&of.chunk);
    if (rules.experts_overlap) terms.beside = std::max(terms.beside, forward_of_layer(*of.bytes));
    if (rules.part_graphs) terms.graphs = std::max(terms.graphs, transients_of_layer(*of.bytes));
    terms.whole &= of.whole;
    own_products |= of.own_products;
    terms.gather_buffers = std::max(terms.gather_buffers, of.bytes->gather_buffers);
    terms.largest = std::max(terms.largest, of.bytes->largest);
    held.add(of.bytes->held, std::count(group.chunks.begin(), group.chunks.end(), content));
    add_shapes(stand_ins, of.bytes->stand_ins);
  }
  terms.workspaces = rules.workspaces.everywhere;
  if (own_products) terms.workspaces += rules.workspaces.own_products;
  terms.product_workspace = 2 * rules.product_workspace;
  terms.stand_ins = RealBytes();
  for (const MatrixShape& shape : stand_ins) {
    terms.stand_ins += RealBytes(rules.states.compute * static_cast<double>(shape.in) *
                                 static_cast<double>(shape.out));
  }
  terms.states = states_of(rules.states, held);
  // Gradients that come with the backward pass are counted there.
  if (gradients > RealBytes()) {
    gradients = terms.states.gradients;
    terms.states.gradients = RealBytes();
  }
  terms.step = terms.states.step + gradients + kept_gradients;
  // Gradients copied for the step go when the next one begins; buckets, gathered weights and
  // temporaries at once.
  terms.left += copied_gradients(terms.states) + kept_gradients;
}

CategoryBytes standing_bytes(const GroupTerms& terms) {
  CategoryBytes bytes{};
  at(bytes, Category::Weights) = terms.states.weights;
  at(bytes, Category::MainWeights) = terms.states.main_weights;
  at(bytes, Category::Gradients) = terms.states.gradients;
  at(bytes, Category::OptimizerStates) = terms.states.states;
  at(bytes, Category::ReduceBuffers) = terms.states.buckets;
  at(bytes, Category::Logits) = terms.left_behind;
  at(bytes, Category::GatherBuffers) = terms.gather_buffers;
  at(bytes, Category::PointToPoint) = terms.transport;
  at(bytes, Category::Transients) = terms.graphs;
  at(bytes, Category::Workspace) = terms.workspaces + terms.stand_ins + terms.product_workspace;
  for (RealBytes& one : bytes) one = ceil(one);
  return bytes;
}

namespace {

// Micro-batches beyond those that the moments were walked with, where they matter.
double more_microbatches(const LayoutRules& rules) {
  if (!rules.pipeline.sends_stay) return 0;
  return static_cast<double>(rules.microbatches - enough_microbatches(rules.moments));
}

// What the pool of a graph of whole passes holds, the optimizer's step cannot have.
RealBytes beside_graph(const GroupTerms& terms, const LayoutRules& rules) {
  return rules.graphs ? terms.states.step : RealBytes();
}

}  // namespace

RealBytes beside_passes(const GroupTerms& terms, const LayoutRules& rules) {
  return terms.beside + beside_graph(terms, rules);
}

ClassPeak class_peak(const GroupTerms& terms, const Moments& moments, const LayoutRules& rules) {
  Highest found = highest(terms.chunks, moments, more_microbatches(rules));
  const RealBytes before_step = ceil(found.bytes + terms.beside);
  found.bytes += beside_passes(terms, rules);
  if (terms.step > found.bytes) {
    return {.coming = ceil(terms.step), .moments = before_step, .at_step = true};
  }
  return {.coming = ceil(found.bytes), .moments = before_step, .moment = found.moment};
}

RealBytes coming_at_peak(const GroupTerms& terms, const Moments& moments, const MomentSums& sums,
                         const LayoutRules& rules) {
  const double more = more_microbatches(rules);
  RealBytes most = terms.whole ? highest_by_content(terms.distinct, sums, more) : kExact;
  if (most >= kExact) most = highest(terms.chunks, moments, more).bytes;
  most += beside_passes(terms, rules);
  return ceil(std::max(most, terms.step));
}

CategoryBytes coming_bytes(const GroupTerms& terms, const Moments& moments,
                           const LayoutRules& rules, const ClassPeak& peak) {
  CategoryBytes bytes{};
  if (peak.at_step) {
    at(bytes, Category::StepBuffers) = floor(terms.states.step);
    at(bytes, Category::Gradients) = peak.coming - at(bytes, Category::StepBuffers);
    return bytes;
  }
  const MomentAction& action = moments.actions[peak.moment];
  const Spot& spot = spot_of(terms.chunks, action);
  at(bytes, Category::Transients) = floor(spot.transients);
  at(bytes, Category::Logits) = floor(spot.logits);
  at(bytes, Category::ReduceBuffers) = spot.reduced;
  at(bytes, Category::GatherBuffers) = spot.gathered;
  at(bytes, Category::Gradients) = spot.gradients;
  at(bytes, Category::StepBuffers) = floor(beside_graph(terms, rules));
  const auto extra = static_cast<double>(
      action.late ? rules.microbatches - enough_microbatches(rules.moments) : 0);
  const std::span<const InFlight> counts = moments.at(peak.moment);
  for (std::size_t c = 0; c < terms.chunks.size(); ++c) {
    const ChunkTerms& of = *terms.chunks[c];
    at(bytes, Category::GatherBuffers) += of.gathered;
    // What is summed up unsharded waits to be reduced.
    const bool unsharded = cut_at_step(rules.states.sharding);
    if ((action.has_gradient >> c & 1U) != 0) {
      at(bytes, unsharded ? Category::ReduceBuffers : Category::Gradients) += of.gradients;
      at(bytes, Category::PointToPoint) += of.last_gradient;
    }
    at(bytes, Category::Gradients) += still_kept(terms.chunks, c, action);
    at(bytes, Category::PointToPoint) +=
        (counts[c].forwards + extra) * of.sent_forward + (counts[c].inputs + extra) * of.sent_input;
  }
  RealBytes others;
  for (RealBytes& one : bytes) others += one = floor(one);
  at(bytes, Category::Activations) = peak.coming - others;
  return bytes;
}

}  // namespace trainwright::detail
