#include "trainwright/memory/chunk.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {
namespace {

bool trains_all(const Job& job) {
  return !job.lora && job.frozen.empty() && job.frozen_layers == 0;
}

Params scaled(Params part, Params whole, Params of) {
  if (whole.value() == 0) return Params(0);
  return Params(static_cast<std::int64_t>(number(of) * (number(part) / number(whole))));
}

// An adapter beside an in x out matrix: in x r on every rank, r x out spread as the matrix is.
HeldParameters adapters_of(const Weight& weight, const HeldParameters& held, const Job& job) {
  const auto matrix = layer_matrix(weight.name);
  if (!matrix || !target_matrices(*job.lora).has(*matrix)) return {};
  const Params whole = size_of(weight);
  const Params across = Params(job.lora->rank) * weight.out * weight.copies;
  const Params into = Params(job.lora->rank) * weight.in * weight.copies;
  HeldParameters adapters;
  adapters.dense = scaled(held.dense, whole, across);
  adapters.expert = scaled(held.expert, whole, across);
  if (held.expert.value() > 0) {
    adapters.expert += scaled(held.expert, whole, into);
  } else {
    adapters.dense += into;
    adapters.replicated += into;
  }
  return adapters;
}

struct Trained {
  HeldParameters trained, adapters;
};

// Of the weights of one list; `may_adapt` for those of layers, beside which adapters may stand.
Trained trained_of(const ChunkQuestion& question, const std::vector<Weight>& weights,
                   const LayerKind* kind, const Slice& slice) {
  Trained sum;
  for (const Weight& weight : weights) {
    const HeldParameters held = held_parameters(weight, kind, slice, question.recipe);
    if (question.job.lora) {
      if (kind != nullptr) sum.adapters += adapters_of(weight, held, question.job);
    } else if (!question.job.frozen.has(weight.part)) {
      sum.trained += held;
    }
  }
  sum.trained += sum.adapters;
  return sum;
}

void add(Trained& sum, const Trained& more, std::int64_t times) {
  for (std::int64_t i = 0; i < times; ++i) {
    sum.trained += more.trained;
    sum.adapters += more.adapters;
  }
}

Trained trained_in(const ChunkQuestion& question, const ChunkContent& content, const Slice& slice) {
  const Model& model = question.model;
  const Stage& stage = content.stage;
  Trained sum;
  std::int64_t frozen = content.frozen;
  for (const LayerRun& run : stage.runs) {
    const LayerKind& kind = model.kinds[run.kind.at()];
    const std::int64_t here = std::min(frozen, run.count);
    frozen -= here;
    const Trained of_layer = trained_of(question, layer_weights(model, kind), &kind, slice);
    add(sum, of_layer, run.count - here);
  }
  if (stage.embedding) {
    add(sum, trained_of(question, embedding_weights(model), nullptr, slice), 1);
  }
  if (stage.head) add(sum, trained_of(question, head_weights(model), nullptr, slice), 1);
  for (std::int64_t i = 0; i < stage.mtp; ++i) {
    const LayerKind& kind = model.kinds[model.mtp[static_cast<std::size_t>(i)].at()];
    add(sum, trained_of(question, layer_weights(model, kind), &kind, slice), 1);
    add(sum, trained_of(question, mtp_weights(model), nullptr, slice), 1);
  }
  return sum;
}

HeldParameters tied_copy(const ChunkQuestion& question, const Slice& slice) {
  return held_parameters(embedding_weights(question.model).front(), nullptr, slice,
                         question.recipe);
}

// Logits of one micro-batch, unless the loss keeps them by itself.
double logits_bytes(const ChunkQuestion& question, const Slice& slice) {
  const auto size = static_cast<double>(byte_size(question.recipe.compute));
  if (question.recipe.loss.kept == size) return 0;
  const double rows = static_cast<double>(slice.mbs) * static_cast<double>(slice.seq) /
                      static_cast<double>(slice.cp);
  const double split = question.recipe.vocabulary_split ? static_cast<double>(slice.tp) : 1;
  return size * rows * static_cast<double>(question.model.vocabulary) / split;
}

double all_of(const HeldParameters& held) { return number(held.dense + held.expert); }

void fill_portions(ChunkBytes& chunk, const std::vector<Portion>& portions, double imbalance) {
  for (const Portion& portion : portions) {
    const Totals& of = *portion.totals;
    // Busier experts keep more in every micro-batch.
    const double more = number(of.kept_of_experts) * (imbalance - 1);
    PortionBytes bytes;
    bytes.totals = portion.totals;
    bytes.count = static_cast<double>(portion.count);
    bytes.before = chunk.kept;
    bytes.kept = number(of.kept) + more;
    bytes.half = number(of.kept_for_weights + of.held_gradients);
    bytes.forward = number(of.forward.bytes) + more;
    bytes.backward = number(of.backward.bytes) + more;
    bytes.backward_input = number(of.backward_input.bytes) + more;
    bytes.parameters = all_of(of.parameters);
    chunk.largest = std::max({chunk.largest, bytes.forward, bytes.backward});
    add_shapes(chunk.stand_ins, of.stand_ins);
    chunk.kept += bytes.count * bytes.kept;
    chunk.half += bytes.count * bytes.half;
    chunk.parameters += bytes.count * bytes.parameters;
    for (std::int64_t i = 0; i < portion.count; ++i) chunk.held += of.parameters;
    chunk.portions.push_back(bytes);
  }
  double half_after = 0, parameters_after = 0;
  for (auto portion = chunk.portions.rbegin(); portion != chunk.portions.rend(); ++portion) {
    portion->half_after = half_after;
    portion->parameters_after = parameters_after;
    half_after += portion->count * portion->half;
    parameters_after += portion->count * portion->parameters;
  }
}

// On a stage with the head.
double logits_left_behind(const ChunkQuestion& question, const Slice& slice) {
  const Loss& loss = question.recipe.loss;
  if (loss.left_behind <= 0) return 0;
  const double tokens = static_cast<double>(slice.mbs) *
                        std::ceil(static_cast<double>(slice.seq) / static_cast<double>(slice.cp));
  const double ways = loss.split_by_tp ? static_cast<double>(slice.tp) : 1;
  return loss.left_behind * tokens *
         std::ceil(static_cast<double>(question.model.vocabulary) / ways);
}

// One for what column-parallel products gather, one for row-parallel ones backward.
double gather_buffers(const ChunkQuestion& question, const Slice& slice) {
  if (!question.recipe.gather_buffers_stay || !slice.sp || slice.tp == 1) return 0;
  const double tokens = static_cast<double>(slice.mbs) *
                        std::ceil(static_cast<double>(slice.seq) / static_cast<double>(slice.cp));
  return 2 * tokens * static_cast<double>(question.model.hidden) *
         static_cast<double>(byte_size(question.recipe.compute));
}

}  // namespace

