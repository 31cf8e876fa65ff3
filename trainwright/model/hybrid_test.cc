// Mamba-2 and the families that have it.
#include <doctest/doctest.h>

#include "trainwright/model/model.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

Model model_of(std::string_view text) {
  auto model = parse_model(text, "config.json", kData);
  REQUIRE_MESSAGE(model, to_text(model.error()));
  return *std::move(model);
}

std::string fault_of(std::string_view text) {
  const auto model = parse_model(text, "config.json", kData);
  REQUIRE(!model);
  return to_text(model.error());
}

// 4 heads of 3 channels in 2 groups with 5 states each, behind 4 taps; chunks of 16.
std::string nemotron(std::string_view more) {
  return std::string(R"({"model_type": "nemotron_h", "vocab_size": 100, "hidden_size": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2, "intermediate_size": 20,
    "mamba_num_heads": 4, "mamba_head_dim": 3, "n_groups": 2, "ssm_state_size": 5,
    "conv_kernel": 4, "chunk_size": 16, "n_routed_experts": 6, "num_experts_per_tok": 2,
    "moe_intermediate_size": 10, "moe_shared_expert_intermediate_size": 12, )") +
         std::string(more) + "}";
}

const LayerKind& kind_of(const Model& model, std::size_t layer) {
  return model.kinds[model.layers[layer].at()];
}

std::int64_t size_of_layer(const Model& model, std::size_t layer) {
  return parameters(layer_weights(model, kind_of(model, layer))).total().value();
}

TEST_CASE("each letter of a pattern is a layer of one branch with one norm") {
  const Model model = model_of(nemotron(R"("hybrid_override_pattern": "M*-EM")"));
  REQUIRE(model.layers.size() == 5);
  CHECK(model.kinds.size() == 4);
  CHECK(model.layers[0] == model.layers[4]);
  // Mamba-2: 12 channels; 12 + 2 x 2 x 5 = 32 go through the convolution. In: 8 x (12 + 32 + 4),
  // taps and biases 5 x 32, three numbers a head, the norm's 12, out 12 x 8; the layer's norm 8.
  CHECK(size_of_layer(model, 0) == 8 * 48 + 5 * 32 + 3 * 4 + 12 + 12 * 8 + 8);
  // Attention: 4 query and 2 key and value heads of 2.
  CHECK(size_of_layer(model, 1) == 8 * 8 + 2 * 8 * 4 + 8 * 8 + 8);
  CHECK(size_of_layer(model, 2) == 2 * 8 * 20 + 8);
  // Router, 6 experts of 10, shared ones of 12, none gated.
  CHECK(size_of_layer(model, 3) == 8 * 6 + 6 * 2 * 8 * 10 + 2 * 8 * 12 + 8);
  CHECK(std::holds_alternative<NoFeedForward>(kind_of(model, 0).feed_forward));
  CHECK(std::holds_alternative<NoAttention>(kind_of(model, 2).attention));
  CHECK_FALSE(std::get<SoftmaxAttention>(kind_of(model, 1).attention).rotary);
}

TEST_CASE("layers may be listed by name, in old and new words") {
  const Model letters = model_of(nemotron(R"("hybrid_override_pattern": "M*-E")"));
  for (const std::string_view words : {R"("mamba", "attention", "mlp", "moe")",
                                       R"("linear_attention", "full_attention", "mlp", "moe")"}) {
    const Model named = model_of(nemotron(R"("layers_block_type": [)" + std::string(words) + "]"));
    CHECK(named == letters);
  }
}

TEST_CASE("a config may hold Infinity, as Python writes it") {
  const Model model =
      model_of(nemotron(R"("hybrid_override_pattern": "M", "time_step_limit": [0.0, Infinity])"));
  CHECK(model == model_of(nemotron(R"("hybrid_override_pattern": "M")")));
  CHECK(fault_of(nemotron(R"("hybrid_override_pattern": "Infinity")")).find("letter 1") !=
        std::string::npos);
}

