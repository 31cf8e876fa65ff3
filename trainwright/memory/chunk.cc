#include "trainwright/memory/chunk.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

// Logits of one micro-batch, unless the loss keeps them by itself.
RealBytes logits_bytes(const ChunkQuestion& question, const Slice& slice) {
  const auto size = static_cast<double>(byte_size(question.recipe.compute));
  if (loss_of(question.recipe, slice).kept == size) return {};
  const double rows = static_cast<double>(slice.mbs) * static_cast<double>(slice.seq) /
                      static_cast<double>(slice.cp);
  const double split = question.recipe.code.vocabulary_split ? static_cast<double>(slice.tp) : 1;
  return RealBytes(size * rows * static_cast<double>(question.model.vocabulary) / split);
}

void fill_weights(PortionBytes& portion, const HeldParameters& held, const PassBytes& bytes) {
  const double adapters = number(both(held, &HeldGroup::adapters));
  const double trained = number(both(held, &HeldGroup::trained));
  const double whole = number(both(held, &HeldGroup::all) - both(held, &HeldGroup::quantised));
  const double low = number(both(held, &HeldGroup::low_precision));
  portion.gathered =
      RealBytes(bytes.compute * whole) - RealBytes((bytes.compute - bytes.compute_low) * low) +
      real(both(held, &HeldGroup::stored)) + RealBytes(bytes.adapter_compute * adapters);
  portion.unreduced = RealBytes(bytes.compute * trained + bytes.adapter_compute * adapters);
  portion.gradients = RealBytes(bytes.gradient * trained + bytes.adapter_gradient * adapters);
}

// Of a spread vocabulary the head is with its shares.
bool has_logits(const ListOf& of) {
  return of.what == ListOf::What::Mtp ||
         (of.what == ListOf::What::Head && of.slice.vocabulary_ways == 1);
}

PortionBytes portion_bytes(const Portion& portion, const ChunkQuestion& question) {
  const Totals& of = *portion.totals;
  // Busier experts keep more in every micro-batch, and a layer whose turn it is may be the busiest.
  const RealBytes kept = real(of.kept_of_experts) * (question.experts.over_layers - 1);
  const RealBytes more = real(of.kept_of_experts) * (question.experts.in_a_layer - 1);
  PortionBytes bytes;
  bytes.totals = portion.totals;
  bytes.list = portion.list;
  bytes.count = static_cast<double>(portion.count);
  bytes.kept = real(of.kept) + kept;
  bytes.half = real(of.kept_for_weights + of.held_gradients);
  bytes.forward = real(of.forward.bytes) + more;
  bytes.backward = real(of.backward.bytes) + more;
  bytes.backward_input = real(of.backward_input.bytes) + more;
  bytes.logits = has_logits(*portion.list);
  bytes.end = portion.list->what == ListOf::What::Embedding ||
              (bytes.logits && portion.list->what == ListOf::What::Head);
  bytes.chunked = bytes.logits && loss_of(question.recipe, portion.list->slice).hidden_gradient > 0;
  fill_weights(bytes, of.parameters, question.bytes);
  return bytes;
}

void fill_portions(ChunkBytes& chunk, const std::vector<Portion>& portions,
                   const ChunkQuestion& question) {
  chunk.portions.reserve(portions.size());
  for (const Portion& portion : portions) {
    PortionBytes bytes = portion_bytes(portion, question);
    bytes.kept_before = chunk.kept;
    bytes.gathered_before = chunk.gathered;
    chunk.largest = std::max({chunk.largest, bytes.forward, bytes.backward});
    add_shapes(chunk.stand_ins, portion.totals->stand_ins);
    chunk.kept += bytes.count * bytes.kept;
    chunk.half += bytes.count * bytes.half;
    chunk.gathered += bytes.count * bytes.gathered;
    chunk.held.add(portion.totals->parameters, portion.count);
    chunk.portions.push_back(bytes);
  }
  RealBytes half_after;
  for (auto portion = chunk.portions.rbegin(); portion != chunk.portions.rend(); ++portion) {
    portion->half_after = half_after;
    portion->unreduced_after = chunk.unreduced;
    portion->gradients_after = chunk.gradients;
    half_after += portion->count * portion->half;
    chunk.unreduced += portion->count * portion->unreduced;
    chunk.gradients += portion->count * portion->gradients;
  }
}

// On a stage with the head.
RealBytes logits_left_behind(const ChunkQuestion& question, const Slice& slice) {
  const Loss& loss = loss_of(question.recipe, slice);
  if (loss.left_behind <= 0) return {};
  const double tokens = static_cast<double>(slice.mbs) *
                        std::ceil(static_cast<double>(slice.seq) / static_cast<double>(slice.cp));
  const double ways = loss.split_by_tp ? static_cast<double>(slice.tp) : 1;
  return RealBytes(loss.left_behind * tokens *
                   std::ceil(static_cast<double>(question.model.vocabulary) / ways));
}

// One for what column-parallel products gather, one for row-parallel ones backward.
RealBytes gather_buffers(const ChunkQuestion& question, const Slice& slice) {
  if (!question.recipe.code.gather_buffers_stay || !slice.sp || slice.tp == 1) return {};
  const double tokens = static_cast<double>(slice.mbs) *
                        std::ceil(static_cast<double>(slice.seq) / static_cast<double>(slice.cp));
  return RealBytes(2 * tokens * static_cast<double>(question.model.hidden) *
                   static_cast<double>(byte_size(question.recipe.compute)));
}

}  // namespace

RankLoad expert_load_of(const MemoryConstants& constants, const Model& model, const Slice& slice,
                        std::int64_t pp) {
  RankLoad load = busiest_rank(constants.expert_load, model, slice, pp);
  load.in_a_layer *= constants.expert_imbalance;
  load.over_layers *= constants.expert_imbalance;
  return load;
}

ChunkBytes chunk_bytes(const ChunkQuestion& question, const StageContent& content,
                       const Slice& slice, WorkCache& cache) {
  ChunkBytes chunk;
  const std::vector<Portion> portions = cache.stage(content.stage, slice);
  const bool logits = content.stage.head && !content.stage.head_share;
  fill_portions(chunk, portions, question);
  if (!portions.empty()) {
    if (!content.stage.embedding) chunk.input = real(portions.front().totals->input);
    if (!content.stage.head) chunk.output = real(portions.back().totals->output);
    if (logits) chunk.logits = logits_bytes(question, slice);
  }
  chunk.gather_buffers = gather_buffers(question, slice);
  if (logits) chunk.left_behind = logits_left_behind(question, slice);
  chunk.shares = cache.shares(content.stage, slice);
  for (const Portion& share : chunk.shares) {
    chunk.held.add(share.totals->parameters, share.count);
    if (share.list->what == ListOf::What::HeadShare) {
      chunk.head_share = real(share.totals->forward.bytes);
    }
  }
  return chunk;
}

}  // namespace trainwright::detail
