// The members of a family by the words of data/families, and how a value of each is read.
#include "trainwright/model/family_members.h"

#include <fmt/format.h>

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

constexpr Named<IntegerField Family::*> kIntegers[] = {
    {"vocabulary", &Family::vocabulary},
    {"hidden", &Family::hidden},
    {"layers", &Family::layers},
    {"heads", &Family::heads},
    {"kv_heads", &Family::kv_heads},
    {"head_dim", &Family::head_dim},
    {"width", &Family::width},
    {"sequence", &Family::sequence},
    {"embedding_width", &Family::embedding_width},
    {"streams", &Family::streams},
    {"per_layer_width", &Family::per_layer_width},
    {"per_layer_vocabulary", &Family::per_layer_vocabulary},
    {"window", &Family::window},
    {"query_rank", &Family::query_rank},
    {"kv_rank", &Family::kv_rank},
    {"rope_dim", &Family::rope_dim},
    {"nope_dim", &Family::nope_dim},
    {"value_dim", &Family::value_dim},
    {"index_heads", &Family::index_heads},
    {"index_dim", &Family::index_dim},
    {"index_topk", &Family::index_topk},
    {"output_groups", &Family::output_groups},
    {"output_rank", &Family::output_rank},
    {"ratio", &Family::ratio},
    {"overlap", &Family::overlap},
    {"delta_key_heads", &Family::delta_key_heads},
    {"delta_value_heads", &Family::delta_value_heads},
    {"delta_key_dim", &Family::delta_key_dim},
    {"delta_value_dim", &Family::delta_value_dim},
    {"delta_convolution", &Family::delta_convolution},
    {"delta_decay_rank", &Family::delta_decay_rank},
    {"delta_gate_rank", &Family::delta_gate_rank},
    {"lightning_block", &Family::lightning_block},
    {"convolution", &Family::convolution},
    {"mamba_heads", &Family::mamba_heads},
    {"mamba_head_dim", &Family::mamba_head_dim},
    {"mamba_groups", &Family::mamba_groups},
    {"mamba_state", &Family::mamba_state},
    {"mamba_convolution", &Family::mamba_convolution},
    {"mamba_chunk", &Family::mamba_chunk},
    {"mamba_rank", &Family::mamba_rank},
    {"mamba_width", &Family::mamba_width},
    {"mamba_expansion", &Family::mamba_expansion},
    {"experts", &Family::experts},
    {"experts_per_token", &Family::experts_per_token},
    {"expert_width", &Family::expert_width},
    {"expert_latent", &Family::expert_latent},
    {"dense_width", &Family::dense_width},
    {"shared_experts", &Family::shared_experts},
    {"shared_width", &Family::shared_width},
    {"mtp_layers", &Family::mtp_layers},
};

constexpr Named<BoolField Family::*> kSwitches[] = {
    {"tied", &Family::tied},
    {"head_bias", &Family::head_bias},
    {"gated", &Family::gated},
    {"alibi", &Family::alibi},
    {"norm_affine", &Family::norm_affine},
    {"parallel", &Family::parallel},
    {"final_norm_removed", &Family::final_norm_removed},
    {"causal", &Family::causal},
    {"qkv_bias", &Family::qkv_bias},
    {"output_bias", &Family::output_bias},
    {"mlp_bias", &Family::mlp_bias},
    {"qk_norm_on", &Family::qk_norm_on},
    {"output_gate", &Family::output_gate},
    {"head_gate", &Family::head_gate},
    {"window_on", &Family::window_on},
    {"rotary", &Family::rotary},
    {"delta_gated", &Family::delta_gated},
    {"convolution_bias", &Family::convolution_bias},
    {"mamba_input_bias", &Family::mamba_input_bias},
    {"mamba_output_bias", &Family::mamba_output_bias},
    {"mamba_convolution_bias", &Family::mamba_convolution_bias},
    {"mamba_norm_on", &Family::mamba_norm_on},
};

constexpr Named<bool Family::*> kFlags[] = {
    {"mamba_beside", &Family::mamba_beside},
    {"qk_norm_per_head", &Family::qk_norm_per_head},
    {"qk_norm_rotary_only", &Family::qk_norm_rotary_only},
    {"sinks", &Family::sinks},
    {"shared_kv", &Family::shared_kv},
    {"value_is_key", &Family::value_is_key},
    {"chunked", &Family::chunked},
    {"rotary_in_window_only", &Family::rotary_in_window_only},
    {"index_weighted", &Family::index_weighted},
    {"delta_channel_decay", &Family::delta_channel_decay},
    {"delta_gate_bias", &Family::delta_gate_bias},
    {"shared_bias", &Family::shared_bias},
    {"expert_bias", &Family::expert_bias},
    {"shared_gate", &Family::shared_gate},
    {"router_bias", &Family::router_bias},
    {"score_correction_trained", &Family::score_correction_trained},
    {"norms_scores", &Family::norms_scores},
    {"balancing_bias", &Family::balancing_bias},
    {"scales_scores", &Family::scales_scores},
};

