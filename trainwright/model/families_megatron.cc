// The GPT of Megatron-LM, written as its arguments are named, with underscores: what
// pretrain_gpt.py builds (core_v0.16.1: megatron/training/arguments.py for names and defaults,
// megatron/core/transformer/transformer_config.py and models/gpt/gpt_layer_specs.py for what is
// made of them). Its switches decide what in other families the entry says.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/model/build.h"
#include "trainwright/model/megatron_options.h"

namespace trainwright::detail {
namespace {

void decide_vocabulary(ConfigFields& fields, Family& family) {
  const auto tokens = fields.integer(family.vocabulary, kVocabularyRange);
  if (fields.integer({"padded_vocab_size"}, kVocabularyRange)) {
    family.vocabulary = {"padded_vocab_size"};
  } else if (tokens && fields.string({"tokenizer_type", {}}) == "NullTokenizer") {
    family.vocabulary = {{}, *tokens + 1};  // and a token that ends a document
  }
}

void decide_positions(ConfigFields& fields, Family& family) {
  std::string type = fields.string({"position_embedding_type", "learned_absolute"});
  if (fields.boolean({"use_rotary_position_embeddings"})) type = "rope";
  if (type == "learned_absolute") {
    family.positions = Positions::Learned;
  } else if (type == "none") {
    family.positions = Positions::None;
  } else if (type != "rope" && type != "mrope" && type != "yarn") {
    fields.fault("position_embedding_type",
                 fmt::format("positions of the type '{}' are not known", type.substr(0, 60)),
                 "learned_absolute, rope, mrope, yarn or none");
  }
}

void decide_norms(ConfigFields& fields, Family& family) {
  const std::string kind = fields.string({"normalization", "LayerNorm"});
  if (kind == "LayerNorm") {
    family.norm = Norm::Layer;
  } else if (kind != "RMSNorm") {
    fields.fault("normalization", fmt::format("the norm '{}' is not known", kind.substr(0, 60)),
                 "LayerNorm or RMSNorm");
  }
  const bool normed = fields.boolean({"qk_layernorm"});
  family.qk_norm = normed                           ? family.norm
                   : fields.boolean({"qk_l2_norm"}) ? Norm::RmsFixed
                                                    : Norm::None;
  family.latent_norm = normed ? family.norm : Norm::None;
}

bool is_latent(const Family& family) { return family.attention == AttentionKind::Latent; }

// Whether the linear layers have biases. Queries, keys and values may have them alone; latents
// never do.
bool decide_biases(ConfigFields& fields, Family& family) {
  const bool without = fields.boolean({"disable_bias_linear"});
  const bool biases = fields.boolean({"add_bias_linear", !without});
  if (without && biases) {
    fields.fault("add_bias_linear", "is true, and so is disable_bias_linear", "keep one of them");
  }
  const bool qkv = biases || fields.boolean({"add_qkv_bias"});
  family.qkv_bias = {{}, qkv && !is_latent(family)};
  family.output_bias = family.mlp_bias = {{}, biases};
  family.expert_bias = family.shared_bias = family.router_bias = biases;
  return biases;
}

// The fused kernel of bias and GELU has the tanh form, the plain call the exact one.
std::string_view usual_gelu(ConfigFields& fields, bool biases, bool gated) {
  const bool fused = fields.boolean({"bias_gelu_fusion", true});
  return fields.boolean({"openai_gelu"}) || (fused && (biases || gated)) ? "gelu_new" : "gelu";
}

void decide_activation(ConfigFields& fields, Family& family, bool biases) {
  const bool swiglu = fields.boolean({"swiglu"});
  const bool squared = fields.boolean({"squared_relu"});
  const bool quick = fields.boolean({"quick_geglu"});
  if (int{swiglu} + int{squared} + int{quick} > 1) {
    fields.fault("swiglu|squared_relu|quick_geglu", "two activations are chosen",
                 "at most one of swiglu, squared_relu and quick_geglu");
  }
  family.gated = {{}, swiglu || quick || fields.boolean({"gated_linear_unit"})};
  family.activation.absent = swiglu    ? "silu"
                             : squared ? "squared_relu"
                             : quick   ? "quick_gelu"
                                       : usual_gelu(fields, biases, family.gated.absent);
  if (swiglu || squared || quick) {
    fields.ignore(family.activation.names);
    family.activation.names = {};
  }
  const auto hidden = fields.integer(family.hidden, kHiddenRange);
  if (hidden && !fields.integer(family.width, kWidthRange)) {
    // 4 h, or two thirds of it in whole multiples of 64.
    family.width = {{}, swiglu ? *hidden * 8 / 3 / 64 * 64 : 4 * *hidden};
  }
}

void decide_attention(ConfigFields& fields, Family& family) {
  const auto groups = fields.integer({"num_query_groups"}, kHeadsRange);
  const bool grouped = fields.boolean({"group_query_attention"});
  if (grouped) {
    family.kv_heads = {"num_query_groups", 1};
  } else if (groups && *groups > 1 && !fields.is_set("group_query_attention")) {
    fields.fault("num_query_groups", "without group_query_attention it does nothing",
                 "say whether group_query_attention is true or false");
  }
  if (grouped && is_latent(family)) {
    fields.fault("group_query_attention", "does not go with multi_latent_attention");
  }
  if (const auto window = fields.pair("window_size"); window && !window->empty()) {
    // So many tokens before the query, -1 for all of them.
    if (window->front() >= kTokensRange.most) fields.fault("window_size", "is out of range");
    if (window->front() >= 0) family.window = {{}, window->front() + 1};
  }
  family.output_gate = {{}, fields.boolean({"attention_output_gate"})};
  family.sinks = fields.string({"softmax_type", "vanilla"}) == "learnable";
}

void decide_experts(ConfigFields& fields, Family& family) {
  if (fields.integer(family.experts, {0, kExpertsRange.most}).value_or(0) == 0) {
    family.feed_forward_pattern = {};
  }
  if (!fields.integer(family.shared_width, {0, kWidthRange.most})) family.shared_width = {};
  family.shared_gate = fields.boolean({"moe_shared_expert_gate"});
}

// Every n-th layer, of a number, or the layers that are listed with a 1.
std::vector<std::string> words_of_frequency(const ConfigFields::Frequency& frequency,
                                            std::int64_t layers, bool first_of_n,
                                            std::string_view hit, std::string_view miss) {
  std::vector<std::string> words;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool nth = frequency.number > 0 &&
                     (first_of_n ? i % frequency.number == 0 : (i + 1) % frequency.number == 0);
    const bool listed = frequency.number == 0 && frequency.listed[static_cast<std::size_t>(i)] == 1;
    words.emplace_back(nth || listed ? hit : miss);
  }
  return words;
}

// A number n: every n-th layer has no window and no positions respectively, and every n-th from the
// first has experts. A list: 1 for a window, for no positions, for experts.
void decide_layers(ConfigFields& fields, Family& family) {
  const std::int64_t layers = fields.integer(family.layers, kLayersRange).value_or(1);
  if (const auto skipped = fields.frequency("window_attn_skip_freq", layers)) {
    const bool numbered = skipped->number > 0;
    family.layer_pattern.settled = words_of_frequency(
        *skipped, layers, false, numbered ? "full" : "window", numbered ? "window" : "full");
  }
  if (const auto unturned = fields.frequency("no_rope_freq", layers)) {
    family.rotary_pattern.settled = words_of_frequency(*unturned, layers, false, "none", "rotary");
  }
  if (family.feed_forward_pattern.hit.empty()) return;
  if (const auto sparse = fields.frequency("moe_layer_freq", layers)) {
    family.feed_forward_pattern.settled =
        words_of_frequency(*sparse, layers, true, "experts", "mlp");
  }
}

Json members(std::string_view name, Json value) {
  return Json::object().add(std::string(name), std::move(value));
}

Family decided(const Family& entry, ConfigFields& fields) {
  Family family = entry;
  if (fields.boolean({"multi_latent_attention"})) {
    family.attention = AttentionKind::Latent;
  } else {
    family.value_dim = {};
  }
  decide_vocabulary(fields, family);
  decide_positions(fields, family);
  decide_norms(fields, family);
  decide_activation(fields, family, decide_biases(fields, family));
  decide_attention(fields, family);
  decide_experts(fields, family);
  decide_layers(fields, family);
  family.tied = {{}, !fields.boolean({"untie_embeddings_and_output_weights"})};
  // Arguments of what is switched off do nothing.
  for (const std::string& name : field_names(entry)) fields.ignore(name);
  return family;
}

constexpr const char* kNotModelled = "layers of that kind are not modelled";

constexpr const char* kMegatronIgnored =
    "seq_length|encoder_seq_length|encoder_num_layers|layernorm_epsilon|norm_epsilon|"
    "layernorm_zero_centered_gamma|apply_layernorm_1p|init_method_std|"
    "embedding_init_method_std|init_method_xavier_uniform|rotary_base|rotary_percent|"
    "rotary_interleaved|rotary_seq_len_interpolation_factor|use_rope_scaling|"
    "rope_scaling_factor|rope_type|rotary_scaling_factor|mrope_section|"
    "original_max_position_embeddings|beta_fast|beta_slow|mscale|mscale_all_dim|"
    "cache_mla_latents|mtp_loss_scaling_factor|bias_swiglu_fusion|glu_linear_offset|"
    "activation_func_clamp_value|moe_router_load_balancing_type|moe_aux_loss_coeff|"
    "moe_z_loss_coeff|moe_input_jitter_eps|moe_router_enable_expert_bias|"
    "moe_router_bias_update_rate|moe_router_score_function|moe_router_topk_scaling_factor|"
    "moe_router_pre_softmax|moe_router_num_groups|moe_router_group_topk|moe_router_dtype|"
    "add_position_embedding|max_tokens_to_oom|vocab_extra_ids";

constexpr const char* kDeciding =
    "padded_vocab_size|tokenizer_type|position_embedding_type|"
    "use_rotary_position_embeddings|normalization|qk_layernorm|qk_l2_norm|"
    "add_bias_linear|disable_bias_linear|add_qkv_bias|bias_gelu_fusion|openai_gelu|swiglu|"
    "squared_relu|quick_geglu|gated_linear_unit|group_query_attention|num_query_groups|"
    "multi_latent_attention|window_size|attention_output_gate|softmax_type|"
    "moe_shared_expert_gate|untie_embeddings_and_output_weights|window_attn_skip_freq|"
    "no_rope_freq|moe_layer_freq";

}  // namespace

