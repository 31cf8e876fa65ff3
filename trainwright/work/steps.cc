// Which version of a step runs: the fused one where the recipe has a kernel for it.
#include "trainwright/work/eager.h"

namespace trainwright::detail {

TensorId norm(Builder& b, std::string_view name, Norm norm, TensorId x, std::int64_t width) {
  if (norm == Norm::None) return x;
  return b.recipe.norm ? fused_norm(b, name, norm, x, width) : eager_norm(b, name, norm, x, width);
}

TensorId norm_of_split_rows(Builder& b, std::string_view name, Norm norm, TensorId x,
                            std::int64_t width) {
  const std::size_t first = b.list.tensors.size();
  const TensorId y = detail::norm(b, name, norm, x, width);
  if (b.slice.tp == 1 || norm == Norm::None) return y;
  const std::int64_t rows = b.at(x).elements / width;
  for (std::size_t i = first; i < b.list.tensors.size(); ++i) {
    Tensor& tensor = b.list.tensors[i];
    if (tensor.elements < b.at(x).elements) tensor.copies = b.slice.tp;
  }
  for (const Pass pass : {Pass::Forward, Pass::InputGradient}) {
    b.last().collectives.push_back({CollectiveKind::AllReduce, GroupKind::Tp, pass, Beside::Nothing,
                                    Bytes(rows * byte_size(Dtype::Fp32))});
  }
  return y;
}

Rotated rope(Builder& b, TensorId query, TensorId key, std::int64_t head_dim) {
  return b.recipe.rope ? fused_rope(b, query, key, head_dim) : eager_rope(b, query, key, head_dim);
}

Rotated latent_rope(Builder& b, const LatentHeads& x) {
  return b.recipe.rope ? fused_latent_rope(b, x) : eager_latent_rope(b, x);
}

namespace {

// Values may be a part of a storage, of which no more is cast.
TensorId cast_values(Builder& b, const Core& core) {
  const Tensor of = b.at(core.value);
  if (of.dtype == b.recipe.compute) return core.value;
  const std::int64_t rows = checked_mul(b.slice.mbs, core.key_tokens);
  const std::int64_t elements = checked_mul(rows, checked_mul(core.kv_heads, core.value_dim));
  const TensorId values = b.tensor("value_cast", b.recipe.compute, elements, of.copies);
  each(b, "cast", {core.value}, values, 0);
  return values;
}

}  // namespace

TensorId attention_core(Builder& b, const Core& asked) {
  const InModule module(b, RecomputeModule::CoreAttention);
  Core core = asked;
  if (b.recipe.wide) {
    core.query = cast(b, "query_cast", core.query, b.recipe.compute);
    core.key = cast(b, "key_cast", core.key, b.recipe.compute);
    core.value = cast_values(b, core);
  }
  switch (b.slice.attention) {
    case AttentionKernel::Flash: return flash_core(b, core);
    case AttentionKernel::FusedSoftmax: return softmax_core(b, core);
    case AttentionKernel::Eager: return eager_core(b, core);
    case AttentionKernel::Sdpa: return sdpa_core(b, core);
  }
  return flash_core(b, core);
}

TensorId activation(Builder& b, const Preactivation& x) {
  const bool fused =
      x.gated ? b.recipe.gated_activation.has_value() : b.recipe.bias_activation.has_value();
  return fused ? fused_activation(b, x) : eager_activation(b, x);
}

TensorId residual(Builder& b, TensorId x, TensorId branch) {
  return b.recipe.bias_dropout ? fused_residual(b, x, branch) : eager_residual(b, x, branch);
}

TensorId mixture(Builder& b, const MixtureOfExperts& m, TensorId x) {
  const InModule module(b, RecomputeModule::Moe);
  return b.recipe.code.permutes_tokens ? permuted_mixture(b, m, x) : eager_mixture(b, m, x);
}

void loss(Builder& b, TensorId logits, std::int64_t rows) {
  if (b.recipe.loss.by_operators) {
    eager_loss(b, logits, rows);
  } else {
    counted_loss(b, logits, rows);
  }
}

}  // namespace trainwright::detail
