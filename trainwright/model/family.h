#pragma once
// Private: a family of models, as data/families/<model_type>.json says it.
//
// A file says how the family's config.json names things, what the Hugging Face class takes for an
// absent field (transformers 5.23.0), and what the class builds from them: most often as another
// family, "like", but for a few members. The members below are the words of these files
// (docs/extend/model-family.md), and their defaults are Llama's.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/model/model.h"

namespace trainwright::detail {

class ConfigFields;  // config_fields.h

constexpr std::int64_t kNull = INT64_MIN;  // the class default is None: absent, or derived

// A field of config.json: its names, the preferred first ("n_embd|hidden_size"), with a dot where
// it is nested ("attn_config.kv_n_heads"), and what the class takes when it is absent. A field
// without a name cannot be set. `derived`: what is taken instead of null, a formula (formula.h).
struct IntegerField {
  std::string names;
  std::int64_t absent = kNull;
  std::string derived = {};
};
struct BoolField {
  std::string names;
  bool absent = false;
};
struct StringField {
  std::string names;
  std::string absent;
};
struct ProbabilityField {
  std::string names;
  double absent = 0;
};
// A field that the class does not act upon, or acts upon in ways that are not modelled.
struct AssumedField {
  enum class Otherwise { Note, Fault };
  std::string names;
  std::string assumed;  // as JSON text: "false", "4", "multihead_attention"; "|" between several
  Otherwise otherwise = Otherwise::Note;
  std::string why;
};

enum class NormPlan {
  Before,         // one before each branch
  After,          // one after each branch, inside the residual (OLMo 2)
  Around,         // before and after each branch (Gemma 2, GLM-4)
  Shared,         // one norm feeds both branches (GPT-J, Command R)
  AfterResidual,  // of the sum of input and branch (the original Transformer)
};
enum class AttentionKind {
  Softmax,
  Latent,
  Compressed,
  DeltaNet,
  Lightning,
  Mamba2,
  Mamba,
  ShortConvolution,
  None
};
enum class FeedForwardKind { Mlp, Experts, None };

// Which of the layers are what: a word for each, which may be a member of `types`.
struct LayerPattern {
  using Words = std::vector<std::pair<std::string, std::string>>;
  std::string names = {};    // field with a word, or a whole number, for each layer
  std::string letters = {};  // or with a letter
  Words words = {};     // what words and letters of the config stand for; others for themselves
  bool counts = false;  // as many layers as there are words
  bool longer = false;  // words beyond the layers are those of prediction layers
  // Where the config lists no words: `hit` for layers of the field `listed` (indices), of the field
  // `flags` (those with `flag`; a number n is every n-th), or, if those are silent, for layers
  // i with i % every == phase (null: every - 1), from <= i < until, but those of `except`; `miss`
  // for the others. A cycle of words instead says it outright.
  std::string hit = {}, miss = {};
  std::string listed = {}, except = {}, flags = {};
  bool one_based = false;  // indices of `listed` begin with 1
  std::int64_t flag = 1;
  IntegerField every{{}, 1}, phase{}, from{{}, 0}, until{};
  std::vector<std::string> cycle = {};
  // Of Megatron-LM's arguments: already a word for each layer.
  std::vector<std::string> settled = {};
};

struct ExtraField {
  std::string name;
  Extra::Part part = Extra::Part::Norm;
  Extra::Use use = Extra::Use::Vector;
  IntegerField in{{}, 1}, out{};
  bool bias = false;
};

// Members that fields of the config change: where all conditions hold, `then`.
struct Condition {
  std::string names;
  Json absent, is;  // as the config has them; null: absent, or null
  bool negated = false;
};
struct When {
  std::vector<Condition> conditions;
  Json then;
};
struct LayerWord {
  std::string word;
  Json members;  // what layers of that word have otherwise
};

struct Family {
  std::string model_type = {};
  std::string origin = {};  // the file

  IntegerField vocabulary{"vocab_size", 32000};
  IntegerField hidden{"hidden_size", 4096};
  IntegerField layers{"num_hidden_layers", 32};
  IntegerField heads{"num_attention_heads", 32};
  IntegerField kv_heads{"num_key_value_heads"};    // null: as many as heads
  IntegerField head_dim{"head_dim"};               // null: hidden / heads
  IntegerField width{"intermediate_size", 11008};  // null: 4 x hidden
  IntegerField sequence{"max_position_embeddings", 2048};
  BoolField tied{"tie_word_embeddings", false};
  BoolField head_bias{};
  StringField activation{"hidden_act", "silu"};
  BoolField gated{{}, true};

  Positions positions = Positions::Rotary;
  BoolField alibi{};                 // alibi instead, if set
  std::int64_t positions_extra = 0;  // rows of the table beyond the sequence
  IntegerField embedding_width{};    // null: hidden
  Norm embedding_norm = Norm::None;
  IntegerField streams{{}, 1};
  IntegerField per_layer_width{}, per_layer_vocabulary{};

  Norm norm = Norm::Rms;
  BoolField norm_affine{{}, true};  // false: a LayerNorm without trained numbers
  NormPlan norm_plan = NormPlan::Before;
  BoolField parallel{};  // both branches read the same input
  BoolField final_norm_removed{};

