// Which attention and which feed-forward each layer has.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/model/build.h"

namespace trainwright::detail {
namespace {

enum class LayerType { Full, Sliding, Chunked, Linear };

// What the plans need, read once.
struct AttentionNumbers {
  AttentionPlan plan = AttentionPlan::Full;
  std::int64_t window = 0;  // 0: none
  std::int64_t window_layers = 0;
  std::int64_t period = 1;
  std::vector<std::int64_t> rotary;  // per layer, for the plans without positions in some
  std::vector<LayerType> types;      // explicit; empty: by plan
  SoftmaxAttention softmax;
  LatentAttention latent;
  GatedDeltaNet delta;
  LightningAttention lightning;
  Mamba2 mamba;
};

struct ExpertNumbers {
  ExpertPlan plan = ExpertPlan::None;
  std::int64_t first = 0;
  std::int64_t last = -1;  // -1: the last layer
  std::int64_t step = 1;
  std::vector<std::int64_t> listed;  // moe_layers or mlp_only_layers, sorted
  bool has_list = false;
  MixtureOfExperts experts;
  Mlp dense;
};

std::vector<LayerType> read_layer_types(ConfigFields& fields, std::int64_t layers) {
  const auto names = fields.strings("layer_types", static_cast<std::size_t>(kLayersRange.most));
  if (!names) return {};
  std::vector<LayerType> types;
  for (const std::string& name : *names) {
    if (name == "full_attention") {
      types.push_back(LayerType::Full);
    } else if (name == "sliding_attention") {
      types.push_back(LayerType::Sliding);
    } else if (name == "chunked_attention") {
      types.push_back(LayerType::Chunked);
    } else if (name == "linear_attention") {
      types.push_back(LayerType::Linear);
    } else {
      fields.fault("layer_types", fmt::format("'{}' is not a known layer type", name.substr(0, 60)),
                   "full_attention, sliding_attention, chunked_attention or linear_attention");
      return {};
    }
  }
  if (static_cast<std::int64_t>(types.size()) != layers) {
    fields.fault("layer_types", fmt::format("{} layer types for {} layers", types.size(), layers));
    return {};
  }
  return types;
}

void read_rotary(const Family& family, ConfigFields& fields, std::int64_t layers,
                 AttentionNumbers& numbers) {
  if (family.attention_plan != AttentionPlan::NoRotaryNth &&
      family.attention_plan != AttentionPlan::ChunkedNth) {
    return;
  }
  const auto listed =
      fields.integers("no_rope_layers", static_cast<std::size_t>(kLayersRange.most));
  if (listed && !listed->empty()) {
    numbers.rotary = *listed;
    if (static_cast<std::int64_t>(listed->size()) < layers) {
      fields.fault("no_rope_layers",
                   fmt::format("{} entries for {} layers", listed->size(), layers));
      numbers.rotary.resize(static_cast<std::size_t>(layers), 1);
    }
    return;
  }
  for (std::int64_t i = 0; i < layers; ++i) numbers.rotary.push_back((i + 1) % numbers.period != 0);
}

// Every n-th layer, of a number or as listed, has no window and no positions respectively.
void read_listed(ConfigFields& fields, std::int64_t layers, AttentionNumbers& numbers) {
  const auto skipped = fields.frequency("window_attn_skip_freq", layers);
  const auto unturned = fields.frequency("no_rope_freq", layers);
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (skipped) {
      const bool window =
          skipped->number > 0 ? (i + 1) % skipped->number != 0 : skipped->listed[at] == 1;
      numbers.types.push_back(window ? LayerType::Sliding : LayerType::Full);
    }
    if (unturned) {
      numbers.rotary.push_back(unturned->number > 0 ? (i + 1) % unturned->number != 0
                                                    : unturned->listed[at] == 0);
    }
  }
}

// Attention where it is listed, Mamba-2 elsewhere.
void read_attention_indices(ConfigFields& fields, std::int64_t layers, AttentionNumbers& numbers) {
  numbers.types.assign(static_cast<std::size_t>(layers), LayerType::Linear);
  const auto listed =
      fields.integers("attn_layer_indices", static_cast<std::size_t>(kLayersRange.most));
  if (!listed) return;
  for (const std::int64_t i : *listed) {
    if (i >= 0 && i < layers) numbers.types[static_cast<std::size_t>(i)] = LayerType::Full;
  }
}

bool has_mamba(AttentionPlan plan) {
  return plan == AttentionPlan::MambaButListed || plan == AttentionPlan::MambaBeside ||
         plan == AttentionPlan::Pattern;
}

void read_linear(const Family& family, const LayerNumbers& layer, ConfigFields& fields,
                 AttentionNumbers& numbers) {
  if (has_mamba(family.attention_plan)) numbers.mamba = read_mamba(family, layer, fields);
  if (family.attention_plan == AttentionPlan::LinearButNth) {
    numbers.delta = {.key_heads = required(fields, family.delta_key_heads, kHeadsRange),
                     .value_heads = required(fields, family.delta_value_heads, kHeadsRange),
                     .key_dim = required(fields, family.delta_key_dim, kHeadDimRange),
                     .value_dim = required(fields, family.delta_value_dim, kHeadDimRange),
                     .convolution = required(fields, family.delta_convolution, {1, 1 << 16})};
    if (numbers.delta.value_heads % numbers.delta.key_heads != 0) {
      fields.fault(family.delta_value_heads.names,
                   fmt::format("{} key heads do not divide {} value heads", numbers.delta.key_heads,
                               numbers.delta.value_heads));
    }
  }
  if (family.attention_plan == AttentionPlan::LinearOdd) {
    numbers.lightning = {.heads = layer.heads,
                         .head_dim = layer.head_dim,
                         .block = required(fields, family.lightning_block, {1, 1 << 24})};
  }
}

AttentionNumbers read_attention(const Family& family, const LayerNumbers& layer,
                                ConfigFields& fields) {
  AttentionNumbers numbers;
  numbers.plan = family.attention_plan;
  const std::int64_t window = fields.integer(family.window, kTokensRange).value_or(0);
  numbers.window = fields.boolean(family.window_on) ? window : 0;
  numbers.window_layers = fields.integer(family.window_layers, {0, 1 << 20}).value_or(0);
  if (family.period.absent != kNull) {
    numbers.period = required(fields, family.period, {1, 1 << 20});
  }
  read_rotary(family, fields, layer.layers, numbers);
  if (numbers.plan == AttentionPlan::Listed) {
    read_listed(fields, layer.layers, numbers);
  } else if (numbers.plan == AttentionPlan::MambaButListed) {
    read_attention_indices(fields, layer.layers, numbers);
  } else if (numbers.plan == AttentionPlan::Pattern) {
    for (const HybridLayer of : read_hybrid_layers(fields)) {
      numbers.types.push_back(of == HybridLayer::Mamba ? LayerType::Linear : LayerType::Full);
    }
  } else if (!plan_fields(family.attention_plan).empty()) {
    numbers.types = read_layer_types(fields, layer.layers);
  }
  const bool qkv_bias = fields.boolean(family.qkv_bias);
  numbers.softmax = {.heads = layer.heads,
                     .kv_heads = layer.kv_heads,
                     .head_dim = layer.head_dim,
                     .qkv_bias = qkv_bias,
                     .output_bias = fields.boolean(family.output_bias),
                     .qk_norm = fields.boolean(family.qk_norm_on) ? family.qk_norm : Norm::None,
                     .qk_norm_per_head = family.qk_norm_per_head,
                     .output_gate = family.output_gate,
                     .sinks = family.sinks,
                     .softcap = fields.is_number(family.attention_softcap)};
  if (family.latent) {
    numbers.latent = {.heads = layer.heads,
                      .query_rank = fields.integer(family.query_rank, kHiddenRange).value_or(0),
                      .kv_rank = required(fields, family.kv_rank, kHiddenRange),
                      .rope_dim = required(fields, family.rope_dim, kHeadDimRange),
                      .nope_dim = required(fields, family.nope_dim, kHeadDimRange),
                      .value_dim = required(fields, family.value_dim, kHeadDimRange),
                      .latent_norm = family.latent_norm,
                      .down_bias = qkv_bias,
                      .output_bias = numbers.softmax.output_bias};
  }
  read_linear(family, layer, fields, numbers);
  return numbers;
}

bool has_rotary(const AttentionNumbers& numbers, std::int64_t i) {
  return numbers.rotary.empty() || numbers.rotary[static_cast<std::size_t>(i)] != 0;
}

LayerType layer_type(const AttentionNumbers& numbers, std::int64_t i) {
  if (!numbers.types.empty()) return numbers.types[static_cast<std::size_t>(i)];
  switch (numbers.plan) {
    case AttentionPlan::Full:
    case AttentionPlan::MambaBeside:
    case AttentionPlan::MambaButListed:
    case AttentionPlan::Pattern: return LayerType::Full;
    case AttentionPlan::Window:
    case AttentionPlan::Listed: return LayerType::Sliding;
    case AttentionPlan::WindowFromLayer:
      return i >= numbers.window_layers ? LayerType::Sliding : LayerType::Full;
    case AttentionPlan::WindowOddBelow:
      return i % 2 == 0 && i < numbers.window_layers ? LayerType::Sliding : LayerType::Full;
    case AttentionPlan::FullEveryNth:
      return (i + 1) % numbers.period == 0 ? LayerType::Full : LayerType::Sliding;
    case AttentionPlan::FullFirstOfN:
      return i % numbers.period == 0 ? LayerType::Full : LayerType::Sliding;
    case AttentionPlan::NoRotaryNth:
      return has_rotary(numbers, i) ? LayerType::Full : LayerType::Sliding;
    case AttentionPlan::ChunkedNth:
      return has_rotary(numbers, i) ? LayerType::Chunked : LayerType::Full;
    case AttentionPlan::LinearButNth:
      return (i + 1) % numbers.period == 0 ? LayerType::Full : LayerType::Linear;
    case AttentionPlan::LinearOdd: return i % 2 == 0 ? LayerType::Full : LayerType::Linear;
  }
  return LayerType::Full;
}

Attention attention_of(const Family& family, const AttentionNumbers& numbers, std::int64_t i,
                       Positions positions) {
  if (family.latent) return numbers.latent;
  const LayerType type = layer_type(numbers, i);
  if (type == LayerType::Linear) {
    if (has_mamba(numbers.plan)) return numbers.mamba;
    if (numbers.plan == AttentionPlan::LinearButNth) return numbers.delta;
    return numbers.lightning;
  }
  SoftmaxAttention attention = numbers.softmax;
  // The full layers of MiniMax have the window, if there is one.
  const bool sliding = type == LayerType::Sliding || numbers.plan == AttentionPlan::LinearOdd;
  if (numbers.window > 0 && (sliding || type == LayerType::Chunked)) {
    attention.reach = sliding ? Reach::Sliding : Reach::Chunked;
    attention.window = numbers.window;
  }
  attention.rotary = positions == Positions::Rotary && has_rotary(numbers, i) &&
                     (!family.rotary_in_window_only || attention.reach == Reach::Sliding);
  if (family.qk_norm_rotary_only && !attention.rotary) attention.qk_norm = Norm::None;
  return attention;
}

void read_shared(const Family& family, ConfigFields& fields, ExpertNumbers& numbers) {
  Mlp shared = numbers.dense;
  shared.bias = family.shared_bias && numbers.dense.bias;
  const std::int64_t count =
      fields.integer(family.shared_experts, {0, kExpertsRange.most}).value_or(0);
  shared.width = checked_mul(count, numbers.experts.expert.width);
  if (!family.shared_width.names.empty()) {
    shared.width = required(fields, family.shared_width, {0, kWidthRange.most});
  }
  if (shared.width > 0) numbers.experts.shared = shared;
}

void read_feed_forward_types(ConfigFields& fields, std::int64_t layers, ExpertNumbers& numbers) {
  constexpr std::string_view kName = "mlp_layer_types";
  const auto types = fields.strings(kName, static_cast<std::size_t>(kLayersRange.most));
  if (!types) return;
  numbers.has_list = true;
  for (std::size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    if (type == "sparse") numbers.listed.push_back(static_cast<std::int64_t>(i));
    if (type == "sparse" || type == "dense") continue;
    fields.fault(kName, fmt::format("'{}' is not a known layer type", type.substr(0, 60)),
                 "dense or sparse");
    return;
  }
  if (static_cast<std::int64_t>(types->size()) == layers) return;
  fields.fault(kName, fmt::format("{} layer types for {} layers", types->size(), layers));
}

void read_expert_places(const Family& family, ConfigFields& fields, std::int64_t layers,
                        ExpertNumbers& numbers) {
  const IntegerRange layer{0, kLayersRange.most};
  numbers.first = fields.integer(family.expert_first, layer).value_or(0);
  numbers.last = fields.integer(family.expert_last, {-1, kLayersRange.most}).value_or(-1);
  if (family.expert_step.absent != kNull) {
    numbers.step = required(fields, family.expert_step, kLayersRange);
  }
  const std::string_view list = plan_fields(family.expert_plan);
  if (list.empty()) return;
  if (family.expert_plan == ExpertPlan::Listed) {
    const auto frequency = fields.frequency(list, layers);
    if (!frequency) return;
    numbers.has_list = frequency->number == 0;
    numbers.step = std::max<std::int64_t>(1, frequency->number);
    for (std::size_t i = 0; i < frequency->listed.size(); ++i) {
      if (frequency->listed[i] == 1) numbers.listed.push_back(static_cast<std::int64_t>(i));
    }
    return;
  }
  if (family.expert_plan == ExpertPlan::Typed) {
    read_feed_forward_types(fields, layers, numbers);
    return;
  }
  if (auto listed = fields.integers(list, static_cast<std::size_t>(kLayersRange.most))) {
    numbers.has_list = true;
    numbers.listed = std::move(*listed);
    std::sort(numbers.listed.begin(), numbers.listed.end());
  }
}

ExpertNumbers read_experts(const Family& family, const LayerNumbers& layer, ConfigFields& fields,
                           Model& model) {
  ExpertNumbers numbers;
  numbers.plan = family.expert_plan;
  numbers.dense = {.width = width_or(fields, family.dense_width, layer.width),
                   .gated = family.gated,
                   .bias = fields.boolean(family.mlp_bias),
                   .activation = layer.activation};
  if (family.expert_plan == ExpertPlan::None) return numbers;

  MixtureOfExperts& experts = numbers.experts;
  // Qwen's classes take 0 experts for a dense model.
  const std::int64_t least = family.expert_plan == ExpertPlan::SparseStep ? 0 : 1;
  experts.experts = required(fields, family.experts, {least, kExpertsRange.most});
  const auto per_token = fields.integer(family.experts_per_token, kExpertsRange);
  experts.experts_per_token = per_token.value_or(0);
  if (!per_token) {
    model.notes.push_back(
        fmt::format("{} is absent and has no default: active parameters and FLOPs count no routed "
                    "expert",
                    family.experts_per_token.names));
  }
  if (experts.experts > 0 && experts.experts_per_token > experts.experts) {
    fields.fault(family.experts_per_token.names,
                 fmt::format("{} experts per token, but there are only {}",
                             experts.experts_per_token, experts.experts));
  }
  experts.expert = {.width = width_or(fields, family.expert_width, layer.width),
                    .gated = family.gated,
                    .bias = family.expert_bias,
                    .activation = layer.activation};
  experts.latent = fields.integer(family.expert_latent, kHiddenRange).value_or(0);
  experts.latent_bias = experts.latent > 0 && numbers.dense.bias;
  experts.shared_gate = family.shared_gate;
  experts.router_bias = family.router_bias;
  experts.score_correction_trained = family.score_correction_trained;
  read_shared(family, fields, numbers);
  read_expert_places(family, fields, layer.layers, numbers);
  return numbers;
}

bool has_experts(const ExpertNumbers& numbers, std::int64_t i, std::int64_t layers) {
  const bool listed = std::binary_search(numbers.listed.begin(), numbers.listed.end(), i);
  const bool on_step = (i + 1) % numbers.step == 0;
  switch (numbers.plan) {
    case ExpertPlan::None:
    case ExpertPlan::Pattern: return false;
    case ExpertPlan::All: return true;
    case ExpertPlan::AfterFirst: return i >= numbers.first;
    case ExpertPlan::SparseStep: return numbers.experts.experts > 0 && !listed && on_step;
    case ExpertPlan::Interleaved: return numbers.has_list ? listed : on_step;
    case ExpertPlan::Typed: return numbers.has_list ? listed : i >= numbers.first;
    case ExpertPlan::Listed: return numbers.has_list ? listed : i % numbers.step == 0;
    case ExpertPlan::Range: {
      const std::int64_t last = numbers.last == -1 ? layers - 1 : numbers.last;
      return on_step && i >= numbers.first && i <= last;
    }
  }
  return false;
}

// A layer with its norms in place and its branches still empty.
LayerKind norms_of(const Family& family, ConfigFields& fields) {
  const Norm norm = fields.boolean(family.norm_affine) ? family.norm : Norm::LayerFixed;
  LayerKind kind;
  switch (family.norm_plan) {
    case NormPlan::Before: kind.before_attention = kind.before_feed_forward = norm; break;
    case NormPlan::After: kind.after_attention = kind.after_feed_forward = norm; break;
    case NormPlan::Around:
      kind.before_attention = kind.before_feed_forward = norm;
      kind.after_attention = kind.after_feed_forward = norm;
      break;
    case NormPlan::SharedParallel:
      kind.before_attention = norm;
      kind.parallel = true;
      break;
    case NormPlan::NeoX:
      kind.before_attention = kind.before_feed_forward = norm;
      kind.parallel = fields.boolean({"use_parallel_residual", true});
      break;
    case NormPlan::Falcon: {
      const bool grouped = fields.boolean({"new_decoder_architecture", false});
      const bool parallel = fields.boolean({"parallel_attn", true});
      const auto set = fields.integer({"num_ln_in_parallel_attn", kNull}, {1, 2});
      const std::int64_t norms = set.value_or(grouped ? 2 : 1);
      kind.before_attention = norm;
      if (!parallel || norms == 2) kind.before_feed_forward = norm;
      kind.parallel = grouped || parallel;
      break;
    }
    case NormPlan::Opt:
      if (fields.boolean({"do_layer_norm_before", true})) {
        kind.before_attention = kind.before_feed_forward = norm;
      } else {
        kind.after_attention = kind.after_feed_forward = norm;
        kind.norm_after_residual = true;
      }
      break;
  }
  return kind;
}

LayerKindId kind_id(Model& model, LayerKind kind) {
  auto at = std::find(model.kinds.begin(), model.kinds.end(), kind);
  if (at == model.kinds.end()) at = model.kinds.insert(at, std::move(kind));
  return LayerKindId(static_cast<std::int32_t>(at - model.kinds.begin()));
}

}  // namespace

