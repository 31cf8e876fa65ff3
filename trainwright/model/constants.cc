// What of a config only exports hand on. Any of it may be missing or odd: then it is left out.
#include <string>

#include "trainwright/model/build.h"

namespace trainwright::detail {
namespace {

// "rope_parameters.rope_theta"; the first that is there.
const Json* find_any(const Json& config, std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths) {
    const std::size_t dot = path.find('.');
    const Json* at = config.find(path.substr(0, dot));
    if (at != nullptr && dot != std::string_view::npos) {
      at = at->is_object() ? at->find(path.substr(dot + 1)) : nullptr;
    }
    if (at != nullptr && !at->is_null()) return at;
  }
  return nullptr;
}

std::optional<double> number(const Json& config, std::initializer_list<std::string_view> paths) {
  const Json* at = find_any(config, paths);
  return at != nullptr && at->is_number() && at->number > 0 ? std::optional(at->number)
                                                            : std::nullopt;
}

std::string text(const Json& config, std::initializer_list<std::string_view> paths) {
  const Json* at = find_any(config, paths);
  return at != nullptr && at->is_string() ? at->string.substr(0, 60) : std::string();
}

void read_rotation(const Json& config, Constants& constants) {
  constants.rotary_base = number(
      config, {"rope_theta", "rotary_emb_base", "rotary_base", "rope_parameters.rope_theta"});
  constants.rotary_share = number(config, {"partial_rotary_factor", "rotary_pct", "rotary_percent",
                                           "rope_parameters.partial_rotary_factor"});
  constants.rotary_scaling =
      text(config, {"rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type"});
  if (constants.rotary_scaling == "default") constants.rotary_scaling.clear();
  constants.rotary_factor = number(config, {"rope_scaling.factor", "rope_parameters.factor"});
  constants.rotary_mscale = number(config, {"rope_scaling.mscale", "rope_parameters.mscale"});
  constants.rotary_mscale_all =
      number(config, {"rope_scaling.mscale_all_dim", "rope_parameters.mscale_all_dim"});
  constants.rotary_beta_fast =
      number(config, {"rope_scaling.beta_fast", "rope_parameters.beta_fast"});
}

void read_router(const Json& config, const Family& family, Constants& constants) {
  const Json* normed = find_any(config, {"norm_topk_prob"});
  const bool is_normed =
      normed != nullptr && normed->is_bool() ? normed->boolean : family.norms_scores;
  constants.scores = family.scores;
  constants.balancing_bias = family.balancing_bias;
  if (!is_normed && family.scores == Constants::Scores::OfChosen) {
    constants.scores = Constants::Scores::OfAll;
  }
  if (!family.scales_scores) return;
  const auto scale = number(config, {"routed_scaling_factor"});
  constants.score_scale = scale.value_or(family.score_scale);
  constants.score_scale_assumed = !scale;
  const auto groups = [&](std::string_view name, std::int64_t usual) {
    const double count = number(config, {name}).value_or(static_cast<double>(usual));
    return count >= 1 && count <= 1 << 20 ? static_cast<std::int64_t>(count) : 0;
  };
  const auto count = groups("n_group", family.expert_groups);
  const auto chosen = groups("topk_group", family.groups_chosen);
  const bool by_groups =
      family.group_method.empty() || text(config, {"topk_method"}) == family.group_method;
  if (!by_groups || count <= 1 || chosen < 1 || chosen > count) return;
  constants.expert_groups = count;
  constants.groups_chosen = chosen;
}

bool is_true(const Json& config, std::string_view name) {
  const Json* at = config.find(name);
  return at != nullptr && at->is_bool() && at->boolean;
}

// As the arguments of Megatron-LM are named.
void read_megatron(const Json& config, Constants& constants) {
  if (is_true(config, "use_rope_scaling")) constants.rotary_scaling = "llama3";
  constants.rotary_factor = number(config, {"rope_scaling_factor"});
  constants.rotary_mscale = number(config, {"mscale"});
  constants.rotary_mscale_all = number(config, {"mscale_all_dim"});
  if (text(config, {"moe_router_score_function"}) == "sigmoid") {
    constants.scores = Constants::Scores::Sigmoid;
  } else if (is_true(config, "moe_router_pre_softmax")) {
    constants.scores = Constants::Scores::OfAll;
  }
  constants.balancing_bias = is_true(config, "moe_router_enable_expert_bias");
  const auto count = [&](std::string_view name) {
    const Json* at = config.find(name);
    return at != nullptr && at->is_integer() && at->integer > 0 ? at->integer : 0;
  };
  constants.expert_groups = count("moe_router_num_groups");
  constants.groups_chosen = count("moe_router_group_topk");
  constants.score_scale = number(config, {"moe_router_topk_scaling_factor"}).value_or(1);
}

}  // namespace

Constants read_constants(const Json& config, const Family& family) {
  Constants constants;
  constants.norm_epsilon = number(config, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                           "norm_eps", "norm_epsilon", "layernorm_epsilon"});
  read_rotation(config, constants);
  if (family.decided != nullptr) {
    read_megatron(config, constants);
  } else {
    read_router(config, family, constants);
  }
  return constants;
}

}  // namespace trainwright::detail
