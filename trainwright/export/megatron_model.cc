// A model as arguments of Megatron-LM (megatron/training/arguments.py of 0.8 to 0.19).
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"

namespace trainwright {
namespace {

class Arguments {
 public:
  void flag(const char* name) { list_.push_back({name, {}, "model", {}}); }
  void flag_if(bool condition, const char* name) {
    if (condition) flag(name);
  }
  void number(const char* name, std::int64_t value) { text(name, std::to_string(value)); }
  void text(const char* name, std::string value) {
    list_.push_back({name, {std::move(value)}, "model", {}});
  }
  std::vector<Setting> take() { return std::move(list_); }

 private:
  std::vector<Setting> list_;
};

tl::unexpected<Error> not_sayable(const Model& model, std::string what) {
  return fail(model.name, fmt::format("Megatron-LM's arguments cannot describe {}", what),
              "write the model's own arguments into settings.sh");
}

// ([0]*3+[1]*58): which layers are marked.
std::string layer_list(const std::vector<bool>& marked) {
  std::string text;
  for (std::size_t first = 0; first < marked.size();) {
    std::size_t end = first;
    while (end < marked.size() && marked[end] == marked[first]) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", marked[first] ? 1 : 0, end - first);
    first = end;
  }
  return '(' + text + ')';
}

// 4 where every fourth layer, and no other, is `kind`; else 0.
std::size_t period_of(const std::vector<bool>& marked, bool kind) {
  const auto first = std::find(marked.begin(), marked.end(), kind);
  const auto period = static_cast<std::size_t>(first - marked.begin()) + 1;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i] != (((i + 1) % period == 0) == kind)) return 0;
  }
  return first != marked.end() && period > 1 ? period : 0;
}

template <class Marks>
std::vector<bool> marked_layers(const Model& model, Marks marks) {
  std::vector<bool> marked;
  for (const LayerKindId id : model.layers) marked.push_back(marks(model.kinds[id.at()]));
  return marked;
}

std::string expert_pattern(const Model& model) {
  return layer_list(marked_layers(model, [](const LayerKind& kind) {
    return std::holds_alternative<MixtureOfExperts>(kind.feed_forward);
  }));
}

const Mlp* dense_of(const Model& model) {
  for (const LayerKind& kind : model.kinds) {
    if (const auto* mlp = std::get_if<Mlp>(&kind.feed_forward)) return mlp;
  }
  return nullptr;
}
const MixtureOfExperts* experts_of(const Model& model) {
  for (const LayerKind& kind : model.kinds) {
    if (const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward)) return experts;
  }
  return nullptr;
}

void say_softmax(Arguments& arguments, const Model& model, const SoftmaxAttention& attention) {
  arguments.number("--num-attention-heads", attention.heads);
  if (attention.kv_heads != attention.heads) {
    arguments.flag("--group-query-attention");
    arguments.number("--num-query-groups", attention.kv_heads);
  }
  if (attention.head_dim * attention.heads != model.hidden) {
    arguments.number("--kv-channels", attention.head_dim);
  }
  arguments.flag_if(attention.qk_norm != Norm::None, "--qk-layernorm");
}

void say_latent(Arguments& arguments, const LatentAttention& attention) {
  arguments.number("--num-attention-heads", attention.heads);
  arguments.flag("--multi-latent-attention");
  if (attention.query_rank > 0) arguments.number("--q-lora-rank", attention.query_rank);
  arguments.number("--kv-lora-rank", attention.kv_rank);
  arguments.number("--qk-head-dim", attention.nope_dim);
  arguments.number("--qk-pos-emb-head-dim", attention.rope_dim);
  arguments.number("--v-head-dim", attention.value_dim);
  arguments.flag_if(attention.latent_norm != Norm::None, "--qk-layernorm");
}

// 2: every second layer sees all tokens; ([1]*3+[0]*1): where the windows are. Empty: everywhere.
std::string window_pattern(const Model& model) {
  const auto windowed = marked_layers(model, [](const LayerKind& kind) {
    return std::get<SoftmaxAttention>(kind.attention).reach != Reach::Full;
  });
  if (std::find(windowed.begin(), windowed.end(), false) == windowed.end()) return "";
  const std::size_t period = period_of(windowed, false);
  return period > 0 ? std::to_string(period) : layer_list(windowed);
}

