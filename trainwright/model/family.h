#pragma once
// Private: a family of models as a table entry.
//
// An entry says how the family's config.json names things, what the Hugging Face class takes for an
// absent field (transformers 5.23.0), and what the class builds from them. The defaults written
// here are Llama's; an entry states what differs. Adding a family means adding an entry.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainwright/model/model.h"

namespace trainwright::detail {

class ConfigFields;  // config_fields.h

constexpr std::int64_t kNull = INT64_MIN;  // the class default is None: absent, or derived

// A field of config.json: its names, the preferred first ("n_embd|hidden_size"), with a dot where
// it is nested ("attn_config.kv_n_heads"), and what the class takes when it is absent. A field
// without a name cannot be set.
struct IntegerField {
  std::string_view names;
  std::int64_t absent = kNull;
};
struct BoolField {
  std::string_view names;
  bool absent = false;
};
struct StringField {
  std::string_view names;
  std::string_view absent;
};
struct ProbabilityField {
  std::string_view names;
  double absent = 0;
};
// A field that the class does not act upon, or acts upon in ways that are not modelled.
struct AssumedField {
  enum class Otherwise { Note, Fault };
  std::string_view names;
  std::string_view assumed;  // as JSON text: "false", "4", "multihead_attention"
  Otherwise otherwise = Otherwise::Note;
  std::string_view why;
};

enum class NormPlan {
  Before,          // one before each branch
  After,           // one after each branch, inside the residual (OLMo 2)
  Around,          // before and after each branch (Gemma 2, GLM-4)
  SharedParallel,  // one norm feeds both branches (GPT-J, Command R)
  NeoX,            // two norms; use_parallel_residual tells whether the branches are parallel
  Falcon,          // parallel_attn, num_ln_in_parallel_attn, new_decoder_architecture
  Opt,             // do_layer_norm_before
};

// Which layers have which attention when there is no layer_types list.
enum class AttentionPlan {
  Full,
  Window,           // every layer, if there is a window
  WindowFromLayer,  // layers >= max_window_layers, if use_sliding_window (Qwen2)
  WindowOddBelow,   // every other layer below max_window_layers (Qwen2-MoE)
  FullEveryNth,     // every n-th layer is full, the others have the window (Gemma, gpt-oss)
  FullFirstOfN,     // of every n layers the first is full (CWM)
  NoRotaryNth,      // every n-th layer has no positions (SmolLM3)
  ChunkedNth,       // as above, and the others attend within chunks (Llama 4)
  LinearButNth,     // every n-th layer is full, the others Gated DeltaNet (Qwen3-Next)
  LinearOdd,        // every other layer is lightning attention (MiniMax)
  Listed,           // window_attn_skip_freq and no_rope_freq, numbers or patterns (Megatron-LM)
  MambaButListed,   // those of attn_layer_indices are attention, the others Mamba-2 (Bamba)
  MambaBeside,      // Mamba-2 beside attention in every layer (Falcon-H1)
  Pattern,          // each layer is one branch: Mamba-2, attention or feed-forward (Nemotron-H)
};

enum class ExpertPlan {
  None,
  All,          // every layer
  AfterFirst,   // all but the first first_k_dense_replace (DeepSeek)
  SparseStep,   // every decoder_sparse_step-th, mlp_only_layers excepted (Qwen)
  Interleaved,  // moe_layers, or every interleave_moe_layer_step-th (Llama 4)
  Range,        // every moe_layer_interval-th from start to end (ERNIE)
  Listed,       // moe_layer_freq, a number or a pattern (Megatron-LM)
  Typed,        // mlp_layer_types, dense or sparse; without it as AfterFirst (GLM-4.7-Flash)
  Pattern,      // as the attention plan of that name says (Nemotron-H)
};

enum class KvPlan { Field, Falcon };  // Falcon: multi_query and new_decoder_architecture decide

struct Family {
  std::string_view model_type;
  std::string_view same_as = {};  // other model_types with the same config, '|' between

