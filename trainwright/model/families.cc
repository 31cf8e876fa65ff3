#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/model/family_tables.h"

namespace trainwright::detail {
namespace {

std::vector<Family> sorted_families() {
  std::vector<Family> all = dense_families();
  for (Family& family : classic_families()) all.push_back(std::move(family));
  for (Family& family : expert_families()) all.push_back(std::move(family));
  for (Family& family : hybrid_families()) all.push_back(std::move(family));
  for (Family& family : related_families(all)) all.push_back(std::move(family));
  all.push_back(megatron_family());
  std::sort(all.begin(), all.end(),
            [](const Family& a, const Family& b) { return a.model_type < b.model_type; });
  return all;
}

// What config.json files carry that has no bearing on any shape or count: token ids, numerics of
// norms and rotary embeddings, initialisation, loss coefficients, generation, provenance.
constexpr std::string_view kIgnored[] = {"_attn_implementation",
                                         "_attn_implementation_autoset",
                                         "_attn_implementation_internal",
                                         "_commit_hash",
                                         "_experts_implementation",
                                         "_flash_attn_2_enabled",
                                         "_name_or_path",
                                         "architectures",
                                         "attention_multiplier",
                                         "auto_map",
                                         "aux_loss_alpha",
                                         "bad_words_ids",
                                         "begin_suppress_tokens",
                                         "boi_token_id",
                                         "boi_token_index",
                                         "bos_token",
                                         "bos_token_id",
                                         "cache_implementation",
                                         "chunk_size_feed_forward",
                                         "clip_qkv",
                                         "cross_attention_hidden_size",
                                         "decoder_start_token_id",
                                         "diversity_penalty",
                                         "do_sample",
                                         "dtype",
                                         "early_stopping",
                                         "emb_pdrop",
                                         "embd_pdrop",
                                         "embedding_dropout",
                                         "embedding_multiplier",
                                         "encoder_no_repeat_ngram_size",
                                         "eoi_token_id",
                                         "eoi_token_index",
                                         "eos_token",
                                         "eos_token_id",
                                         "exponential_decay_length_penalty",
                                         "finetuning_task",
                                         "forced_bos_token_id",
                                         "forced_eos_token_id",
                                         "id2label",
                                         "image_token_id",
                                         "image_token_index",
                                         "init_device",
                                         "initializer_factor",
                                         "initializer_range",
                                         "is_decoder",
                                         "is_encoder_decoder",
                                         "keys_to_ignore_at_inference",
                                         "label2id",
                                         "layer_norm_eps",
                                         "layer_norm_epsilon",
                                         "length_penalty",
                                         "logit_scale",
                                         "logits_scaling",
                                         "max_length",
                                         "min_length",
                                         "mm_tokens_per_image",
                                         "model_type",
                                         "no_repeat_ngram_size",
                                         "norm_eps",
                                         "norm_epsilon",
                                         "norm_topk_prob",
                                         "num_beam_groups",
                                         "num_beams",
                                         "num_return_sequences",
                                         "output_attentions",
                                         "output_hidden_states",
                                         "output_router_logits",
                                         "output_scores",
                                         "pad_token",
                                         "pad_token_id",
                                         "partial_rotary_factor",
                                         "prefix",
                                         "pretraining_tp",
                                         "problem_type",
                                         "pruned_heads",
                                         "query_pre_attn_scalar",
                                         "remove_invalid_values",
                                         "repetition_penalty",
                                         "residual_multiplier",
                                         "return_dict",
                                         "return_dict_in_generate",
                                         "rms_norm_eps",
                                         "rope_interleave",
                                         "rope_parameters",
                                         "rope_scaling",
                                         "rope_theta",
                                         "rope_type",
                                         "rotary_emb_base",
                                         "rotary_pct",
                                         "routed_scaling_factor",
                                         "router_aux_loss_coef",
                                         "router_jitter_noise",
                                         "router_z_loss_coef",
                                         "sep_token_id",
                                         "suppress_tokens",
                                         "task_specific_params",
                                         "temperature",
                                         "tf_legacy_loss",
                                         "tokenizer_class",
                                         "top_k",
                                         "top_p",
                                         "torch_dtype",
                                         "torchscript",
                                         "transformers.js_config",
                                         "transformers_version",
                                         "typical_p",
                                         "unk_token_id",
                                         "unsloth_fixed",
                                         "unsloth_version",
                                         "use_bfloat16",
                                         "use_cache",
                                         "use_flash_attn",
                                         "use_mrope"};

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> table = sorted_families();
  return table;
}

const Family* find_family(std::string_view model_type) {
  for (const Family& family : families()) {
    if (family.model_type == model_type) return &family;
    for (std::string_view other : split(family.same_as, '|')) {
      if (!other.empty() && other == model_type) return &family;
    }
  }
  return nullptr;
}

std::string_view plan_fields(NormPlan plan) {
  switch (plan) {
    case NormPlan::Before:
    case NormPlan::After:
    case NormPlan::Around:
    case NormPlan::SharedParallel: return {};
    case NormPlan::NeoX: return "use_parallel_residual";
    case NormPlan::Falcon: return "parallel_attn|num_ln_in_parallel_attn|new_decoder_architecture";
    case NormPlan::Opt: return "do_layer_norm_before";
  }
  return {};
}

std::string_view plan_fields(KvPlan plan) {
  switch (plan) {
    case KvPlan::Field: return {};
    case KvPlan::Falcon: return "multi_query|new_decoder_architecture";
  }
  return {};
}

std::string_view plan_fields(AttentionPlan plan) {
  switch (plan) {
    case AttentionPlan::Full:
    case AttentionPlan::Window: return {};
    case AttentionPlan::WindowFromLayer:
    case AttentionPlan::WindowOddBelow:
    case AttentionPlan::FullEveryNth:
    case AttentionPlan::FullFirstOfN:
    case AttentionPlan::LinearButNth:
    case AttentionPlan::LinearOdd: return "layer_types";
    case AttentionPlan::NoRotaryNth:
    case AttentionPlan::ChunkedNth: return "layer_types|no_rope_layers";
    case AttentionPlan::Listed: return "window_attn_skip_freq|no_rope_freq";
    case AttentionPlan::MambaBeside: return {};
    case AttentionPlan::MambaButListed: return "attn_layer_indices";
    case AttentionPlan::Pattern: return "layers_block_type|layer_types|hybrid_override_pattern";
  }
  return {};
}

std::string_view plan_fields(ExpertPlan plan) {
  switch (plan) {
    case ExpertPlan::None:
    case ExpertPlan::All:
    case ExpertPlan::AfterFirst:
    case ExpertPlan::Pattern:
    case ExpertPlan::Range: return {};
    case ExpertPlan::SparseStep: return "mlp_only_layers";
    case ExpertPlan::Interleaved: return "moe_layers";
    case ExpertPlan::Listed: return "moe_layer_freq";
    case ExpertPlan::Typed: return "mlp_layer_types";
  }
  return {};
}

bool is_ignored_field(std::string_view name) {
  return std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
}

std::vector<std::string_view> field_names(const Family& f) {
  std::vector<std::string_view> names = {f.vocabulary.names,
                                         f.hidden.names,
                                         f.layers.names,
                                         f.heads.names,
                                         f.kv_heads.names,
                                         f.head_dim.names,
                                         f.width.names,
                                         f.sequence.names,
                                         f.tied.names,
                                         f.head_bias.names,
                                         f.activation.names,
                                         f.alibi.names,
                                         f.embedding_width.names,
                                         f.norm_affine.names,
                                         f.final_norm_removed.names,
                                         f.qkv_bias.names,
                                         f.output_bias.names,
                                         f.mlp_bias.names,
                                         f.qk_norm_on.names,
                                         f.attention_softcap,
                                         f.logit_softcap,
                                         f.dropout_hidden.names,
                                         f.dropout_attention.names,
                                         f.window.names,
                                         f.window_on.names,
                                         f.window_layers.names,
                                         f.period.names,
                                         f.query_rank.names,
                                         f.kv_rank.names,
                                         f.rope_dim.names,
                                         f.nope_dim.names,
                                         f.value_dim.names,
                                         f.delta_key_heads.names,
                                         f.delta_value_heads.names,
                                         f.delta_key_dim.names,
                                         f.delta_value_dim.names,
                                         f.delta_convolution.names,
                                         f.lightning_block.names,
                                         f.mamba_heads.names,
                                         f.mamba_head_dim.names,
                                         f.mamba_groups.names,
                                         f.mamba_state.names,
                                         f.mamba_convolution.names,
                                         f.mamba_chunk.names,
                                         f.mamba_width.names,
                                         f.mamba_expansion.names,
                                         f.mamba_input_bias.names,
                                         f.mamba_output_bias.names,
                                         f.mamba_convolution_bias.names,
                                         f.mamba_norm_on.names,
                                         f.experts.names,
                                         f.experts_per_token.names,
                                         f.expert_width.names,
                                         f.expert_latent.names,
                                         f.dense_width.names,
                                         f.shared_experts.names,
                                         f.shared_width.names,
                                         f.expert_first.names,
                                         f.expert_last.names,
                                         f.expert_step.names,
                                         f.mtp_layers.names,
                                         f.deciding,
                                         plan_fields(f.norm_plan),
                                         plan_fields(f.kv_plan),
                                         plan_fields(f.attention_plan),
                                         plan_fields(f.expert_plan)};
  std::vector<std::string_view> result;
  for (std::string_view alternatives : names) {
    for (std::string_view name : split(alternatives, '|')) {
      if (!name.empty()) result.push_back(name);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace trainwright::detail