ChunkBytes chunk_bytes(const ChunkQuestion& question, const ChunkContent& content,
                       const Slice& slice, WorkCache& cache) {
  ChunkBytes chunk;
  const std::vector<Portion> portions = cache.stage(content.stage, slice);
  fill_portions(chunk, portions, question.expert_imbalance);
  for (PortionBytes& portion : chunk.portions) {
    portion.logits = (content.stage.head && portion.totals == &cache.head(slice)) ||
                     (content.stage.mtp > 0 && portion.totals == &cache.mtp(slice));
  }
  if (!portions.empty()) {
    chunk.input = content.stage.embedding ? 0 : number(portions.front().totals->input);
    chunk.output = content.stage.head ? 0 : number(portions.back().totals->output);
    chunk.logits = content.stage.head ? logits_bytes(question, slice) : 0;
  }
  chunk.gather_buffers = gather_buffers(question, slice);
  if (content.stage.head) chunk.left_behind = logits_left_behind(question, slice);
  if (content.tied_copy) chunk.held += tied_copy(question, slice);
  if (trains_all(question.job)) {
    chunk.trained = chunk.held;
    return chunk;
  }
  const Trained trained = trained_in(question, content, slice);
  chunk.trained = trained.trained;
  chunk.held += trained.adapters;
  if (content.tied_copy && !question.job.lora && !question.job.frozen.has(Part::Embedding)) {
    chunk.trained += tied_copy(question, slice);
  }
  return chunk;
}

}  // namespace trainwright::detail
