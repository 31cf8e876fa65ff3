// Families that are another one of the table but for what is stated here (transformers 5.23.0).
#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/model/build.h"
#include "trainwright/model/family_tables.h"

namespace trainwright::detail {
namespace {

using Otherwise = AssumedField::Otherwise;

Family ministral3(Family family) {
  family.vocabulary.absent = 131072;
  family.layers.absent = 34;
  family.head_dim.absent = 128;
  family.sequence.absent = 262144;
  family.window.absent = kNull;
  return family;
}

// The class is Llama's; its config knows the names of InternLM's own code too.
Family internlm3(Family family) {
  family.vocabulary.absent = 128512;
  family.layers.absent = 48;
  family.kv_heads.absent = 2;
  family.head_dim.absent = 128;
  family.width.absent = 10240;
  family.sequence.absent = 32768;
  family.qkv_bias.names = family.output_bias.names = "attention_bias|qkv_bias";
  family.mlp_bias.names = "mlp_bias|bias";
  return family;
}

Family iquestcoder(Family family) {
  family.vocabulary.absent = 76800;
  family.hidden.absent = 5120;
  family.layers.absent = 80;
  family.heads.absent = 40;
  family.kv_heads.absent = 8;
  family.head_dim.absent = 128;
  family.width.absent = 27648;
  family.sequence.absent = 131072;
  family.assumed = {{.names = "use_sliding_window",
                     .assumed = "false",
                     .otherwise = Otherwise::Fault,
                     .why = "the class refuses a window"}};
  return family;
}

Family cwm(Family family) {
  family.vocabulary.absent = 128256;
  family.hidden.absent = 6144;
  family.layers.absent = 64;
  family.heads.absent = 48;
  family.kv_heads.absent = 8;
  family.head_dim.absent = 128;
  family.width.absent = 21504;
  family.sequence.absent = 131072;
  family.qkv_bias = family.output_bias = {};
  family.attention_plan = AttentionPlan::FullFirstOfN;
  family.window = {"sliding_window", 8192};
  family.period = {{}, 4};
  return family;
}

// use_post_norm decides whether there is a norm after each branch too.
Family hyperclovax(Family family) {
  family.deciding = "use_post_norm";
  family.decided = [](const Family& entry, ConfigFields& fields) {
    Family decided = entry;
    const bool after = fields.boolean({"use_post_norm", true});
    decided.norm_plan = after ? NormPlan::Around : NormPlan::Before;
    return decided;
  };
  return family;
}

Family hunyuan_v1_dense(Family family) {
  family.vocabulary.absent = 290943;
  family.mlp_bias = {};
  family.qk_norm = Norm::Rms;
  family.ignored = "eod_token_id";
  return family;
}

Family olmo(Family family) {
  family.vocabulary.absent = 50304;
  family.mlp_bias = {};
  family.norm = Norm::Layer;
  family.norm_affine = {{}, false};
  return family;
}

Family jais2(Family family) {
  family.vocabulary.absent = 150272;
  family.hidden.absent = 3328;
  family.heads.absent = 26;
  family.width.absent = 26624;
  family.sequence.absent = 8192;
  family.qkv_bias.absent = family.output_bias.absent = family.mlp_bias.absent = true;
  return family;
}

// Every layer sees all tokens and has positions; norms of queries and keys if wanted.
Family cohere(Family family) {
  family.attention_plan = AttentionPlan::Full;
  family.window = family.period = {};
  family.rotary_in_window_only = false;
  family.qk_norm = Norm::LayerGain;
  family.qk_norm_per_head = false;  // a gain for each head
  family.qk_norm_on = {"use_qk_norm", false};
  std::erase_if(family.assumed,
                [](const AssumedField& field) { return field.names == "use_qk_norm"; });
  return family;
}

Family vaultgemma(Family family) {
  family.norm_plan = NormPlan::Before;
  return family;
}

// Where every layer is listed the pattern decides nothing; it may then be letters. Without a
// window every layer has positions.
Family exaone4(Family family) {
  family.vocabulary.absent = 102400;
  family.kv_heads.absent = 32;
  family.width.absent = 16384;
  family.qkv_bias = family.output_bias = {};
  family.qk_norm_per_head = true;
  family.rotary_in_window_only = true;
  family.ignored = "sliding_window_pattern";
  family.decided = [](const Family& entry, ConfigFields& fields) {
    Family decided = entry;
    decided.rotary_in_window_only = fields.integer(entry.window, kTokensRange).has_value();
    if (!fields.is_set("layer_types") && decided.rotary_in_window_only) {
      decided.period = {"sliding_window_pattern", 4};
    }
    return decided;
  };
  return family;
}

Family granitemoeshared(Family family) {
  family.shared_width = {"shared_intermediate_size", 0};
  return family;
}

Family minimax_m2(Family family) {
  family.vocabulary.absent = 200064;
  family.hidden.absent = 3072;
  family.layers.absent = 62;
  family.heads.absent = 48;
  family.head_dim.absent = 128;
  family.width.absent = 1536;
  family.sequence.absent = 196608;
  family.attention_plan = AttentionPlan::Full;
  family.window = {};
  family.qk_norm = Norm::Rms;
  family.qk_norm_per_head = false;
  family.experts.absent = 256;
  family.experts_per_token.absent = 8;
  family.assumed = {
      {.names = "use_qk_norm", .assumed = "true", .why = "the class always has these norms"},
      {.names = "sliding_window", .assumed = "null", .why = "the class has no window"},
      {.names = "shared_intermediate_size",
       .assumed = "0",
       .why = "the class has no shared expert"},
      {.names = "num_mtp_modules", .assumed = "0", .why = "the class has no prediction layers"}};
  family.ignored =
      "attn_type_list|layernorm_full_attention_beta|layernorm_linear_attention_beta|"
      "layernorm_mlp_beta|mlp_intermediate_size|mtp_transformer_layers|qk_norm_type|rotary_dim|"
      "scoring_func|shared_moe_mode|use_mtp|use_routing_bias";
  return family;
}

Family solar_open(Family family) {
  family.vocabulary.absent = 196608;
  family.layers.absent = 48;
  family.heads.absent = 64;
  family.head_dim.absent = 128;
  family.width = {"intermediate_size", kNull};  // of dense layers, which there are none of
  family.qk_norm = Norm::None;
  family.qk_norm_on = {{}, true};
  family.expert_plan = ExpertPlan::All;
  family.expert_width.absent = 1280;
  family.expert_first = {};
  family.mtp_layers = {};
  family.assumed = {
      {.names = "first_k_dense_replace",
       .assumed = "0",
       .why = "the class has experts in every layer"},
      {.names = "use_qk_norm", .assumed = "false", .why = "the class has no such norms"},
      {.names = "num_nextn_predict_layers|num_mtp_layers",
       .assumed = "0",
       .why = "the class has no prediction layers"}};
  return family;
}

Family glm4_moe_lite(Family family) {
  family.vocabulary.absent = 154880;
  family.hidden.absent = 2048;
  family.layers.absent = 47;
  family.heads.absent = 20;
  family.kv_heads.absent = 20;
  family.width.absent = 10240;
  family.sequence.absent = 202752;
  family.query_rank.absent = 768;
  family.nope_dim.absent = 192;
  family.value_dim.absent = 256;
  family.expert_plan = ExpertPlan::Typed;
  family.experts.absent = 64;
  family.experts_per_token.absent = 4;
  family.expert_width.absent = 1536;
  family.expert_first = {{}, 1};
  family.mtp_layers.absent = 0;
  family.assumed = {{.names = "first_k_dense_replace",
                     .assumed = "1",
                     .why = "the class goes by mlp_layer_types, and without it has one dense "
                            "layer"}};
  return family;
}

// Qwen3-Next's layers, experts in all or in none; what its config has no word for is not taken.
Family qwen3_5(Family family) {
  family.vocabulary.absent = 248320;
  family.assumed = {
      {.names = "attn_output_gate", .assumed = "true", .why = "the class always has the gate"},
      {.names = "mtp_num_hidden_layers",
       .assumed = "0",
       .why = "the class has no prediction layers"}};
  family.ignored = "mamba_ssm_dtype|mlp_only_layers|mtp_use_dedicated_embeddings";
  return family;
}

Family qwen3_5_text(Family family) {
  family = qwen3_5(std::move(family));
  family.hidden.absent = 4096;
  family.layers.absent = 32;
  family.kv_heads.absent = 4;
  family.width.absent = 12288;
  family.expert_plan = ExpertPlan::None;
  family.experts = family.experts_per_token = family.expert_width = {};
  family.shared_width = family.expert_step = {};
  family.shared_gate = false;
  return family;
}

Family qwen3_5_moe_text(Family family) {
  family = qwen3_5(std::move(family));
  family.layers.absent = 40;
  family.width = {"intermediate_size", kNull};  // of dense layers, which there are none of
  family.expert_plan = ExpertPlan::All;
  family.experts.absent = 256;
  family.experts_per_token.absent = 8;
  family.expert_step = {};
  return family;
}

struct Related {
  std::string_view model_type, made_after;
  Family (*changed)(Family family);
};

constexpr Related kRelated[] = {{"codegen", "gptj", [](Family family) { return family; }},
                                {"cohere", "cohere2", cohere},
                                {"cwm", "llama", cwm},
                                {"exaone4", "olmo3", exaone4},
                                {"glm4_moe_lite", "deepseek_v3", glm4_moe_lite},
                                {"granitemoeshared", "granitemoe", granitemoeshared},
                                {"hunyuan_v1_dense", "llama", hunyuan_v1_dense},
                                {"hyperclovax", "granite", hyperclovax},
                                {"internlm3", "llama", internlm3},
                                {"iquestcoder", "llama", iquestcoder},
                                {"jais2", "nemotron", jais2},
                                {"minimax_m2", "mixtral", minimax_m2},
                                {"ministral3", "mistral", ministral3},
                                {"olmo", "llama", olmo},
                                {"qwen3_5_moe_text", "qwen3_next", qwen3_5_moe_text},
                                {"qwen3_5_text", "qwen3_next", qwen3_5_text},
                                {"solar_open", "glm4_moe", solar_open},
                                {"vaultgemma", "gemma2", vaultgemma}};

}  // namespace

std::vector<Family> related_families(std::span<const Family> others) {
  std::vector<Family> families;
  for (const Related& one : kRelated) {
    const auto found = std::find_if(others.begin(), others.end(), [&](const Family& other) {
      return other.model_type == one.made_after;
    });
    TW_CHECK(found != others.end(), "a family is made after one that is not there");
    Family family = *found;
    family.model_type = one.model_type;
    family.same_as = {};
    families.push_back(one.changed(std::move(family)));
  }
  return families;
}

}  // namespace trainwright::detail
