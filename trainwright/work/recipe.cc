// A trainer's facts, settled for one precision.
#include <utility>

#include "trainwright/work/work.h"

namespace trainwright {
namespace {

Dtype dtype_named(std::string_view name) {
  if (name == "bf16") return Dtype::Bf16;
  if (name == "fp16") return Dtype::Fp16;
  return Dtype::Fp32;
}

bool does(const Kernel* kernel) { return kernel != nullptr && kernel->use >= Use::ByDefault; }

std::optional<FusedKeeps> keeps_of(const Trainer& trainer, KernelKind kind) {
  const Kernel* kernel = find_kernel(trainer, kind);
  if (!does(kernel)) return std::nullopt;
  return FusedKeeps{.input = kernel->kept_per_input > 0,
                    .output = kernel->kept_per_output > 0,
                    .row_bytes = kernel->kept_per_row};
}

const PrecisionFacts* precision_facts(const Trainer& trainer, PrecisionKind precision) {
  if (const PrecisionFacts* facts = find_kind(trainer.precisions, precision)) return facts;
  return trainer.precisions.empty() ? nullptr : &trainer.precisions.front();
}

Recipe with_code(Recipe recipe, const CodeFacts& code) {
  recipe.joined_projections = code.joined_projections;
  recipe.norm_scales_input = code.norm_scales_input;
  recipe.norm_in_product = code.norm_in_product;
  recipe.gathers_again = code.gathers_again;
  recipe.vocabulary_split = code.vocabulary_split;
  recipe.vocabulary_multiple = code.vocabulary_multiple;
  recipe.dropout = code.dropout;
  recipe.delays_vectors = code.delays_vectors;
  recipe.stops_early = code.stops_early;
  recipe.permutes_tokens = code.permutes_tokens;
  recipe.gradient_stand_ins = code.gradient_stand_ins && recipe.accumulates_in_product;
  recipe.casts_copy = code.casts_copy;
  recipe.keeps_factors = code.keeps_factors;
  recipe.inputs_copied = code.inputs_copied;
  recipe.slices_are_views = code.slices_are_views;
  recipe.reorders_heads = code.reorders_heads;
  recipe.looks_up_rotation = code.looks_up_rotation;
  recipe.sums_copy = code.sums_copy;
  recipe.expert_rows_stay = code.expert_rows_stay;
  recipe.copies_heads = code.copies_heads;
  recipe.gather_buffers_stay = code.gather_buffers_stay;
  recipe.expert_scores = code.expert_scores;
  return recipe;
}

Training training_of(const Trainer& trainer, const Recipe& recipe, PrecisionKind precision,
                     const Job& job) {
  Training training{.frozen = job.frozen, .frozen_layers = job.frozen_layers, .adapters = {}};
  // What the trainer does not offer is diagnosed by those who were asked.
  if (const auto bytes = trained_bytes(job, precision, trainer)) {
    training.states = bytes->model.states;
    training.adapter_states = bytes->adapter.states;
  }
  if (!job.lora) return training;
  training.adapters = AdapterRecipe{.rank = job.lora->rank,
                                    .targets = target_matrices(*job.lora),
                                    .dtype = recipe.compute,
                                    .base = job.lora->base,
                                    .dropout = job.lora->dropout};
  const std::string_view dtype = adapter_dtype(job, trainer);
  if (!dtype.empty()) training.adapters->dtype = dtype_named(dtype);
  training.flows_when_run_again = trainer.adapters.flows_when_run_again;
  return training;
}

AttentionKernel usual_attention(const Recipe& recipe) {
  if (recipe.flash) return AttentionKernel::Flash;
  return recipe.softmax ? AttentionKernel::FusedSoftmax : AttentionKernel::Eager;
}

}  // namespace

Recipe recipe_of(const Trainer& trainer, PrecisionKind precision, const Job& job) {
  Recipe recipe;
  if (const PrecisionFacts* facts = precision_facts(trainer, precision)) {
    recipe.compute = recipe.weight = dtype_named(facts->compute);
    recipe.weight_copy = facts->weight_copies;
    recipe.input_copy = facts->input_copy;
  }
  recipe.norm = keeps_of(trainer, KernelKind::FusedNorm);
  recipe.rope = keeps_of(trainer, KernelKind::FusedRope);
  recipe.gated_activation = keeps_of(trainer, KernelKind::FusedGatedActivation);
  recipe.bias_activation = keeps_of(trainer, KernelKind::FusedBiasActivation);
  recipe.bias_dropout = keeps_of(trainer, KernelKind::FusedBiasDropout);
  recipe.flash = keeps_of(trainer, KernelKind::FlashAttention);
  recipe.softmax = keeps_of(trainer, KernelKind::FusedSoftmax);
  recipe.attention = usual_attention(recipe);
  recipe.accumulates_in_product = does(find_kernel(trainer, KernelKind::FusedGradientAccumulation));
  const Kernel* both = find_kernel(trainer, KernelKind::FusedProductGradient);
  recipe.splits_products = both != nullptr && !does(both);
  recipe.losses = trainer.losses;
  if (!trainer.losses.empty()) recipe.loss = trainer.losses.front();
  recipe.training = training_of(trainer, recipe, precision, job);
  return with_code(std::move(recipe), trainer.code);
}

bool trains(const Recipe& recipe, const Slice& slice, Part part) {
  return !slice.frozen && !recipe.training.adapters && !recipe.training.frozen.has(part);
}

std::int64_t first_trained_layer(const Model& model, const Training& training) {
  const auto trained = [&](const Weight& weight) {
    if (!training.adapters) return !training.frozen.has(weight.part);
    const auto matrix = layer_matrix(weight.name);
    return matrix && training.adapters->targets.has(*matrix);
  };
  const auto any = [&](const std::vector<Weight>& weights) {
    return std::any_of(weights.begin(), weights.end(), trained);
  };
  if (!training.adapters && any(embedding_weights(model))) return -1;
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  for (std::int64_t i = training.frozen_layers; i < layers; ++i) {
    const LayerKindId kind = model.layers[static_cast<std::size_t>(i)];
    if (any(layer_weights(model, model.kinds[kind.at()]))) return i;
  }
  return layers;
}

const Loss& loss_of(const Recipe& recipe, const Slice& slice) {
  return slice.loss < recipe.losses.size() ? recipe.losses[slice.loss] : recipe.loss;
}

Recipe settled(Recipe recipe, const Slice& slice) {
  recipe.loss = loss_of(recipe, slice);
  if (!slice.compiled) return recipe;
  constexpr double kRow = 4;
  recipe.norm = FusedKeeps{.input = true, .row_bytes = kRow};
  recipe.rope = FusedKeeps{};
  recipe.gated_activation = recipe.bias_activation = FusedKeeps{.input = true};
  recipe.bias_dropout = FusedKeeps{};
  recipe.norm_scales_input = false;
  recipe.stops_early = true;
  return recipe;
}

}  // namespace trainwright
