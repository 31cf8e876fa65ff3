// A trainer's facts, settled for one precision.
#include "trainwright/work/eager.h"
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

Training training_of(const Trainer& trainer, const Recipe& recipe, const StoredAs& storage,
                     const Job& job) {
  Training training{.frozen = job.frozen, .frozen_layers = job.frozen_layers, .adapters = {}};
  // What the trainer does not offer is diagnosed by those who were asked.
  if (const auto bytes = trained_bytes(job, storage, trainer)) {
    training.states = bytes->model.states;
    training.adapter_states = bytes->adapter.states;
  }
  if (!job.lora) return training;
  training.adapters =
      AdapterRecipe{.rank = job.lora->rank,
                    .targets = target_matrices(*job.lora, trainer.adapters.experts_are_parameters),
                    .dtype = recipe.compute,
                    .base = job.lora->base,
                    .prepared = prepared_as(job, storage, trainer),
                    .dropout = job.lora->dropout,
                    .trained = job.lora->trained};
  AdapterRecipe& adapters = *training.adapters;
  const bool whole_layers = adapters.base == FrozenBase::Nf4 || adapters.base == FrozenBase::Int8;
  adapters.experts_few_bits = !whole_layers || !trainer.adapters.experts_are_parameters ||
                              (job.lora->quantised_experts && trainer.adapters.quantises_experts);
  const PrecisionFacts* facts = precision_facts(trainer, storage.precision);
  const bool widened =
      storage.under_fsdp && facts != nullptr && !whole_layers && !facts->weight_under_fsdp.empty();
  adapters.copies_like_adapters = trainer.adapters.copies_like_adapters || widened;
  const std::string_view dtype = adapter_dtype(job, trainer);
  if (!dtype.empty()) training.adapters->dtype = dtype_named(dtype);
  training.adapters->autocast =
      trainer.adapters.autocast && training.adapters->dtype != recipe.compute;
  training.flows_when_run_again = trainer.adapters.flows_when_run_again;
  return training;
}

}  // namespace

AttentionKernel usual_attention(const Trainer& trainer, std::string_view family) {
  const Kernel* flash = find_kernel(trainer, KernelKind::FlashAttention);
  const auto excepted = [&] {
    const auto& families = flash->not_by_default_for;
    return flash->use == Use::ByDefault &&
           std::find(families.begin(), families.end(), family) != families.end();
  };
  if (does(flash) && !excepted()) return AttentionKernel::Flash;
  return does(find_kernel(trainer, KernelKind::FusedSoftmax)) ? AttentionKernel::FusedSoftmax
                                                              : AttentionKernel::Eager;
}

Recipe recipe_of(const Trainer& trainer, const StoredAs& storage, const Job& job) {
  Recipe recipe;
  if (const PrecisionFacts* facts = precision_facts(trainer, storage.precision)) {
    recipe.compute = recipe.weight = dtype_named(facts->compute);
    recipe.weight_copy = facts->weight_copies;
    recipe.input_copy = facts->input_copy;
    recipe.rounds = facts->rounds;
  }
  recipe.norm = keeps_of(trainer, KernelKind::FusedNorm);
  recipe.rope = keeps_of(trainer, KernelKind::FusedRope);
  recipe.gated_activation = keeps_of(trainer, KernelKind::FusedGatedActivation);
  recipe.bias_activation = keeps_of(trainer, KernelKind::FusedBiasActivation);
  recipe.bias_dropout = keeps_of(trainer, KernelKind::FusedBiasDropout);
  recipe.flash = keeps_of(trainer, KernelKind::FlashAttention);
  recipe.softmax = keeps_of(trainer, KernelKind::FusedSoftmax);
  recipe.attention = usual_attention(trainer);
  recipe.accumulates_in_product = does(find_kernel(trainer, KernelKind::FusedGradientAccumulation));
  const Kernel* both = find_kernel(trainer, KernelKind::FusedProductGradient);
  recipe.splits_products = both != nullptr && !does(both);
  recipe.losses = trainer.losses;
  if (!trainer.losses.empty()) recipe.loss = trainer.losses.front();
  recipe.training = training_of(trainer, recipe, storage, job);
  if (const auto bytes = trained_bytes(job, storage, trainer)) {
    recipe.stored_wide = bytes->model.weight > real(byte_size(recipe.compute));
  }
  recipe.code = trainer.code;
  recipe.code.gradient_stand_ins &= recipe.accumulates_in_product;
  return recipe;
}

bool has_few_bits(const Recipe& recipe, Part part) {
  const auto& adapters = recipe.training.adapters;
  if (!adapters || adapters->base == FrozenBase::AsWeights) return false;
  if (part == Part::RoutedExperts) return adapters->experts_few_bits;
  return part == Part::SelfAttention || part == Part::DenseFeedForward ||
         part == Part::SharedExperts;
}

bool is_prepared(const Recipe& recipe, Part part) {
  const auto& adapters = recipe.training.adapters;
  if (!adapters || adapters->prepared == Prepared::No) return false;
  const bool end = part == Part::Embedding || part == Part::Head;
  return adapters->prepared == Prepared::Peft || !end;
}

bool has_trained_copy(const Recipe& recipe, Part part) {
  return recipe.training.adapters && recipe.training.adapters->trained.has(part);
}

bool trains(const Recipe& recipe, const Slice& slice, Part part) {
  if (has_trained_copy(recipe, part)) return true;
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
  const bool copied = training.adapters && training.adapters->trained.has(Part::Embedding);
  if (copied || (!training.adapters && any(embedding_weights(model)))) return -1;
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

Recipe settled(Recipe recipe, const Model& model, const Slice& slice) {
  recipe.loss = loss_of(recipe, slice);
  recipe.accumulates_in_product &= !slice.own_gradients;
  recipe.code.gradient_stand_ins &= recipe.accumulates_in_product;
  if (recipe.code.expert_scores == ExpertScores::AsModel) {
    recipe.code.expert_scores =
        model.style.scores_before_experts ? ExpertScores::BeforeExperts : ExpertScores::AtCombine;
  }
  recipe.autocast = slice.autocast && recipe.stored_wide && !recipe.training.adapters;
  if (recipe.autocast) recipe.weight = Dtype::Fp32;
  const auto& adapters = recipe.training.adapters;
  recipe.wide = recipe.autocast || (adapters && adapters->prepared != Prepared::No);
  const bool by_family =
      model.style.takes_flash_kernels && slice.attention == AttentionKernel::Flash && !recipe.norm;
  if (by_family || slice.compiled) {
    recipe.norm = FusedKeeps{.input = true, .row_bytes = 4};
    recipe.rope = FusedKeeps{};
  }
  if (!slice.compiled) return recipe;
  recipe.gated_activation = recipe.bias_activation = FusedKeeps{.input = true};
  recipe.bias_dropout = FusedKeeps{};
  recipe.code.norm_scales_input = false;
  recipe.code.stops_early = true;
  return recipe;
}

}  // namespace trainwright
