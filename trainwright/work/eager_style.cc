#include <algorithm>
#include <array>

#include "trainwright/work/eager.h"

namespace trainwright::detail {
namespace {

template <std::size_t N>
bool among(std::string_view family, const std::array<std::string_view, N>& families) {
  return std::find(families.begin(), families.end(), family) != families.end();
}

// transformers 5.22.2, models/<family>/modeling_<family>.py; Megatron-LM core_v0.16.1,
// transformer/attention.py (one matrix for query, key and value) and fusions/fused_softmax.py.
// Files beside their weights: modeling_qwen.py (c_attn; rms_norm and apply_rotary_emb_func of
// flash_attn where they are installed, as QwenLM/Qwen docker/Dockerfile does),
// modeling_baichuan.py (W_pack), modeling_internlm2.py (wqkv).
constexpr std::array<std::string_view, 7> kOnePlusGain = {
    "gemma",      "gemma2",       "gemma3_text",     "vaultgemma",
    "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"};
constexpr std::array<std::string_view, 3> kGainInFp32 = {"olmo2", "olmo3", "gpt_oss"};
constexpr std::array<std::string_view, 1> kOnePlusNormGain = {"nemotron"};
constexpr std::array<std::string_view, 9> kJoinedAttention = {
    "gpt2", "codegen", "gpt_neox", "phi3", "bloom", "megatron", "qwen", "baichuan", "internlm2"};
constexpr std::array<std::string_view, 3> kJoinedFeedForward = {"phi3", "glm4", "glm"};
constexpr std::array<std::string_view, 2> kSoftmaxAsIs = {"gpt2", "megatron"};
constexpr std::array<std::string_view, 9> kRotatesPart = {
    "gpt_neox", "phi3", "glm4_moe", "glm4", "nemotron", "phi", "stablelm", "glm", "minimax_m2"};
constexpr std::array<std::string_view, 4> kGeluInSteps = {"gpt2", "gptj", "codegen", "phi"};
constexpr std::array<std::string_view, 1> kTakesFlashKernels = {"qwen"};
constexpr std::array<std::string_view, 4> kRouterInFp32 = {"deepseek_v3", "glm4_moe",
                                                           "glm4_moe_lite", "solar_open"};

}  // namespace

EagerStyle eager_style(std::string_view family) {
  EagerStyle style;
  if (among(family, kOnePlusGain)) style.gain = GainPlace::OnePlusBeforeCast;
  if (among(family, kGainInFp32)) style.gain = GainPlace::BeforeCast;
  style.one_plus_norm_gain = among(family, kOnePlusNormGain);
  style.joined_feed_forward = among(family, kJoinedFeedForward);
  style.joined_attention = among(family, kJoinedAttention);
  style.softmax_in_fp32 = !among(family, kSoftmaxAsIs);
  style.rotates_part = among(family, kRotatesPart);
  style.tanh_gelu_in_steps = among(family, kGeluInSteps);
  style.router_in_fp32 = among(family, kRouterInFp32);
  style.takes_flash_kernels = among(family, kTakesFlashKernels);
  return style;
}

TensorId cast(Builder& b, std::string_view name, TensorId x, Dtype dtype) {
  if (b.at(x).dtype == dtype && !b.recipe.code.casts_copy) return x;
  const TensorId result = b.like(x, name, dtype);
  each(b, "cast", {x}, result, 0);
  return result;
}

Operator& each(Builder& b, std::string_view name, std::initializer_list<TensorId> inputs,
               TensorId output, double flops) {
  const Flops work = Flops(real(b.at(output).elements) * flops);
  Operator& op = b.add(name, OperatorKind::Elementwise, inputs, {output});
  op.forward.other = work;
  op.input_gradient.other = work;
  return op;
}

Half half_of_vector(const Builder& b) {
  return b.recipe.code.delays_vectors ? Half::Weight : Half::Input;
}

}  // namespace trainwright::detail