constexpr Named<bool CodeStyle::*> kStyles[] = {
    {"one_plus_norm_gain", &CodeStyle::one_plus_norm_gain},
    {"joined_attention", &CodeStyle::joined_attention},
    {"joined_feed_forward", &CodeStyle::joined_feed_forward},
    {"softmax_in_fp32", &CodeStyle::softmax_in_fp32},
    {"subtracts_largest", &CodeStyle::subtracts_largest},
    {"rotates_part", &CodeStyle::rotates_part},
    {"tanh_gelu_in_steps", &CodeStyle::tanh_gelu_in_steps},
    {"router_in_fp32", &CodeStyle::router_in_fp32},
    {"scores_in_fp32", &CodeStyle::scores_in_fp32},
    {"scores_of_chosen", &CodeStyle::scores_of_chosen},
    {"scores_narrowed", &CodeStyle::scores_narrowed},
    {"scores_by_root", &CodeStyle::scores_by_root},
    {"layer_norm_in_steps", &CodeStyle::layer_norm_in_steps},
    {"rms_by_power", &CodeStyle::rms_by_power},
    {"scores_before_experts", &CodeStyle::scores_before_experts},
    {"takes_flash_kernels", &CodeStyle::takes_flash_kernels},
};

constexpr Named<std::int64_t Family::*> kNumbers[] = {
    {"positions_extra", &Family::positions_extra},
    {"experts_least", &Family::experts_least},
    {"expert_groups", &Family::expert_groups},
    {"groups_chosen", &Family::groups_chosen},
};

constexpr Named<Norm Family::*> kNorms[] = {
    {"embedding_norm", &Family::embedding_norm},
    {"norm", &Family::norm},
    {"qk_norm", &Family::qk_norm},
    {"value_norm", &Family::value_norm},
    {"latent_norm", &Family::latent_norm},
    {"index_key_norm", &Family::index_key_norm},
    {"index_query_norm", &Family::index_query_norm},
    {"mamba_inner_norm", &Family::mamba_inner_norm},
};

constexpr Named<std::string Family::*> kTexts[] = {
    {"attention_softcap", &Family::attention_softcap},
    {"logit_softcap", &Family::logit_softcap},
    {"group_method", &Family::group_method},
    {"note", &Family::note},
};

constexpr Named<LayerPattern Family::*> kPatterns[] = {
    {"layer_pattern", &Family::layer_pattern},
    {"feed_forward_pattern", &Family::feed_forward_pattern},
    {"rotary_pattern", &Family::rotary_pattern},
};

constexpr Named<std::vector<ExtraField> Family::*> kExtras[] = {
    {"extras", &Family::extras},
    {"embedding_extras", &Family::embedding_extras},
    {"head_extras", &Family::head_extras},
};

constexpr Named<IntegerField LayerPattern::*> kPatternNumbers[] = {
    {"every", &LayerPattern::every},
    {"phase", &LayerPattern::phase},
    {"from", &LayerPattern::from},
    {"until", &LayerPattern::until},
};

constexpr Named<std::string LayerPattern::*> kPatternTexts[] = {
    {"names", &LayerPattern::names},   {"letters", &LayerPattern::letters},
    {"hit", &LayerPattern::hit},       {"miss", &LayerPattern::miss},
    {"listed", &LayerPattern::listed}, {"except", &LayerPattern::except},
    {"flags", &LayerPattern::flags},
};

}  // namespace

std::span<const Named<IntegerField Family::*>> integer_members() { return kIntegers; }
std::span<const Named<BoolField Family::*>> switch_members() { return kSwitches; }
std::span<const Named<bool Family::*>> flag_members() { return kFlags; }
std::span<const Named<bool CodeStyle::*>> style_members() { return kStyles; }
std::span<const Named<std::int64_t Family::*>> number_members() { return kNumbers; }
std::span<const Named<Norm Family::*>> norm_members() { return kNorms; }
std::span<const Named<std::string Family::*>> text_members() { return kTexts; }
std::span<const Named<LayerPattern Family::*>> pattern_members() { return kPatterns; }
std::span<const Named<std::vector<ExtraField> Family::*>> extra_members() { return kExtras; }
std::span<const Named<IntegerField LayerPattern::*>> pattern_numbers() { return kPatternNumbers; }
std::span<const Named<std::string LayerPattern::*>> pattern_texts() { return kPatternTexts; }

}  // namespace trainwright::detail
