// A model as arguments of Megatron-LM (megatron/training/arguments.py of 0.12 to 0.19).
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

// [0]*3+[1]*58: which layers have experts.
std::string expert_pattern(const Model& model) {
  std::string text;
  for (std::size_t first = 0; first < model.layers.size();) {
    const auto sparse = [&](std::size_t layer) {
      return std::holds_alternative<MixtureOfExperts>(
          model.kinds[model.layers[layer].at()].feed_forward);
    };
    std::size_t end = first;
    while (end < model.layers.size() && sparse(end) == sparse(first)) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", sparse(first) ? 1 : 0, end - first);
    first = end;
  }
  return '(' + text + ')';
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

void say_experts(Arguments& arguments, const Model& model, const MixtureOfExperts& experts) {
  arguments.number("--num-experts", experts.experts);
  arguments.number("--moe-router-topk", experts.experts_per_token);
  arguments.number("--moe-ffn-hidden-size", experts.expert.width);
  if (experts.shared) {
    arguments.number("--moe-shared-expert-intermediate-size", experts.shared->width);
  }
  if (dense_of(model) != nullptr) arguments.text("--moe-layer-freq", expert_pattern(model));
}

bool has_bias(const FeedForward& feed_forward) {
  if (const auto* mlp = std::get_if<Mlp>(&feed_forward)) return mlp->bias;
  return std::get<MixtureOfExperts>(feed_forward).expert.bias;
}

bool is_hybrid(const LayerKind& kind) {
  return kind.beside_attention || std::holds_alternative<Mamba2>(kind.attention) ||
         std::holds_alternative<NoAttention>(kind.attention) ||
         std::holds_alternative<NoFeedForward>(kind.feed_forward);
}

// What the layers have that no argument says, or that differs between them.
std::string beyond_arguments(const Model& model) {
  for (const LayerKind& kind : model.kinds) {
    if (kind.attention != model.kinds[0].attention) return "layers whose attention differs";
    if (kind.parallel || kind.norm_after_residual || kind.after_attention != Norm::None ||
        kind.after_feed_forward != Norm::None) {
      return "where its layers have norms";
    }
  }
  const LayerKind& first = model.kinds[0];
  if (std::holds_alternative<GatedDeltaNet>(first.attention) ||
      std::holds_alternative<LightningAttention>(first.attention)) {
    return "linear attention";
  }
  if (const auto* softmax = std::get_if<SoftmaxAttention>(&first.attention)) {
    if (softmax->reach != Reach::Full || softmax->sinks || softmax->softcap ||
        softmax->output_gate || (softmax->qk_norm != Norm::None && !softmax->qk_norm_per_head)) {
      return "its attention";
    }
  }
  const auto* experts = experts_of(model);
  if (experts != nullptr && (experts->shared_gate || experts->score_correction_trained)) {
    return "its router";
  }
  if (model.positions == Positions::Alibi) return "positions by ALiBi";
  if (model.embedding_norm != Norm::None || model.head_bias || model.logit_softcap ||
      model.embedding_width != model.hidden) {
    return "its embedding or head";
  }
  return "";
}

std::optional<std::string> norm_name(Norm norm) {
  if (norm == Norm::Rms) return "RMSNorm";
  if (norm == Norm::Layer) return "LayerNorm";
  return std::nullopt;
}

bool say_activation(Arguments& arguments, const Mlp& mlp, bool bias) {
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

Result<std::vector<Setting>> megatron_model(const Model& model, std::int64_t sequence) {
  if (std::any_of(model.kinds.begin(), model.kinds.end(), is_hybrid)) {
    return fail(model.name, "the arguments of hybrids (--hybrid-override-pattern) are not written",
                "write the model's own arguments into settings.sh");
  }
  if (const std::string what = beyond_arguments(model); !what.empty()) {
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
  if (!say_activation(arguments, any, bias)) return not_sayable(model, "its activation");
  if (softmax != nullptr && softmax->output_bias != bias) return not_sayable(model, "its biases");
  arguments.text("--normalization", *norm);
  if (model.positions != Positions::Learned) {
    arguments.text("--position-embedding-type",
                   model.positions == Positions::Rotary ? "rope" : "none");
  }
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

}  // namespace trainwright