// 4: every fourth layer has no rotary positions; or which. Empty: all have them.
std::string unturned_pattern(const Model& model) {
  const auto unturned = marked_layers(model, [](const LayerKind& kind) {
    const auto* softmax = std::get_if<SoftmaxAttention>(&kind.attention);
    return softmax != nullptr && !softmax->rotary;
  });
  if (std::find(unturned.begin(), unturned.end(), true) == unturned.end()) return "";
  const std::size_t period = period_of(unturned, true);
  // transformer_config.py asserts that a number divides the layers.
  const bool whole = period > 0 && unturned.size() % period == 0;
  return whole ? std::to_string(period) : layer_list(unturned);
}

// 0.15.0 training/arguments.py: --window-size, --window-attn-skip-freq, --softmax-type.
constexpr Version kWindows{0, 15};
// 0.13.0 training/arguments.py: --no-rope-freq.
constexpr Version kUnturned{0, 13};
// 0.11.0: --mscale, --mscale-all-dim; the latter is 1 unless given, from 0.14.0 on 0.
constexpr Version kScales{0, 11}, kUnscaled{0, 14};

void say_windows(Arguments& arguments, const Model& model) {
  for (const LayerKind& kind : model.kinds) {
    const auto* softmax = std::get_if<SoftmaxAttention>(&kind.attention);
    if (softmax == nullptr || softmax->reach == Reach::Full) continue;
    // So many tokens before the query, none behind it.
    arguments.text("--window-size", fmt::format("{},0", softmax->window - 1));
    const std::string pattern = window_pattern(model);
    if (!pattern.empty()) arguments.text("--window-attn-skip-freq", pattern);
    break;
  }
  const auto* first = std::get_if<SoftmaxAttention>(&model.kinds[0].attention);
  if (first != nullptr && first->sinks) arguments.text("--softmax-type", "learnable");
}

void say_router(Arguments& arguments, const Constants& constants) {
  arguments.flag_if(constants.scores == Constants::Scores::OfAll, "--moe-router-pre-softmax");
  if (constants.scores == Constants::Scores::Sigmoid) {
    arguments.text("--moe-router-score-function", "sigmoid");
  }
  arguments.flag_if(constants.balancing_bias, "--moe-router-enable-expert-bias");
  if (constants.expert_groups > 0) {
    arguments.number("--moe-router-num-groups", constants.expert_groups);
    arguments.number("--moe-router-group-topk", constants.groups_chosen);
  }
  if (constants.score_scale != 1) {
    arguments.text("--moe-router-topk-scaling-factor", significant(constants.score_scale, 6));
  }
}

bool is_latent(const Model& model) {
  return std::holds_alternative<LatentAttention>(model.kinds[0].attention);
}

// Of latent attention YaRN is the usual rotation, with a factor of 1 unless it is given.
void say_yarn(Arguments& arguments, const Constants& constants, const Version& version) {
  if (constants.rotary_scaling != "yarn" || !constants.rotary_factor) return;
  arguments.text("--rotary-scaling-factor", significant(*constants.rotary_factor, 6));
  if (version < kScales) return;
  const double scale = constants.rotary_mscale.value_or(1);
  const double all = constants.rotary_mscale_all.value_or(0);
  if (scale != 1) arguments.text("--mscale", significant(scale, 6));
  if (all != (version < kUnscaled ? 1 : 0)) {
    arguments.text("--mscale-all-dim", significant(all, 6));
  }
}

