// Attention of a layer, or what stands in for it.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/model/build.h"

namespace trainwright::detail {
namespace {

std::optional<Indexer> read_indexer(const Family& family, ConfigFields& fields,
                                    std::int64_t query_in) {
  const auto heads = fields.integer(family.index_heads, {0, kHeadsRange.most});
  if (!heads) return std::nullopt;
  return Indexer{.heads = *heads,
                 .head_dim = required(fields, family.index_dim, kHeadDimRange),
                 .topk = fields.integer(family.index_topk, kTokensRange).value_or(0),
                 .query_in = query_in,
                 .key_norm = family.index_key_norm,
                 .query_norm = family.index_query_norm,
                 .weighted = family.index_weighted};
}

SoftmaxAttention read_softmax(const Family& family, ConfigFields& fields, const Model& model,
                              bool rotary, const Heads& heads) {
  SoftmaxAttention a{.heads = heads.heads,
                     .kv_heads = heads.kv_heads,
                     .head_dim = heads.head_dim,
                     .qkv_bias = fields.boolean(family.qkv_bias),
                     .output_bias = fields.boolean(family.output_bias),
                     .qk_norm = fields.boolean(family.qk_norm_on) ? family.qk_norm : Norm::None,
                     .qk_norm_per_head = family.qk_norm_per_head,
                     .output_gate = fields.boolean(family.output_gate),
                     .sinks = family.sinks,
                     .softcap = fields.is_number(family.attention_softcap),
                     .head_gate = fields.boolean(family.head_gate),
                     .causal = fields.boolean(family.causal),
                     .shared_kv = family.shared_kv,
                     .value_is_key = family.value_is_key,
                     .value_norm = family.value_norm};
  const auto value_dim = fields.integer(family.value_dim, kHeadDimRange);
  if (value_dim && *value_dim != a.head_dim) a.value_dim = *value_dim;
  const std::int64_t window = fields.integer(family.window, kTokensRange).value_or(0);
  if (fields.boolean(family.window_on) && window > 0) {
    a.reach = family.chunked ? Reach::Chunked : Reach::Sliding;
    a.window = window;
  }
  a.rotary = rotary && model.positions == Positions::Rotary && fields.boolean(family.rotary) &&
             (!family.rotary_in_window_only || a.reach == Reach::Sliding);
  if (family.qk_norm_rotary_only && !a.rotary) a.qk_norm = Norm::None;
  a.indexer = read_indexer(family, fields, model.hidden);
  return a;
}

LatentAttention read_latent(const Family& family, ConfigFields& fields, const Model& model,
                            bool rotary, const Heads& heads) {
  LatentAttention a{.heads = heads.heads,
                    .query_rank = fields.integer(family.query_rank, kHiddenRange).value_or(0),
                    .kv_rank = required(fields, family.kv_rank, kHiddenRange),
                    .rope_dim = required(fields, family.rope_dim, kTokensRange),
                    .nope_dim = required(fields, family.nope_dim, kHeadDimRange),
                    .value_dim = required(fields, family.value_dim, kHeadDimRange),
                    .latent_norm = family.latent_norm,
                    .down_bias = fields.boolean(family.qkv_bias),
                    .output_bias = fields.boolean(family.output_bias),
                    .rotary = rotary && fields.boolean(family.rotary),
                    .head_gate = fields.boolean(family.head_gate)};
  a.indexer = read_indexer(family, fields, a.query_rank > 0 ? a.query_rank : model.hidden);
  return a;
}

CompressedAttention read_compressed(const Family& family, ConfigFields& fields,
                                    const Heads& heads) {
  CompressedAttention a{.heads = heads.heads,
                        .head_dim = heads.head_dim,
                        .query_rank = required(fields, family.query_rank, kHiddenRange),
                        .output_groups = required(fields, family.output_groups, kHeadsRange),
                        .output_rank = required(fields, family.output_rank, kHiddenRange),
                        .window = required(fields, family.window, kTokensRange),
                        .ratio = fields.integer(family.ratio, kTokensRange).value_or(0),
                        .overlap = required(fields, family.overlap, {1, 2})};
  a.indexer = read_indexer(family, fields, a.query_rank);
  if (a.heads % a.output_groups != 0) {
    fields.fault(family.output_groups.names,
                 fmt::format("{} groups do not divide {} heads", a.output_groups, a.heads));
  }
  return a;
}

GatedDeltaNet read_delta_net(const Family& family, ConfigFields& fields) {
  const GatedDeltaNet a{
      .key_heads = required(fields, family.delta_key_heads, kHeadsRange),
      .value_heads = required(fields, family.delta_value_heads, kHeadsRange),
      .key_dim = required(fields, family.delta_key_dim, kHeadDimRange),
      .value_dim = required(fields, family.delta_value_dim, kHeadDimRange),
      .convolution = required(fields, family.delta_convolution, kTapsRange),
      .channel_decay = family.delta_channel_decay,
      .decay_rank = fields.integer(family.delta_decay_rank, {0, kHiddenRange.most}).value_or(0),
      .gate_rank = fields.integer(family.delta_gate_rank, {0, kHiddenRange.most}).value_or(0),
      .gate_bias = family.delta_gate_bias,
      .gated = fields.boolean(family.delta_gated)};
  if (a.value_heads % a.key_heads != 0) {
    fields.fault(
        family.delta_value_heads.names,
        fmt::format("{} key heads do not divide {} value heads", a.key_heads, a.value_heads));
  }
  return a;
}

Mamba1 read_mamba1(const Family& family, ConfigFields& fields) {
  return {.width = required(fields, family.mamba_width, kWidthRange),
          .state = required(fields, family.mamba_state, kHeadDimRange),
          .rank = required(fields, family.mamba_rank, kHiddenRange),
          .convolution = required(fields, family.mamba_convolution, kTapsRange),
          .projection_bias = fields.boolean(family.mamba_input_bias),
          .convolution_bias = fields.boolean(family.mamba_convolution_bias),
          .inner_norm = family.mamba_inner_norm};
}

// Given, or what is left of the width; "auto" says the latter.
std::int64_t read_mamba_head_dim(const Family& family, ConfigFields& fields, std::int64_t hidden,
                                 std::int64_t heads) {
  if (family.mamba_expansion.names.empty()) {
    return required(fields, family.mamba_head_dim, kHeadDimRange);
  }
  const std::int64_t expansion = required(fields, family.mamba_expansion, {1, 1 << 10});
  const std::int64_t width =
      fields.integer(family.mamba_width, kWidthRange).value_or(expansion * hidden);
  const std::int64_t left = std::max<std::int64_t>(1, width / heads);
  if (left * heads != width) {
    fields.fault(family.mamba_heads.names,
                 fmt::format("{} heads do not divide a state-space width of {}", heads, width));
  }
  if (!fields.is_number(family.mamba_head_dim.names)) {
    if (fields.string({family.mamba_head_dim.names, "auto"}) != "auto") {
      fields.fault(family.mamba_head_dim.names, "expected a whole number or \"auto\"");
    }
    return left;
  }
  const std::int64_t set = required(fields, family.mamba_head_dim, kHeadDimRange);
  if (set != left) {
    fields.fault(
        family.mamba_head_dim.names,
        fmt::format("{} heads of {} do not make a state-space width of {}", heads, set, width));
  }
  return set;
}

}  // namespace

Mamba2 read_mamba2(const Family& family, ConfigFields& fields, std::int64_t hidden) {
  const std::int64_t heads = required(fields, family.mamba_heads, kHeadsRange);
  const Mamba2 mamba{.heads = heads,
                     .head_dim = read_mamba_head_dim(family, fields, hidden, heads),
                     .groups = required(fields, family.mamba_groups, kHeadsRange),
                     .state = required(fields, family.mamba_state, kHeadDimRange),
                     .convolution = required(fields, family.mamba_convolution, kTapsRange),
                     .chunk = required(fields, family.mamba_chunk, kTapsRange),
                     .input_bias = fields.boolean(family.mamba_input_bias),
                     .output_bias = fields.boolean(family.mamba_output_bias),
                     .convolution_bias = fields.boolean(family.mamba_convolution_bias),
                     .output_norm = fields.boolean(family.mamba_norm_on) ? Norm::Rms : Norm::None};
  if (heads % mamba.groups != 0) {
    fields.fault(family.mamba_groups.names,
                 fmt::format("{} groups do not divide {} state-space heads", mamba.groups, heads));
  }
  return mamba;
}

Heads read_heads(const Family& family, ConfigFields& fields, Model& model) {
  Heads read;
  read.heads = required(fields, family.heads, kHeadsRange);
  fields.remember("heads", read.heads);
  read.kv_heads = fields.integer(family.kv_heads, kHeadsRange).value_or(read.heads);
  const bool softmax = family.attention == AttentionKind::Softmax;
  if (read.heads % read.kv_heads != 0 && softmax) {
    fields.fault(
        family.kv_heads.names,
        fmt::format("{} key-value heads do not divide {} query heads", read.kv_heads, read.heads));
  }
  const std::int64_t left = model.hidden / read.heads;
  read.head_dim = std::max<std::int64_t>(1, left);
  if (const auto set = fields.integer(family.head_dim, kHeadDimRange)) {
    read.head_dim = *set;
  } else if (softmax && left == 0) {
    fields.fault(family.heads.names, fmt::format("{} heads are more than the hidden size {}",
                                                 read.heads, model.hidden));
  } else if (softmax && model.hidden % read.heads != 0 && family.head_dim.names.empty()) {
    fields.fault(family.heads.names, fmt::format("the hidden size {} is not a multiple of {} heads",
                                                 model.hidden, read.heads));
  } else if (softmax && model.hidden % read.heads != 0) {
    std::string note = fmt::format("head_dim is absent: {} / {} rounded down to {}", model.hidden,
                                   read.heads, left);
    if (std::find(model.notes.begin(), model.notes.end(), note) == model.notes.end()) {
      model.notes.push_back(std::move(note));
    }
  }
  fields.remember("kv_heads", read.kv_heads);
  fields.remember("head_dim", read.head_dim);
  return read;
}

Attention read_attention(const Family& family, ConfigFields& fields, const Model& model,
                         bool rotary) {
  Model noted = {};
  noted.hidden = model.hidden;
  const Heads heads = read_heads(family, fields, noted);
  switch (family.attention) {
    case AttentionKind::Softmax: return read_softmax(family, fields, model, rotary, heads);
    case AttentionKind::Latent: return read_latent(family, fields, model, rotary, heads);
    case AttentionKind::Compressed: return read_compressed(family, fields, heads);
    case AttentionKind::DeltaNet: return read_delta_net(family, fields);
    case AttentionKind::Lightning:
      return LightningAttention{.heads = heads.heads,
                                .head_dim = heads.head_dim,
                                .block = required(fields, family.lightning_block, {1, 1 << 24})};
    case AttentionKind::Mamba2: return read_mamba2(family, fields, model.hidden);
    case AttentionKind::Mamba: return read_mamba1(family, fields);
    case AttentionKind::ShortConvolution:
      return ShortConvolution{.convolution = required(fields, family.convolution, kTapsRange),
                              .bias = fields.boolean(family.convolution_bias)};
    case AttentionKind::None: return NoAttention{};
  }
  return NoAttention{};
}

}  // namespace trainwright::detail
