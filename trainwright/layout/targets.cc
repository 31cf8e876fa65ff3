// The words for the matrices of layers that adapters may stand beside.
#include <array>

#include "trainwright/layout/kinds.h"
#include "trainwright/layout/layout.h"

namespace trainwright {

std::span<const std::string_view> all_names(LayerMatrix) {
  static constexpr std::string_view kNames[] = {
      "query",       "key",          "value",       "attention_gate", "attention_output",
      "query_down",  "query_up",     "kv_down",     "kv_up",          "beta",
      "decay",       "gate",         "up",          "down",           "router",
      "expert_gate", "expert_up",    "expert_down", "shared_gate",    "shared_up",
      "shared_down", "shared_scale", "latent_down", "latent_up",      "mamba_in",
      "mamba_out"};
  return kNames;
}

namespace detail {

namespace {

using Matrices = Flags<LayerMatrix>;
using enum LayerMatrix;

constexpr Matrices kGates{Gate, ExpertGate, SharedGate};
constexpr Matrices kUps{Up, ExpertUp, SharedUp};
constexpr Matrices kDowns{Down, ExpertDown, SharedDown};
constexpr Matrices kGatesAndUps{Gate, ExpertGate, SharedGate, Up, ExpertUp, SharedUp};
constexpr Matrices kExperts{ExpertGate, ExpertUp, ExpertDown};
constexpr Matrices kQueryKeyValue{Query, Key, Value};

// Modules of transformers 5.22.2 (models/<family>/modeling_<family>.py, w1 to w3 of Mixtral's
// checkpoints) and of Megatron-Core 0.16 (transformer/attention.py, mlp.py,
// multi_latent_attention.py; ssm/mamba_mixer.py).
struct Word {
  std::string_view word;
  Matrices matrices;
};
constexpr std::array kWords = {
    Word{"q_proj", {Query}},
    Word{"k_proj", {Key}},
    Word{"v_proj", {Value}},
    Word{"o_proj", {AttentionOutput}},
    Word{"out_proj", {AttentionOutput, MambaOut}},
    Word{"in_proj", {MambaIn}},
    Word{"fc1_latent_proj", {LatentDown}},
    Word{"fc2_latent_proj", {LatentUp}},
    Word{"dense", {AttentionOutput}},
    Word{"qkv_proj", kQueryKeyValue},
    Word{"query_key_value", kQueryKeyValue},
    Word{"c_attn", kQueryKeyValue},
    Word{"wqkv", kQueryKeyValue},
    Word{"linear_qkv", {Query, Key, Value, AttentionGate}},
    Word{"linear_proj", {AttentionOutput}},
    Word{"linear_q_proj", {Query}},
    Word{"q_a_proj", {QueryDown}},
    Word{"linear_q_down_proj", {QueryDown}},
    Word{"q_b_proj", {QueryUp}},
    Word{"linear_q_up_proj", {QueryUp}},
    Word{"kv_a_proj_with_mqa", {KvDown}},
    Word{"linear_kv_down_proj", {KvDown}},
    Word{"kv_b_proj", {KvUp}},
    Word{"linear_kv_up_proj", {KvUp}},
    Word{"gate_proj", kGates},
    Word{"w1", kGates},
    Word{"up_proj", kUps},
    Word{"w3", kUps},
    Word{"c_fc", {Up}},
    Word{"fc1", {Up}},
    Word{"fc_in", {Up}},
    Word{"dense_h_to_4h", {Up}},
    Word{"gate_up_proj", kGatesAndUps},
    Word{"linear_fc1", kGatesAndUps},
    Word{"down_proj", kDowns},
    Word{"w2", kDowns},
    Word{"fc2", {Down}},
    Word{"fc_out", {Down}},
    Word{"dense_4h_to_h", {Down}},
    Word{"linear_fc2", kDowns},
    Word{"c_proj", {AttentionOutput, Down}},
    Word{"shared_expert_gate", {SharedScale}},
};

}  // namespace

std::vector<std::string> words_for(Flags<LayerMatrix> matrices) {
  std::vector<std::string> words = names_in(matrices);
  for (const Word& known : kWords) {
    if ((known.matrices.bits & matrices.bits) != 0) words.emplace_back(known.word);
  }
  return words;
}

}  // namespace detail

std::optional<LayerMatrix> layer_matrix(std::string_view weight_name) {
  return named<LayerMatrix>(weight_name);
}

Flags<LayerMatrix> matrices_named(std::string_view word) {
  if (const auto matrix = layer_matrix(word)) return {*matrix};
  for (const detail::Word& known : detail::kWords) {
    if (same_name(known.word, word)) return known.matrices;
  }
  return {};
}

Flags<LayerMatrix> target_matrices(const Lora& lora, bool experts_are_parameters) {
  Flags<LayerMatrix> all;
  for (const std::string& word : lora.targets) all.bits |= matrices_named(word).bits;
  if (!lora.targets.empty()) return all;
  for (const LayerMatrix matrix : all_of<LayerMatrix>()) {
    const bool parameter = experts_are_parameters && detail::kExperts.has(matrix);
    if (matrix != LayerMatrix::Router && !parameter) all.insert(matrix);
  }
  return all;
}

}  // namespace trainwright