// Base and scaling of rotary positions, epsilon of norms.
void say_constants(Arguments& arguments, const Model& model, const Version& version) {
  const Constants& constants = model.constants;
  if (constants.norm_epsilon) {
    arguments.text("--norm-epsilon", fmt::format("{:.6g}", *constants.norm_epsilon));
  }
  if (model.positions != Positions::Rotary) return;
  if (constants.rotary_base) {
    arguments.text("--rotary-base", significant(*constants.rotary_base, 12));
  }
  if (constants.rotary_share && *constants.rotary_share != 1) {
    arguments.text("--rotary-percent", significant(*constants.rotary_share, 6));
  }
  if (const std::string pattern = unturned_pattern(model); !pattern.empty()) {
    arguments.text("--no-rope-freq", pattern);
  }
  if (is_latent(model)) say_yarn(arguments, constants, version);
  if (constants.rotary_scaling != "llama3" || version < Version{0, 10}) return;
  arguments.flag("--use-rope-scaling");
  if (constants.rotary_factor && !(version < Version{0, 11})) {
    arguments.text("--rope-scaling-factor", significant(*constants.rotary_factor, 6));
  }
}

void say_experts(Arguments& arguments, const Model& model, const MixtureOfExperts& experts) {
  arguments.number("--num-experts", experts.experts);
  arguments.number("--moe-router-topk", experts.experts_per_token);
  arguments.number("--moe-ffn-hidden-size", experts.expert.width);
  if (experts.shared) {
    arguments.number("--moe-shared-expert-intermediate-size", experts.shared->width);
  }
  if (dense_of(model) != nullptr) arguments.text("--moe-layer-freq", expert_pattern(model));
  say_router(arguments, model.constants);
}

bool has_bias(const FeedForward& feed_forward) {
  if (const auto* mlp = std::get_if<Mlp>(&feed_forward)) return mlp->bias;
  return std::get<MixtureOfExperts>(feed_forward).expert.bias;
}

bool is_hybrid(const LayerKind& kind) {
  return kind.beside_attention || std::holds_alternative<Mamba2>(kind.attention) ||
         std::holds_alternative<Mamba1>(kind.attention) ||
         std::holds_alternative<ShortConvolution>(kind.attention) ||
         std::holds_alternative<NoAttention>(kind.attention) ||
         std::holds_alternative<NoFeedForward>(kind.feed_forward);
}

// But for which of them see a window of the same width, and which have rotary positions.
bool same_attention(const Attention& one, const Attention& two) {
  const auto* first = std::get_if<SoftmaxAttention>(&one);
  const auto* second = std::get_if<SoftmaxAttention>(&two);
  if (first == nullptr || second == nullptr) return one == two;
  SoftmaxAttention alike = *second;
  alike.reach = first->reach;
  alike.window = first->window;
  alike.rotary = first->rotary;
  const bool windows_differ = first->reach != Reach::Full && second->reach != Reach::Full &&
                              first->window != second->window;
  return !windows_differ && alike == *first;
}

// What the layers have that no argument says, or that differs between them.
std::string layers_beyond_arguments(const Model& model, const Version& version) {
  for (const LayerKind& kind : model.kinds) {
    if (!same_attention(kind.attention, model.kinds[0].attention)) {
      return "layers whose attention differs";
    }
    const auto* softmax = std::get_if<SoftmaxAttention>(&kind.attention);
    if (softmax != nullptr && softmax->reach == Reach::Chunked) return "attention in chunks";
    if (softmax != nullptr && softmax->reach == Reach::Sliding && version < kWindows) {
      return "sliding windows before 0.15";
    }
    if (softmax != nullptr && model.positions == Positions::Rotary && !softmax->rotary &&
        version < kUnturned) {
      return "layers without rotary positions before 0.13";
    }
    if (!kind.extras.empty()) return "weights that its layers have beside those of GPT";
    if (kind.parallel || kind.norm_after_residual || kind.after_attention != Norm::None ||
        kind.after_feed_forward != Norm::None) {
      return "where its layers have norms";
    }
  }
  return "";
}

