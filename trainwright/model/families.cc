#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/model/config_fields.h"
#include "trainwright/model/family_members.h"
#include "trainwright/model/formula.h"

namespace trainwright::detail {
namespace {

namespace fs = std::filesystem;

// What config.json files carry that has no bearing on any shape or count: token ids, numerics of
// norms and rotary embeddings, initialisation, loss coefficients, generation, provenance.
constexpr std::string_view kIgnored[] = {"_attn_implementation",
                                         "_attn_implementation_autoset",
                                         "_attn_implementation_internal",
                                         "_commit_hash",
                                         "_experts_implementation",
                                         "_flash_attn_2_enabled",
                                         "_name_or_path",
                                         "add_cross_attention",
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
                                         "layernorm_epsilon",
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
                                         "tie_encoder_decoder",
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

constexpr int kDeepest = 16;  // files that are "like" each other

// Of what may be the name of a file and of nothing else.
bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

fs::path file_of(std::string_view model_type, const std::string& data_directory) {
  return fs::path(data_directory) / "families" / (std::string(model_type) + ".json");
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* at = json.find(key);
  return at != nullptr && at->is_string() ? at->string : std::string();
}

Result<std::optional<Family>> read_family(std::string_view model_type,
                                          const std::string& data_directory, int depth);

// The family that a description is like, with what it says otherwise.
Result<Family> described(const Json& json, std::string_view model_type, const std::string& origin,
                         const std::string& path, const std::string& data_directory, int depth) {
  Family family;
  if (const std::string like = text_of(json, "like"); !like.empty()) {
    auto base = TW_TRY(read_family(like, data_directory, depth + 1));
    if (!base) {
      return fail(json_place(origin, json, path + "/like"),
                  fmt::format("there is no family '{}' to be like", like.substr(0, 100)),
                  "`trainwright list families` shows those that are known");
    }
    family = *std::move(base);
  }
  family.model_type = std::string(model_type);
  family.origin = origin;
  Diagnostics faults;
  apply_members(family, json, origin, path, faults);
  if (!faults.empty()) return fail(std::move(faults));
  return family;
}

Result<std::optional<Family>> read_family(std::string_view model_type,
                                          const std::string& data_directory, int depth) {
  const fs::path file = file_of(model_type, data_directory);
  if (!is_file_name(model_type) || !is_file(file.string())) return std::optional<Family>();
  const Json json = TW_TRY(read_json_file(file.string()));
  if (depth > kDeepest) return fail(file.string(), "is like itself, by way of others");
  if (const std::string same = text_of(json, "same_as"); !same.empty()) {
    return read_family(same, data_directory, depth + 1);
  }
  return TW_TRY(described(json, model_type, file.string(), "", data_directory, depth));
}

void add_names(std::vector<std::string>& names, const IntegerField& field) {
  names.push_back(field.names);
  for (std::string& name : names_in(field.derived)) names.push_back(std::move(name));
}

void add_names(std::vector<std::string>& names, const LayerPattern& pattern) {
  for (const auto* text :
       {&pattern.names, &pattern.letters, &pattern.listed, &pattern.except, &pattern.flags}) {
    names.push_back(*text);
  }
  for (const auto& [unused, at] : pattern_numbers()) add_names(names, pattern.*at);
}

// Of the members alone, not of those that layers of a word or conditions change.
void add_own_names(std::vector<std::string>& names, const Family& f) {
  for (const auto& [unused, at] : integer_members()) add_names(names, f.*at);
  for (const auto& [unused, at] : switch_members()) names.push_back((f.*at).names);
  for (const auto& [unused, at] : pattern_members()) add_names(names, f.*at);
  for (const auto& [unused, at] : extra_members()) {
    for (const ExtraField& extra : f.*at) {
      add_names(names, extra.in);
      add_names(names, extra.out);
    }
  }
  for (const auto* text : {&f.activation.names, &f.attention_softcap, &f.logit_softcap,
                           &f.dropout_hidden.names, &f.dropout_attention.names, &f.deciding}) {
    names.push_back(*text);
  }
  for (const When& when : f.when) {
    for (const Condition& condition : when.conditions) names.push_back(condition.names);
  }
}

}  // namespace

Result<std::optional<Family>> find_family(std::string_view model_type,
                                          const std::string& data_directory) {
  if (model_type == "megatron" || model_type == "megatron_gpt") {
    return std::optional<Family>(megatron_family());
  }
  return read_family(model_type, data_directory, 0);
}

Result<Family> inline_family(const Json& description, std::string_view model_type,
                             const std::string& origin, const std::string& data_directory) {
  return described(description, model_type, origin, "/family", data_directory, 0);
}

Result<std::vector<Family>> all_families(const std::string& data_directory) {
  std::vector<std::string> names = {"megatron", "megatron_gpt"};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(data_directory) / "families", ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<Family> families;
  Diagnostics faults;
  for (const std::string& name : names) {
    auto family = find_family(name, data_directory);
    if (!family) {
      for (Diagnostic& fault : family.error().diagnostics) faults.push_back(std::move(fault));
    } else if (*family) {
      (*family)->model_type = name;
      families.push_back(**std::move(family));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  return families;
}

bool is_ignored_field(std::string_view name) {
  return std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
}

std::vector<std::string> field_names(const Family& family) {
  std::vector<std::string> names;
  add_own_names(names, family);
  Diagnostics unused;
  const auto with = [&](const Json& members) {
    Family other = family;
    other.when.clear();
    apply_members(other, members, family.origin, "", unused);
    add_own_names(names, other);
    for (const LayerWord& type : other.types) {
      Family typed = other;
      apply_members(typed, type.members, family.origin, "", unused);
      add_own_names(names, typed);
    }
  };
  with(Json::object());
  for (const When& when : family.when) with(when.then);
  if (family.mtp_members) with(*family.mtp_members);
  std::vector<std::string> result;
  for (const std::string& alternatives : names) {
    for (const std::string_view name : split(alternatives, '|')) {
      if (!name.empty()) result.emplace_back(name);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace trainwright::detail
