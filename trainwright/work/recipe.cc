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

AttentionKernel usual_attention(const Recipe& recipe) {
  if (recipe.flash) return AttentionKernel::Flash;
  return recipe.softmax ? AttentionKernel::FusedSoftmax : AttentionKernel::Eager;
}

}  // namespace

Recipe recipe_of(const Trainer& trainer, PrecisionKind precision) {
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
  if (!trainer.losses.empty()) recipe.loss = trainer.losses.front();
  return with_code(std::move(recipe), trainer.code);
}

}  // namespace trainwright