// What the model has that no argument says.
std::string beyond_arguments(const Model& model, const Version& version) {
  if (const auto said = layers_beyond_arguments(model, version); !said.empty()) return said;
  if (model.streams > 1) return "hyper-connections";
  if (model.per_layer_width > 0) return "per-layer embeddings";
  const LayerKind& first = model.kinds[0];
  if (std::holds_alternative<CompressedAttention>(first.attention)) return "compressed attention";
  if (const auto* latent = std::get_if<LatentAttention>(&first.attention)) {
    if (latent->indexer || latent->head_gate) return "its attention";
  }
  if (std::holds_alternative<GatedDeltaNet>(first.attention) ||
      std::holds_alternative<LightningAttention>(first.attention)) {
    return "linear attention";
  }
  if (const auto* softmax = std::get_if<SoftmaxAttention>(&first.attention)) {
    if ((softmax->sinks && version < kWindows) || softmax->softcap || softmax->output_gate ||
        softmax->indexer || softmax->head_gate || softmax->value_dim > 0 || !softmax->causal ||
        softmax->shared_kv || softmax->value_is_key || softmax->value_norm != Norm::None ||
        (softmax->qk_norm != Norm::None && !softmax->qk_norm_per_head)) {
      return "its attention";
    }
  }
  const auto* experts = experts_of(model);
  if (experts != nullptr && (experts->shared_gate || experts->score_correction_trained)) {
    return "its router";
  }
  const Constants& constants = model.constants;
  const bool by_groups = constants.scores == Constants::Scores::Sigmoid ||
                         constants.expert_groups > 0 || constants.score_scale != 1;
  if (experts != nullptr && by_groups && version < Version{0, 11}) {
    return "its router before 0.11";
  }
  // transformers 5.22.2 modeling_granite.py, modeling_granitemoe.py: embedding_multiplier,
  // residual_multiplier, attention_multiplier (in place of 1/sqrt(head_dim)), logits_scaling.
  if (model.family.starts_with("granite")) {
    return "the multipliers of its embedding, attention, residuals and logits";
  }
  if (model.positions == Positions::Alibi) return "positions by ALiBi";
  if (model.embedding_norm != Norm::None || model.head_bias || model.logit_softcap ||
      model.embedding_width != model.hidden || !model.embedding_extras.empty() ||
      !model.head_extras.empty()) {
    return "its embedding or head";
  }
  return "";
}

std::optional<std::string> norm_name(Norm norm) {
  if (norm == Norm::Rms) return "RMSNorm";
  if (norm == Norm::Layer) return "LayerNorm";
  return std::nullopt;
}

bool say_activation(Arguments& arguments, const Model& model, const Mlp& mlp, bool bias) {
  if (model.family == "gpt_oss") {
    // Its own: x sigmoid(1.702 x) (y + 1), both clamped at 7 (transformers 5.22.2
    // modeling_gpt_oss.py GptOssExperts; 0.19.0 examples/post_training/modelopt/conf/openai).
    arguments.flag("--quick-geglu");
    arguments.text("--glu-linear-offset", "1.0");
    arguments.text("--activation-func-clamp-value", "7.0");
    return true;
  }
  if (mlp.gated) {
    arguments.flag("--swiglu");
    return mlp.activation == Activation::Silu;
  }
  if (mlp.activation == Activation::SquaredRelu) {
    arguments.flag("--squared-relu");
    return true;
  }
  return mlp.activation == (bias ? Activation::GeluTanh : Activation::Gelu);
}

}  // namespace