TEST_CASE("a prediction module of a hybrid is attention and experts in one layer") {
  const Model model =
      model_of(nemotron(R"("hybrid_override_pattern": "ME", "num_nextn_predict_layers": 2,
                  "mtp_hybrid_override_pattern": "*E")"));
  REQUIRE(model.mtp.size() == 2);
  const LayerKind& kind = model.kinds[model.mtp[0].at()];
  CHECK(std::holds_alternative<SoftmaxAttention>(kind.attention));
  CHECK(std::holds_alternative<MixtureOfExperts>(kind.feed_forward));
  CHECK(kind.before_feed_forward == Norm::Rms);
}

TEST_CASE("experts may work on fewer channels, with a matrix on either side") {
  const Model wide = model_of(nemotron(R"("hybrid_override_pattern": "E")"));
  const Model narrow =
      model_of(nemotron(R"("hybrid_override_pattern": "E", "moe_latent_size": 3)"));
  CHECK(size_of_layer(wide, 0) - size_of_layer(narrow, 0) == 6 * 2 * (8 - 3) * 10 - 2 * 8 * 3);
}

TEST_CASE("faults of a pattern say which letter and which number") {
  CHECK(fault_of(nemotron(R"("hybrid_override_pattern": "MX")")).find("letter 2") !=
        std::string::npos);
  CHECK(fault_of(nemotron(R"("hybrid_override_pattern": "M*", "num_hidden_layers": 3)"))
            .find("is 3, but 2 layers are listed") != std::string::npos);
  CHECK(fault_of(nemotron(R"("hybrid_override_pattern": "")")).find("names no layer") !=
        std::string::npos);
  CHECK(fault_of(nemotron(R"("layers_block_type": ["conv"])")).find("'conv'") != std::string::npos);
  CHECK(fault_of(R"({"model_type": "nemotron_h", "n_groups": 3, "layers_block_type": ["mamba"]})")
            .find("3 groups do not divide 128 state-space heads") != std::string::npos);
}

TEST_CASE("Bamba has a feed-forward in every layer and attention where it is listed") {
  const Model model = model_of(R"({"model_type": "bamba", "num_hidden_layers": 4,
    "attn_layer_indices": [2], "mamba_d_head": "auto"})");
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::holds_alternative<Mlp>(kind_of(model, i).feed_forward));
    CHECK(std::holds_alternative<Mamba2>(kind_of(model, i).attention) == (i != 2));
  }
  // 2 x 4096 channels of 128 heads.
  CHECK(std::get<Mamba2>(kind_of(model, 0).attention).head_dim == 64);
  CHECK(fault_of(R"({"model_type": "bamba", "mamba_d_head": 32})")
            .find("128 heads of 32 do not make a state-space width of 8192") != std::string::npos);
}

TEST_CASE("Falcon-H1 has Mamba-2 beside attention in every layer") {
  const Model model = model_of(R"({"model_type": "falcon_h1", "num_hidden_layers": 2})");
  REQUIRE(model.kinds.size() == 1);
  const LayerKind& kind = model.kinds[0];
  CHECK(std::holds_alternative<SoftmaxAttention>(kind.attention));
  REQUIRE(kind.beside_attention);
  // 1024 channels of 128 heads; without a norm of its own unless the config asks.
  CHECK(kind.beside_attention->head_dim == 8);
  CHECK(kind.beside_attention->output_norm == Norm::None);
  const Attention alone = *kind.beside_attention;
  const Tokens s(256);
  CHECK(attention_core_flops(kind, s, AttentionPairs::Full) ==
        attention_core_flops(kind.attention, s, AttentionPairs::Full) +
            attention_core_flops(alone, s, AttentionPairs::Full));
}

TEST_CASE("the scan of Mamba-2 is squares of chunks and products with states") {
  const Model model = model_of(nemotron(R"("hybrid_override_pattern": "M")"));
  const Attention& mamba = model.kinds[0].attention;
  // 40 tokens: chunks of 16, 16 and 8, on average (256 + 256 + 64) / 40 = 14.4 tokens to meet.
  // 2 x 14.4 x (2 groups x 5 states + 12 channels) + 4 x 12 x 5.
  for (const AttentionPairs pairs : {AttentionPairs::Full, AttentionPairs::Causal}) {
    CHECK(attention_core_flops(mamba, Tokens(40), pairs).value() ==
          doctest::Approx(2 * 14.4 * 22 + 240));
  }
  // Of whole chunks the length does not matter.
  CHECK(attention_core_flops(mamba, Tokens(16), AttentionPairs::Full) == Flops(2 * 16 * 22 + 240));
  CHECK(attention_core_flops(mamba, Tokens(1600), AttentionPairs::Full) ==
        Flops(2 * 16 * 22 + 240));
  // In and out, and 4 taps on 32 channels.
  CHECK(token_flops(model, Tokens(40), AttentionPairs::Full).projections ==
        Flops(2 * (8 * 48 + 12 * 8) + 2 * 4 * 32));
}

TEST_CASE("Megatron counts seven operations a state and twice the hidden size as width") {
  const Model model = model_of(nemotron(R"("hybrid_override_pattern": "M")"));
  // training.py mamba_layer_flops with d_in = 16: 2 x 8 x (32 + 20 + 4) + 7 x 16 x 5 + 2 x 16 x 8.
  const double layer = 2 * 8 * 56 + 7 * 16 * 5 + 2 * 16 * 8;
  CHECK(megatron_token_flops(model, Tokens(64), 128) == Flops(3 * (layer + 2 * 8 * 128)));
}

}  // namespace
}  // namespace trainwright
