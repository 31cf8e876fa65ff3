// Families with Mamba-2 layers: beside attention, between attention layers, or as layers that are
// one branch each.
#include <fmt/format.h>

#include "trainwright/model/build.h"
#include "trainwright/model/family_tables.h"

namespace trainwright::detail {
namespace {

// As Bamba and Falcon-H1 name them; the others state what differs.
Family with_mamba(std::string_view model_type) {
  return Family{
      .model_type = model_type,
      .vocabulary = {"vocab_size", 128000},
      .kv_heads = {"num_key_value_heads", 8},
      .width = {"intermediate_size", 14336},
      .qkv_bias = {"attention_bias", false},
      .output_bias = {"attention_bias", false},
      .mlp_bias = {"mlp_bias", false},
      .mamba_heads = {"mamba_n_heads", 128},
      .mamba_head_dim = {"mamba_d_head"},
      .mamba_groups = {"mamba_n_groups", 1},
      .mamba_state = {"mamba_d_state", 256},
      .mamba_convolution = {"mamba_d_conv", 4},
      .mamba_chunk = {"mamba_chunk_size", 256},
      .mamba_expansion = {"mamba_expand", 2},
      .mamba_input_bias = {"mamba_proj_bias", false},
      .mamba_output_bias = {"mamba_proj_bias", false},
      .mamba_convolution_bias = {"mamba_conv_bias", true},
      .ignored = "num_logits_to_keep|time_step_limit|layers_block_type|layer_types",
  };
}

Family bamba() {
  Family family = with_mamba("bamba");
  family.sequence = {"max_position_embeddings", 262144};
  family.attention_plan = AttentionPlan::MambaButListed;
  family.ignored =
      "num_logits_to_keep|time_step_limit|layers_block_type|layer_types|z_loss_coefficient";
  return family;
}

Family falcon_h1() {
  Family family = with_mamba("falcon_h1");
  family.sequence = {"max_position_embeddings", 8192};
  family.attention_plan = AttentionPlan::MambaBeside;
  family.mamba_width = {"mamba_d_ssm", 1024};
  family.mamba_output_bias = {"projectors_bias", false};
  family.mamba_norm_on = {"mamba_rms_norm", false};
  family.assumed = {{.names = "mamba_use_mlp",
                     .assumed = "true",
                     .why = "the class has a feed-forward in every layer"}};
  family.ignored =
      "num_logits_to_keep|time_step_limit|layers_block_type|layer_types|mamba_norm_before_gate|"
      "attn_layer_indices|lm_head_multiplier|embedding_multiplier|mlp_multipliers|key_multiplier|"
      "attention_out_multiplier|attention_in_multiplier|ssm_multipliers|ssm_in_multiplier|"
      "ssm_out_multiplier|attn_rotary_emb|time_step_floor|time_step_max|time_step_min|"
      "time_step_rank|mlp_expansion_factor|rope_traditional";
  return family;
}

// The list of layers says how many there are.
Family counted(const Family& entry, ConfigFields& fields) {
  Family family = entry;
  const auto count = static_cast<std::int64_t>(read_hybrid_layers(fields).size());
  const auto said = fields.integer(entry.layers, kLayersRange);
  if (said && *said != count && count > 0) {
    fields.fault(entry.layers.names, fmt::format("is {}, but {} layers are listed", *said, count));
  }
  family.layers = {{}, count};
  return family;
}

Family nemotron_h() {
  return Family{
      .model_type = "nemotron_h",
      .vocabulary = {"vocab_size", 131072},
      .layers = {"num_hidden_layers"},
      .kv_heads = {"num_key_value_heads", 8},
      .head_dim = {"head_dim|attention_head_dim", 128},
      .width = {"intermediate_size", 21504},
      .sequence = {"max_position_embeddings", 4096},
      .tied = {},
      .activation = {"mlp_hidden_act", "relu2"},
      .gated = false,
      .positions = Positions::None,
      .mlp_bias = {"mlp_bias", false},
      .attention_plan = AttentionPlan::Pattern,
      .mamba_heads = {"mamba_num_heads", 128},
      .mamba_head_dim = {"mamba_head_dim", 64},
      .mamba_groups = {"n_groups|mamba_n_groups", 8},
      .mamba_state = {"ssm_state_size", 128},
      .mamba_convolution = {"conv_kernel|mamba_d_conv", 4},
      .mamba_chunk = {"chunk_size|mamba_chunk_size", 128},
      .mamba_input_bias = {"use_bias", false},
      .mamba_output_bias = {"use_bias", false},
      .mamba_convolution_bias = {"use_conv_bias|mamba_conv_bias", true},
      .expert_plan = ExpertPlan::Pattern,
      .experts = {"n_routed_experts|num_local_experts", 8},
      .experts_per_token = {"num_experts_per_tok", 2},
      .expert_width = {"moe_intermediate_size", 7688},
      .expert_latent = {"moe_latent_size"},
      .shared_width = {"moe_shared_expert_intermediate_size", 7688},
      .shared_bias = true,
      .mtp_layers = {"num_nextn_predict_layers", 0},
      .assumed = {{.names = "tie_word_embeddings",
                   .assumed = "false",
                   .why = "the class has a head of its own"},
                  {.names = "attention_bias",
                   .assumed = "false",
                   .why = "the class has no biases in attention"}},
      .ignored =
          "expand|mamba_expand|mamba_hidden_act|mamba_proj_bias|mamba_ssm_cache_dtype|"
          "mamba_dt_min|mamba_dt_max|mamba_dt_limit|mamba_dt_init_floor|time_step_min|"
          "time_step_max|time_step_limit|time_step_floor|time_step_rank|use_mamba_kernels|"
          "num_logits_to_keep|residual_in_fp32|rescale_prenorm_residual|hidden_dropout|"
          "sliding_window|n_group|topk_group|n_shared_experts|moe_shared_expert_overlap|"
          "mtp_layers_block_type|mtp_hybrid_override_pattern|mlp_hidden_act|is_causal",
      .decided = counted,
  };
}

}  // namespace

std::vector<Family> hybrid_families() { return {bamba(), falcon_h1(), nemotron_h()}; }

}  // namespace trainwright::detail