Result<std::vector<Setting>> megatron_model(const Model& model, std::int64_t sequence,
                                            const Version& version) {
  if (std::any_of(model.kinds.begin(), model.kinds.end(), is_hybrid)) {
    return fail(model.name, "the arguments of hybrids (--hybrid-override-pattern) are not written",
                "write the model's own arguments into settings.sh");
  }
  // 0.16.0 training/arguments.py: --linear-attention-freq.
  const bool delta = std::any_of(model.kinds.begin(), model.kinds.end(), [](const LayerKind& kind) {
    return std::holds_alternative<GatedDeltaNet>(kind.attention);
  });
  if (delta && !(version < Version{0, 16})) {
    return fail(model.name,
                "the arguments of Gated DeltaNet (--linear-attention-freq) are not written",
                "write the model's own arguments into settings.sh");
  }
  if (const std::string what = beyond_arguments(model, version); !what.empty()) {
    return not_sayable(model, what);
  }
  const LayerKind& first = model.kinds[0];
  const auto norm = norm_name(model.final_norm);
  if (!norm || first.before_attention != model.final_norm) return not_sayable(model, "its norms");
  const Mlp* dense = dense_of(model);
  const MixtureOfExperts* experts = experts_of(model);
  const Mlp& any = dense != nullptr ? *dense : experts->expert;
  Arguments arguments;
  arguments.number("--num-layers", static_cast<std::int64_t>(model.layers.size()));
  arguments.number("--hidden-size", model.hidden);
  arguments.number("--ffn-hidden-size", any.width);
  const auto* softmax = std::get_if<SoftmaxAttention>(&first.attention);
  if (softmax != nullptr) {
    say_softmax(arguments, model, *softmax);
  } else {
    say_latent(arguments, std::get<LatentAttention>(first.attention));
  }
  const bool bias = has_bias(first.feed_forward);
  arguments.flag_if(!bias, "--disable-bias-linear");
  arguments.flag_if(softmax != nullptr && softmax->qkv_bias && !bias, "--add-qkv-bias");
  if (!say_activation(arguments, model, any, bias)) return not_sayable(model, "its activation");
  if (softmax != nullptr && softmax->output_bias != bias) return not_sayable(model, "its biases");
  say_windows(arguments, model);
  arguments.text("--normalization", *norm);
  if (model.positions != Positions::Learned) {
    arguments.text("--position-embedding-type",
                   model.positions == Positions::Rotary ? "rope" : "none");
  }
  say_constants(arguments, model, version);
  const bool learned = model.positions == Positions::Learned;
  arguments.number("--max-position-embeddings",
                   learned ? model.learned_positions : std::max(model.sequence_most, sequence));
  arguments.flag_if(!model.tied, "--untie-embeddings-and-output-weights");
  if (experts != nullptr) say_experts(arguments, model, *experts);
  if (!model.mtp.empty()) {
    arguments.number("--mtp-num-layers", static_cast<std::int64_t>(model.mtp.size()));
  }
  for (const auto& [name, rate] : {std::pair{"--hidden-dropout", model.dropout_hidden},
                                   {"--attention-dropout", model.dropout_attention}}) {
    arguments.text(name, significant(rate, 6));
  }
  arguments.number("--vocab-size", model.vocabulary);
  return arguments.take();
}

std::vector<std::string> megatron_model_notes(const Model& model) {
  const Constants& constants = model.constants;
  const bool rotary = model.positions == Positions::Rotary;
  std::vector<std::string> notes, silent;
  if (rotary && !constants.rotary_base) silent.emplace_back("--rotary-base (10000)");
  if (!constants.norm_epsilon) silent.emplace_back("--norm-epsilon (1e-5)");
  if (!silent.empty()) {
    notes.push_back(fmt::format("{} {} left at Megatron's own: what is known of {} does not say",
                                enumerate(silent), silent.size() == 1 ? "is" : "are", model.name));
  }
  if (constants.score_scale_assumed && experts_of(model) != nullptr) {
    notes.push_back(fmt::format(
        "--moe-router-topk-scaling-factor is the default of the family {} ({}): what is known of "
        "{} does not say",
        model.family, significant(constants.score_scale, 6), model.name));
  }
  const bool yarn = is_latent(model) && constants.rotary_scaling == "yarn";
  if (yarn && constants.rotary_beta_fast && *constants.rotary_beta_fast != 32) {
    notes.push_back(
        fmt::format("the model's rotation has a beta_fast of {}, for which there is no "
                    "argument: Megatron takes 32",
                    significant(*constants.rotary_beta_fast, 6)));
  }
  const bool said = constants.rotary_scaling == (is_latent(model) ? "yarn" : "llama3");
  if (rotary && !constants.rotary_scaling.empty() && !said) {
    notes.push_back(fmt::format("the model's positions are stretched by {}, which MODEL leaves out",
                                constants.rotary_scaling));
  }
  return notes;
}

}  // namespace trainwright