void build_layers(const Family& family, const LayerNumbers& numbers, ConfigFields& fields,
                  Model& model) {
  const AttentionNumbers attention = read_attention(family, numbers, fields);
  const ExpertNumbers experts = read_experts(family, numbers, fields, model);
  const LayerKind norms = norms_of(family, fields);
  std::vector<HybridLayer> branches;
  if (family.attention_plan == AttentionPlan::Pattern) branches = read_hybrid_layers(fields);
  for (std::int64_t i = 0; i < numbers.layers; ++i) {
    LayerKind kind = norms;
    kind.attention = attention_of(family, attention, i, model.positions);
    const auto at = static_cast<std::size_t>(i);
    if (branches.empty() ? has_experts(experts, i, numbers.layers)
                         : branches[at] == HybridLayer::Experts) {
      kind.feed_forward = experts.experts;
    } else {
      kind.feed_forward = experts.dense;
    }
    if (attention.plan == AttentionPlan::MambaBeside) kind.beside_attention = attention.mamba;
    if (!branches.empty()) keep_branch(kind, branches[at]);
    model.layers.push_back(kind_id(model, std::move(kind)));
  }
  const std::int64_t mtp = fields.integer(family.mtp_layers, {0, 1024}).value_or(0);
  if (mtp == 0) return;
  // An MTP module's layer is one like the last of the main model; where layers are one branch each,
  // it has both.
  LayerKindId module = model.layers.back();
  if (!branches.empty()) {
    check_hybrid_mtp(fields);
    LayerKind kind = norms;
    kind.attention = attention.softmax;
    std::get<SoftmaxAttention>(kind.attention).rotary = model.positions == Positions::Rotary;
    kind.feed_forward = experts.experts;
    module = kind_id(model, std::move(kind));
  }
  model.mtp.assign(static_cast<std::size_t>(mtp), module);
}

}  // namespace trainwright::detail
