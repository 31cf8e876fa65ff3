// Which layers of a hybrid are what, and the sizes of its Mamba-2 mixer.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "trainwright/base/text.h"
#include "trainwright/model/build.h"

namespace trainwright::detail {
namespace {

struct NamedLayer {
  std::string_view name;
  HybridLayer layer;
};
// Names of transformers 5.22.2 (nemotron_h and the words that it still takes for them), and the
// letters of Megatron's hybrid patterns.
constexpr NamedLayer kNames[] = {
    {"linear_attention", HybridLayer::Mamba},   {"mamba", HybridLayer::Mamba},
    {"full_attention", HybridLayer::Attention}, {"attention", HybridLayer::Attention},
    {"mlp", HybridLayer::FeedForward},          {"moe", HybridLayer::Experts},
};
constexpr NamedLayer kLetters[] = {{"M", HybridLayer::Mamba},
                                   {"*", HybridLayer::Attention},
                                   {"-", HybridLayer::FeedForward},
                                   {"E", HybridLayer::Experts}};

std::optional<HybridLayer> layer_called(std::string_view name, std::span<const NamedLayer> among) {
  for (const NamedLayer& known : among) {
    if (known.name == name) return known.layer;
  }
  return std::nullopt;
}

std::vector<HybridLayer> read_names(ConfigFields& fields, std::string_view field,
                                    const std::vector<std::string>& names) {
  std::vector<HybridLayer> layers;
  for (const std::string& name : names) {
    const auto layer = layer_called(name, kNames);
    if (!layer) {
      fields.fault(field, fmt::format("'{}' is not a known layer type", name.substr(0, 60)),
                   "linear_attention (or mamba), full_attention (or attention), mlp or moe");
      return {};
    }
    layers.push_back(*layer);
  }
  return layers;
}

std::vector<HybridLayer> read_letters(ConfigFields& fields, std::string_view field,
                                      std::string_view pattern) {
  std::vector<HybridLayer> layers;
  if (pattern.size() > static_cast<std::size_t>(kLayersRange.most)) {
    fields.fault(field, fmt::format("has {} layers", pattern.size()),
                 fmt::format("at most {}", kLayersRange.most));
    return {};
  }
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto layer = layer_called(pattern.substr(i, 1), kLetters);
    if (!layer) {
      fields.fault(field, fmt::format("letter {} stands for no layer", i + 1),
                   "M (Mamba-2), * (attention), - (feed-forward) or E (experts)");
      return {};
    }
    layers.push_back(*layer);
  }
  return layers;
}

std::vector<HybridLayer> read_either(ConfigFields& fields, std::string_view names,
                                     std::string_view pattern) {
  const auto most = static_cast<std::size_t>(kLayersRange.most);
  if (fields.is_set(names)) {
    const auto listed = fields.strings(names, most);
    return listed ? read_names(fields, names, *listed) : std::vector<HybridLayer>{};
  }
  return read_letters(fields, pattern, fields.string({pattern, {}}));
}

// Given, or what is left of the width; "auto" says the latter.
std::int64_t read_mamba_head_dim(const Family& family, const LayerNumbers& layer,
                                 std::int64_t heads, ConfigFields& fields) {
  if (family.mamba_expansion.names.empty()) {
    return required(fields, family.mamba_head_dim, kHeadDimRange);
  }
  const std::int64_t expansion = required(fields, family.mamba_expansion, {1, 1 << 10});
  const std::int64_t width =
      fields.integer(family.mamba_width, kWidthRange).value_or(expansion * layer.hidden);
  const std::int64_t derived = std::max<std::int64_t>(1, width / heads);
  if (derived * heads != width) {
    fields.fault(family.mamba_heads.names,
                 fmt::format("{} heads do not divide a state-space width of {}", heads, width));
  }
  if (!fields.is_number(family.mamba_head_dim.names)) {
    if (fields.string({family.mamba_head_dim.names, "auto"}) != "auto") {
      fields.fault(family.mamba_head_dim.names, "expected a whole number or \"auto\"");
    }
    return derived;
  }
  const std::int64_t set = required(fields, family.mamba_head_dim, kHeadDimRange);
  if (set != derived) {
    fields.fault(
        family.mamba_head_dim.names,
        fmt::format("{} heads of {} do not make a state-space width of {}", heads, set, width));
  }
  return set;
}

}  // namespace

std::vector<HybridLayer> read_hybrid_layers(ConfigFields& fields) {
  constexpr std::string_view kListed = "layers_block_type|layer_types";
  constexpr std::string_view kPattern = "hybrid_override_pattern";
  if (!fields.is_set(kListed) && !fields.is_set(kPattern)) {
    return {HybridLayer::Mamba, HybridLayer::Experts, HybridLayer::Attention,
            HybridLayer::FeedForward};
  }
  std::vector<HybridLayer> layers = read_either(fields, kListed, kPattern);
  if (layers.empty()) {
    fields.fault_unless_reported(fields.is_set(kListed) ? kListed : kPattern, "names no layer");
    layers.push_back(HybridLayer::Mamba);
  }
  return layers;
}

void check_hybrid_mtp(ConfigFields& fields) {
  constexpr std::string_view kListed = "mtp_layers_block_type";
  constexpr std::string_view kPattern = "mtp_hybrid_override_pattern";
  if (!fields.is_set(kListed) && !fields.is_set(kPattern)) return;
  const std::vector<HybridLayer> layers = read_either(fields, kListed, kPattern);
  if (layers == std::vector{HybridLayer::Attention, HybridLayer::Experts}) return;
  fields.fault_unless_reported(fields.is_set(kListed) ? kListed : kPattern,
                               "only prediction modules of attention and experts are modelled");
}

Mamba2 read_mamba(const Family& family, const LayerNumbers& layer, ConfigFields& fields) {
  const std::int64_t heads = required(fields, family.mamba_heads, kHeadsRange);
  const Mamba2 mamba{.heads = heads,
                     .head_dim = read_mamba_head_dim(family, layer, heads, fields),
                     .groups = required(fields, family.mamba_groups, kHeadsRange),
                     .state = required(fields, family.mamba_state, kHeadDimRange),
                     .convolution = required(fields, family.mamba_convolution, {1, 1 << 16}),
                     .chunk = required(fields, family.mamba_chunk, {1, 1 << 16}),
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

void keep_branch(LayerKind& kind, HybridLayer layer) {
  if (layer == HybridLayer::Mamba || layer == HybridLayer::Attention) {
    kind.feed_forward = NoFeedForward{};
    kind.before_feed_forward = Norm::None;
  } else {
    kind.attention = NoAttention{};
    kind.before_attention = Norm::None;
  }
}

}  // namespace trainwright::detail