Family megatron_family() {
  constexpr auto kFault = AssumedField::Otherwise::Fault;
  return {
      .model_type = "megatron",
      .vocabulary = {"vocab_size"},
      .hidden = {"hidden_size"},
      .layers = {"num_layers"},
      .heads = {"num_attention_heads"},
      .kv_heads = {},
      .head_dim = {"kv_channels"},
      .width = {"ffn_hidden_size"},
      .sequence = {"max_position_embeddings"},
      .tied = {{}, true},
      .activation = {"activation_func", "gelu"},
      .feed_forward_pattern = {.names = {}, .letters = {}, .hit = "experts", .miss = "mlp"},
      .types = {{"full", members("window", Json{})},
                {"window", Json::object()},
                {"experts", members("feed_forward", Json::of("experts"))},
                {"mlp", members("feed_forward", Json::of("mlp"))}},
      .dropout_hidden = {"hidden_dropout", 0.1},
      .dropout_attention = {"attention_dropout", 0.1},
      .query_rank = {"q_lora_rank"},
      .kv_rank = {"kv_lora_rank", 32},
      .rope_dim = {"qk_pos_emb_head_dim", 64},
      .nope_dim = {"qk_head_dim", 128},
      .value_dim = {"v_head_dim", 128},
      .experts = {"num_experts|num_moe_experts"},
      .experts_per_token = {"moe_router_topk", 2},
      .expert_width = {"moe_ffn_hidden_size"},
      .shared_width = {"moe_shared_expert_intermediate_size"},
      .mtp_layers = {"mtp_num_layers", 0},
      .style = {.joined_attention = true, .softmax_in_fp32 = false},
      .assumed = {{"make_vocab_size_divisible_by", "128", AssumedField::Otherwise::Note,
                   "the trainer pads; padded_vocab_size says outright what it comes to"},
                  {"is_hybrid_model", "false", kFault, kNotModelled},
                  {"hybrid_override_pattern", "null", kFault, kNotModelled},
                  {"heterogeneous_layers_config_path", "null", kFault, kNotModelled},
                  {"experimental_attention_variant", "null", kFault, kNotModelled},
                  {"linear_attention_freq", "null", kFault, kNotModelled},
                  {"moe_latent_size", "null", kFault, kNotModelled},
                  {"apply_residual_connection_post_layernorm", "false", kFault, kNotModelled}},
      .ignored = kMegatronIgnored,
      .deciding = kDeciding,
      .decided = decided,
  };
}

}  // namespace trainwright::detail

namespace trainwright {

std::vector<std::string> megatron_model_options() {
  std::vector<std::string> options;
  const detail::Family family = detail::megatron_family();
  for (const std::string& name : detail::field_names(family)) {
    std::string option = fmt::format("--{}", name);
    std::replace(option.begin(), option.end(), '_', '-');
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace trainwright
