// Families with experts, latent attention or linear attention.
#include "trainwright/model/family_tables.h"

namespace trainwright::detail {
namespace {

Family mixtral() {
  return Family{
      .model_type = "mixtral",
      .kv_heads = {"num_key_value_heads", 8},
      .width = {"intermediate_size", 14336},
      .sequence = {"max_position_embeddings", 131072},
      .attention_plan = AttentionPlan::Window,
      .window = {"sliding_window", kNull},
      .expert_plan = ExpertPlan::All,
      .experts = {"num_local_experts|num_experts", 8},
      .experts_per_token = {"num_experts_per_tok", 2},
  };
}

Family minimax() {
  Family family = mixtral();
  family.model_type = "minimax";
  family.attention_plan = AttentionPlan::LinearOdd;
  family.lightning_block = {"block_size", 256};
  family.ignored =
      "full_attn_alpha_factor|full_attn_beta_factor|linear_attn_alpha_factor|"
      "linear_attn_beta_factor|mlp_alpha_factor|mlp_beta_factor";
  return family;
}

Family deepseek_v2() {
  return Family{
      .model_type = "deepseek_v2",
      .vocabulary = {"vocab_size", 102400},
      .head_dim = {},
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .mlp_bias = {"mlp_bias", false},
      .latent = true,
      .query_rank = {"q_lora_rank", 1536},
      .kv_rank = {"kv_lora_rank", 512},
      .rope_dim = {"qk_rope_head_dim", 64},
      .nope_dim = {"qk_nope_head_dim", 128},
      .value_dim = {"v_head_dim", 128},
      .expert_plan = ExpertPlan::AfterFirst,
      .experts = {"n_routed_experts|num_experts|num_local_experts", 64},
      .experts_per_token = {"num_experts_per_tok", kNull},
      .expert_width = {"moe_intermediate_size", 1407},
      .shared_experts = {"n_shared_experts", 2},
      .expert_first = {"first_k_dense_replace", 0},
      .shared_bias = true,
      .assumed = {{.names = "moe_layer_freq",
                   .assumed = "1",
                   .why = "the class has experts in every layer after the first dense ones"}},
      .ignored =
          "head_dim|qk_head_dim|n_group|topk_group|topk_method|scoring_func|seq_aux|"
          "aux_loss_alpha|ep_size|routed_scaling_factor",
  };
}

Family deepseek_v3() {
  Family family = deepseek_v2();
  family.model_type = "deepseek_v3";
  family.same_as = "kimi_k2";
  family.vocabulary.absent = 129280;
  family.hidden.absent = 7168;
  family.width.absent = 18432;
  family.layers.absent = 61;
  family.heads.absent = 128;
  family.kv_heads.absent = 128;
  family.sequence.absent = 4096;
  family.mlp_bias = {};
  family.experts.absent = 256;
  family.experts_per_token.absent = 8;
  family.expert_width.absent = 2048;
  family.shared_experts.absent = 1;
  family.expert_first.absent = 3;
  family.mtp_layers = {"num_nextn_predict_layers|num_mtp_layers", 1};
  return family;
}

Family qwen2_moe() {
  return Family{
      .model_type = "qwen2_moe",
      .vocabulary = {"vocab_size", 151936},
      .hidden = {"hidden_size", 2048},
      .layers = {"num_hidden_layers", 24},
      .heads = {"num_attention_heads", 16},
      .kv_heads = {"num_key_value_heads", 16},
      .width = {"intermediate_size", 5632},
      .sequence = {"max_position_embeddings", 32768},
      .qkv_bias = {"qkv_bias", true},
      .attention_plan = AttentionPlan::WindowOddBelow,
      .window = {"sliding_window", 4096},
      .window_on = {"use_sliding_window", false},
      .window_layers = {"max_window_layers", 28},
      .expert_plan = ExpertPlan::SparseStep,
      .experts = {"num_experts|num_local_experts", 60},
      .experts_per_token = {"num_experts_per_tok", 4},
      .expert_width = {"moe_intermediate_size", 1408},
      .shared_width = {"shared_expert_intermediate_size", 5632},
      .expert_step = {"decoder_sparse_step", 1},
      .shared_gate = true,
  };
}

Family qwen3_moe() {
  return Family{
      .model_type = "qwen3_moe",
      .same_as = "qwen3_vl_moe_text",
      .vocabulary = {"vocab_size", 151936},
      .hidden = {"hidden_size", 2048},
      .layers = {"num_hidden_layers", 24},
      .kv_heads = {"num_key_value_heads", 4},
      .width = {"intermediate_size", 6144},
      .sequence = {"max_position_embeddings", 32768},
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .qk_norm = Norm::Rms,
      .attention_plan = AttentionPlan::Window,
      .window = {"sliding_window", 4096},
      .window_on = {"use_sliding_window", false},
      .expert_plan = ExpertPlan::SparseStep,
      .experts = {"num_experts|num_local_experts", 128},
      .experts_per_token = {"num_experts_per_tok", 8},
      .expert_width = {"moe_intermediate_size", 768},
      .expert_step = {"decoder_sparse_step", 1},
      .ignored = "max_window_layers",
  };
}

Family qwen3_next() {
  Family family = qwen3_moe();
  family.model_type = "qwen3_next";
  family.layers.absent = 48;
  family.heads.absent = 16;
  family.kv_heads.absent = 2;
  family.head_dim.absent = 256;
  family.width.absent = 5632;
  family.output_gate = true;
  family.attention_plan = AttentionPlan::LinearButNth;
  family.window = {};
  family.window_on = {{}, true};
  family.period = {"full_attention_interval", 4};
  family.delta_key_heads = {"linear_num_key_heads", 16};
  family.delta_value_heads = {"linear_num_value_heads", 32};
  family.delta_key_dim = {"linear_key_head_dim", 128};
  family.delta_value_dim = {"linear_value_head_dim", 128};
  family.delta_convolution = {"linear_conv_kernel_dim", 4};
  family.experts.absent = 512;
  family.experts_per_token.absent = 10;
  family.expert_width.absent = 512;
  family.shared_width = {"shared_expert_intermediate_size", 512};
  family.shared_gate = true;
  family.assumed = {
      {.names = "use_sliding_window", .assumed = "false", .why = "the class has no window"}};
  return family;
}

Family llama4_text() {
  return Family{
      .model_type = "llama4_text",
      .vocabulary = {"vocab_size", 202048},
      .hidden = {"hidden_size", 5120},
      .layers = {"num_hidden_layers", 48},
      .heads = {"num_attention_heads", 40},
      .kv_heads = {"num_key_value_heads", 8},
      .head_dim = {"head_dim", 128},
      .width = {"intermediate_size", 8192},
      .sequence = {"max_position_embeddings", 131072},
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .qk_norm = Norm::RmsFixed,
      .qk_norm_on = {"use_qk_norm", true},
      .qk_norm_rotary_only = true,
      .attention_plan = AttentionPlan::ChunkedNth,
      .window = {"attention_chunk_size", 8192},
      .period = {"no_rope_layer_interval", 4},
      .expert_plan = ExpertPlan::Interleaved,
      .experts = {"num_local_experts|num_experts", 16},
      .experts_per_token = {"num_experts_per_tok", 1},
      .dense_width = {"intermediate_size_mlp", 16384},
      .shared_experts = {{}, 1},
      .expert_step = {"interleave_moe_layer_step", 1},
      .ignored = "attn_temperature_tuning|floor_scale|attn_scale|for_llm_compressor",
  };
}

Family glm4_moe() {
  return Family{
      .model_type = "glm4_moe",
      .vocabulary = {"vocab_size", 151552},
      .layers = {"num_hidden_layers", 46},
      .heads = {"num_attention_heads", 96},
      .kv_heads = {"num_key_value_heads", 8},
      .width = {"intermediate_size", 10944},
      .sequence = {"max_position_embeddings", 131072},
      .qkv_bias = {"attention_bias", false},
      .qk_norm = Norm::Rms,
      .qk_norm_on = {"use_qk_norm", false},
      .expert_plan = ExpertPlan::AfterFirst,
      .experts = {"n_routed_experts|num_experts|num_local_experts", 128},
      .experts_per_token = {"num_experts_per_tok", 8},
      .expert_width = {"moe_intermediate_size", 1408},
      .shared_experts = {"n_shared_experts", 1},
      .expert_first = {"first_k_dense_replace", 1},
      .mtp_layers = {"num_nextn_predict_layers|num_mtp_layers", 1},
      .ignored = "n_group|topk_group|routed_scaling_factor",
  };
}

Family gpt_oss() {
  return Family{
      .model_type = "gpt_oss",
      .vocabulary = {"vocab_size", 201088},
      .hidden = {"hidden_size", 2880},
      .layers = {"num_hidden_layers", 36},
      .heads = {"num_attention_heads", 64},
      .kv_heads = {"num_key_value_heads", 8},
      .head_dim = {"head_dim", 64},
      .width = {"intermediate_size", 2880},
      .sequence = {"max_position_embeddings", 131072},
      .qkv_bias = {"attention_bias", true},
      .output_bias = {"attention_bias", true},
      .sinks = true,
      .attention_plan = AttentionPlan::FullEveryNth,
      .window = {"sliding_window", 128},
      .period = {{}, 2},
      .expert_plan = ExpertPlan::All,
      .experts = {"num_local_experts|num_experts", 128},
      .experts_per_token = {"num_experts_per_tok|experts_per_token", 4},
      .expert_bias = true,
      .router_bias = true,
      .ignored = "swiglu_alpha|swiglu_limit|initial_context_length",
  };
}

Family dbrx() {
  return Family{
      .model_type = "dbrx",
      .hidden = {"d_model|hidden_size", 2048},
      .layers = {"n_layers|num_hidden_layers", 24},
      .heads = {"n_heads|num_attention_heads", 16},
      .kv_heads = {"attn_config.kv_n_heads|num_key_value_heads", 1},
      .head_dim = {},
      .width = {"ffn_config.ffn_hidden_size", 3584},
      .sequence = {"max_seq_len|max_position_embeddings", 2048},
      .activation = {"ffn_config.ffn_act_fn.name", "silu"},
      .norm = Norm::LayerGain,
      .dropout_hidden = {"resid_pdrop"},
      .dropout_attention = {"attn_config.attn_pdrop"},
      .expert_plan = ExpertPlan::All,
      .experts = {"ffn_config.moe_num_experts", 4},
      .experts_per_token = {"ffn_config.moe_top_k", 1},
      .assumed = {{.names = "tie_word_embeddings",
                   .assumed = "false",
                   .otherwise = AssumedField::Otherwise::Fault,
                   .why = "the class refuses a tied head"}},
      .ignored =
          "attn_config.clip_qkv|attn_config.rope_theta|attn_config.model_type|"
          "ffn_config.moe_jitter_eps|ffn_config.moe_loss_weight|ffn_config.hidden_size|"
          "ffn_config.moe_normalize_expert_weights|ffn_config.moe_weight_precision|"
          "ffn_config.uniform_expert_assignment|ffn_config.model_type",
  };
}

Family ernie4_5_moe() {
  return Family{
      .model_type = "ernie4_5_moe",
      .vocabulary = {"vocab_size", 103424},
      .hidden = {"hidden_size", 2560},
      .layers = {"num_hidden_layers", 28},
      .heads = {"num_attention_heads", 20},
      .kv_heads = {"num_key_value_heads", 4},
      .width = {"intermediate_size", 12288},
      .sequence = {"max_position_embeddings", 131072},
      .tied = {"tie_word_embeddings", true},
      .head_bias = {"use_bias", false},
      .qkv_bias = {"use_bias", false},
      .output_bias = {"use_bias", false},
      .mlp_bias = {"use_bias", false},
      .expert_plan = ExpertPlan::Range,
      .experts = {"moe_num_experts|num_experts|num_local_experts", 64},
      .experts_per_token = {"moe_k|num_experts_per_tok", 6},
      .expert_width = {"moe_intermediate_size", 1536},
      .shared_experts = {"moe_num_shared_experts", 2},
      .expert_first = {"moe_layer_start_index", 1},
      .expert_last = {"moe_layer_end_index", -1},
      .expert_step = {"moe_layer_interval", 1},
      .shared_bias = true,
      .score_correction_trained = true,
      .mtp_layers = {"num_nextn_predict_layers", 0},
      .ignored =
          "moe_norm_min|moe_capacity|moe_gate|moe_use_aux_free|compression_ratio|"
          "hidden_dropout_prob|moe_dropout_prob|use_rmsnorm|multi_token_pred_lambda",
  };
}

}  // namespace

std::vector<Family> expert_families() {
  Family granitemoe{
      .model_type = "granitemoe",
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .expert_plan = ExpertPlan::All,
      .experts = {"num_local_experts|num_experts", 8},
      .experts_per_token = {"num_experts_per_tok", 2},
  };
  Family phimoe{
      .model_type = "phimoe",
      .vocabulary = {"vocab_size", 32064},
      .kv_heads = {"num_key_value_heads", 8},
      .width = {"intermediate_size", 6400},
      .sequence = {"max_position_embeddings", 131072},
      .head_bias = {"lm_head_bias", false},
      .norm = Norm::Layer,
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .attention_plan = AttentionPlan::Window,
      .window = {"sliding_window", kNull},
      .expert_plan = ExpertPlan::All,
      .experts = {"num_local_experts|num_experts", 16},
      .experts_per_token = {{}, 2},
      .assumed = {{.names = "num_experts_per_tok",
                   .assumed = "2",
                   .why = "the class always chooses two experts"}},
      .ignored = "input_jitter_noise|hidden_dropout|original_max_position_embeddings",
  };
  Family olmoe{
      .model_type = "olmoe",
      .vocabulary = {"vocab_size", 50304},
      .hidden = {"hidden_size", 2048},
      .layers = {"num_hidden_layers", 16},
      .heads = {"num_attention_heads", 16},
      .width = {"intermediate_size", 2048},
      .sequence = {"max_position_embeddings", 4096},
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .qk_norm = Norm::Rms,
      .qk_norm_per_head = false,
      .expert_plan = ExpertPlan::All,
      .experts = {"num_experts|num_local_experts", 64},
      .experts_per_token = {"num_experts_per_tok", 8},
  };
  return {mixtral(),   minimax(),      deepseek_v2(),         deepseek_v3(),    qwen2_moe(),
          qwen3_moe(), qwen3_next(),   llama4_text(),         glm4_moe(),       gpt_oss(),
          dbrx(),      ernie4_5_moe(), std::move(granitemoe), std::move(olmoe), std::move(phimoe)};
}

}  // namespace trainwright::detail