  IntegerField vocabulary{"vocab_size", 32000};
  IntegerField hidden{"hidden_size", 4096};
  IntegerField layers{"num_hidden_layers", 32};
  IntegerField heads{"num_attention_heads", 32};
  IntegerField kv_heads{"num_key_value_heads", kNull};  // null: as many as heads
  IntegerField head_dim{"head_dim", kNull};             // null: hidden / heads
  IntegerField width{"intermediate_size", 11008};       // null: 4 x hidden
  IntegerField sequence{"max_position_embeddings", 2048};
  BoolField tied{"tie_word_embeddings", false};
  BoolField head_bias{};
  StringField activation{"hidden_act", "silu"};
  bool gated = true;

  Positions positions = Positions::Rotary;
  BoolField alibi{};                 // alibi instead, if set
  std::int64_t positions_extra = 0;  // rows of the table beyond the sequence
  IntegerField embedding_width{};    // null: hidden
  Norm embedding_norm = Norm::None;

  Norm norm = Norm::Rms;
  BoolField norm_affine{{}, true};  // false: a LayerNorm without trained numbers
  NormPlan norm_plan = NormPlan::Before;
  BoolField final_norm_removed{};

  KvPlan kv_plan = KvPlan::Field;
  BoolField qkv_bias{};
  BoolField output_bias{};
  BoolField mlp_bias{};
  Norm qk_norm = Norm::None;
  bool qk_norm_per_head = true;
  BoolField qk_norm_on{{}, true};
  bool qk_norm_rotary_only = false;  // layers without positions have none (Llama 4)
  bool output_gate = false;
  bool sinks = false;
  std::string_view attention_softcap = {};  // names of the fields; any number but null is on
  std::string_view logit_softcap = {};
  ProbabilityField dropout_hidden{};
  ProbabilityField dropout_attention{"attention_dropout"};

  AttentionPlan attention_plan = AttentionPlan::Full;
  IntegerField window{};
  BoolField window_on{{}, true};
  IntegerField window_layers{};  // max_window_layers
  IntegerField period{};         // the n of the plans above
  bool rotary_in_window_only = false;

  bool latent = false;
  IntegerField query_rank{}, kv_rank{}, rope_dim{}, nope_dim{}, value_dim{};
  Norm latent_norm = Norm::Rms;

  IntegerField delta_key_heads{}, delta_value_heads{}, delta_key_dim{}, delta_value_dim{},
      delta_convolution{};
  IntegerField lightning_block{};

  IntegerField mamba_heads{}, mamba_head_dim{}, mamba_groups{}, mamba_state{}, mamba_convolution{},
      mamba_chunk{};
  IntegerField mamba_width{}, mamba_expansion{};  // of all heads; null: hidden x expansion
  BoolField mamba_input_bias{}, mamba_output_bias{}, mamba_convolution_bias{},
      mamba_norm_on{{}, true};

  ExpertPlan expert_plan = ExpertPlan::None;
  IntegerField experts{}, experts_per_token{};
  IntegerField expert_width{};    // null: the family's width
  IntegerField expert_latent{};   // null: experts work on the hidden size
  IntegerField dense_width{};     // of layers without experts; null: the family's width
  IntegerField shared_experts{};  // that many, each as wide as an expert
  IntegerField shared_width{};    // or the width itself
  IntegerField expert_first{}, expert_last{}, expert_step{};  // of the plan
  bool shared_bias = false;  // the shared experts have the biases of a plain Mlp
  bool expert_bias = false;
  bool shared_gate = false;
  bool router_bias = false;
  bool score_correction_trained = false;
  IntegerField mtp_layers{};

  std::vector<AssumedField> assumed = {};
  std::string_view ignored = {};  // further names that do not matter here, '|' between

  // Where fields of the config decide what the entry says: their names, and the entry they make.
  std::string_view deciding = {};
  Family (*decided)(const Family& family, ConfigFields& fields) = nullptr;
};

std::span<const Family> families();                      // sorted by model_type
const Family* find_family(std::string_view model_type);  // same_as included
bool is_ignored_field(std::string_view name);            // does not matter for any family's shape

// The config names that a plan reads beyond the fields of the entry, '|' between.
std::string_view plan_fields(NormPlan plan);
std::string_view plan_fields(KvPlan plan);
std::string_view plan_fields(AttentionPlan plan);
std::string_view plan_fields(ExpertPlan plan);

// Every config name a family reads.
std::vector<std::string_view> field_names(const Family& family);

}  // namespace trainwright::detail