  AttentionKind attention = AttentionKind::Softmax;
  FeedForwardKind feed_forward = FeedForwardKind::Mlp;
  bool mamba_beside = false;        // Mamba-2 beside attention (Falcon-H1)
  LayerPattern layer_pattern = {};  // words of `types`
  LayerPattern feed_forward_pattern = {};
  LayerPattern rotary_pattern = {};  // "rotary" or "none"
  std::vector<LayerWord> types = {};
  std::vector<When> when = {};

  BoolField causal{{}, true};
  BoolField qkv_bias{};
  BoolField output_bias{};
  BoolField mlp_bias{};
  Norm qk_norm = Norm::None;
  bool qk_norm_per_head = true;
  BoolField qk_norm_on{{}, true};
  bool qk_norm_rotary_only = false;  // layers without positions have none (Llama 4)
  BoolField output_gate{}, head_gate{};
  bool sinks = false, shared_kv = false, value_is_key = false;
  Norm value_norm = Norm::None;
  std::string attention_softcap = {};  // names of the fields; any number but null is on
  std::string logit_softcap = {};
  ProbabilityField dropout_hidden{};
  ProbabilityField dropout_attention{"attention_dropout"};

  IntegerField window{};
  BoolField window_on{{}, true};
  bool chunked = false;  // windows are those of chunks
  BoolField rotary{{}, true};
  bool rotary_in_window_only = false;

  IntegerField query_rank{}, kv_rank{}, rope_dim{}, nope_dim{}, value_dim{};
  Norm latent_norm = Norm::Rms;
  IntegerField index_heads{}, index_dim{}, index_topk{};
  Norm index_key_norm = Norm::Layer, index_query_norm = Norm::None;
  bool index_weighted = true;
  IntegerField output_groups{}, output_rank{}, ratio{}, overlap{{}, 1};

  IntegerField delta_key_heads{}, delta_value_heads{}, delta_key_dim{}, delta_value_dim{},
      delta_convolution{};
  bool delta_channel_decay = false, delta_gate_bias = false;
  BoolField delta_gated{{}, true};
  IntegerField delta_decay_rank{}, delta_gate_rank{};
  IntegerField lightning_block{};
  IntegerField convolution{};  // of short convolutions
  BoolField convolution_bias{};

  IntegerField mamba_heads{}, mamba_head_dim{}, mamba_groups{}, mamba_state{}, mamba_convolution{},
      mamba_chunk{}, mamba_rank{};
  IntegerField mamba_width{}, mamba_expansion{};  // of all heads; null: hidden x expansion
  BoolField mamba_input_bias{}, mamba_output_bias{}, mamba_convolution_bias{},
      mamba_norm_on{{}, true};
  Norm mamba_inner_norm = Norm::None;

  IntegerField experts{}, experts_per_token{};
  std::int64_t experts_least = 1;  // 0: without experts all layers are dense
  IntegerField expert_width{};     // null: the family's width
  IntegerField expert_latent{};    // null: experts work on the hidden size
  IntegerField dense_width{};      // of layers without experts; null: the family's width
  IntegerField shared_experts{};   // that many, each as wide as an expert
  IntegerField shared_width{};     // or the width itself
  bool shared_bias = false;        // the shared experts have the biases of a plain Mlp
  bool expert_bias = false, shared_gate = false, router_bias = false;
  bool score_correction_trained = false;
  IntegerField mtp_layers{};
  std::optional<Json> mtp_members = {};  // what its layer has otherwise than the last

  std::vector<ExtraField> extras = {}, embedding_extras = {}, head_extras = {};
  CodeStyle style = {};
  // The router, for exports (Constants).
  Constants::Scores scores = Constants::Scores::OfChosen;
  bool norms_scores = true, balancing_bias = false;
  bool scales_scores = false;
  double score_scale = 1;
  std::int64_t expert_groups = 1, groups_chosen = 1;
  std::string group_method = {};  // groups only where topk_method is that

  std::vector<AssumedField> assumed = {};
  std::string ignored = {};   // further names that do not matter here, '|' between
  std::string deciding = {};  // names that `decided` reads
  std::string note = {};      // for every model of the family
  // Of Megatron-LM's arguments, whose switches decide what files of other families say.
  Family (*decided)(const Family& family, ConfigFields& fields) = nullptr;
};

// The family of that model_type; nullopt if there is none. Faults are those of the files.
Result<std::optional<Family>> find_family(std::string_view model_type,
                                          const std::string& data_directory);
// Every family that a file describes, sorted by model_type, and Megatron's.
Result<std::vector<Family>> all_families(const std::string& data_directory);
Family megatron_family();

// Takes the members that `members`, an object, names. Faults have their places in `origin`.
void apply_members(Family& family, const Json& members, const std::string& origin,
                   const std::string& path, Diagnostics& faults);

// A config's own: {"like": "qwen3", ...} beside its fields.
Result<Family> inline_family(const Json& description, std::string_view model_type,
                             const std::string& origin, const std::string& data_directory);

bool is_ignored_field(std::string_view name);  // does not matter for any family's shape
// Every config name a family reads.
std::vector<std::string> field_names(const Family& family);

}  // namespace trainwright::detail
