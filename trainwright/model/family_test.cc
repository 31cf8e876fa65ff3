// Families as files: members, likeness, words of layers, conditions, formulas.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/model/formula.h"
#include "trainwright/model/model.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

Model model_of(std::string_view text) {
  auto model = parse_model(text, "c.json", kData);
  REQUIRE_MESSAGE(model, to_text(model.error()));
  return *std::move(model);
}

std::string fault_of(std::string_view text) {
  const auto model = parse_model(text, "c.json", kData);
  REQUIRE(!model);
  return to_text(model.error());
}

std::optional<std::int64_t> value_of(std::string_view formula) {
  return detail::evaluate(formula, [](std::string_view name) -> std::optional<std::int64_t> {
    if (name == "hidden") return 100;
    return std::nullopt;
  });
}

}  // namespace

TEST_CASE("a formula is read from left to right, products first, and rounds down or up") {
  CHECK(value_of("2 * hidden + 1") == 201);
  CHECK(value_of("2 * hidden / 3") == 66);
  CHECK(value_of("2 * hidden / 3 ^/ 64 * 64") == 128);
  CHECK(value_of("(hidden - 40) * other:3") == 180);
  CHECK(value_of("hidden:7") == 100);
}

TEST_CASE("a formula without a number for a name, over nothing, or beyond 64 bits has no value") {
  CHECK(value_of("hidden * other") == std::nullopt);
  CHECK(value_of("hidden / (hidden - 100)") == std::nullopt);
  CHECK(value_of("4000000000 * 4000000000") == std::nullopt);
  CHECK(value_of("hidden +") == std::nullopt);
  CHECK(value_of("hidden hidden") == std::nullopt);
  CHECK(value_of("") == std::nullopt);
}

TEST_CASE("a config may bring its family: another one but for what it says") {
  // Per layer: 4 x 8 x 8 attention, 2 x 8 x 16 without a gate, two norms and a vector of 8; then
  // 2 x 10 x 8 for the vocabulary and the final norm.
  const Model model = model_of(R"({"model_type": "mine", "vocab_size": 10, "hidden_size": 8,
      "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16, "scale": true,
      "family": {"like": "llama", "gated": false, "ignored": ["scale"],
                 "extras": [{"name": "scale", "part": "norm", "out": "hidden"}]}})");
  CHECK(model.family == "mine");
  CHECK(parameters(model).total() == Params(3 * (256 + 256 + 16 + 8) + 160 + 8));
}

TEST_CASE("faults of a family have their places in it") {
  CHECK(fault_of(R"({"model_type": "mine", "family": {"like": "nobody"}})")
            .find("there is no family 'nobody' to be like") != std::string::npos);
  CHECK(fault_of(R"({"model_type": "mine", "family": {"like": "llama", "withd": 5}})")
            .find("/family/withd: is no member of a family\n  hint: did you mean 'width'") !=
        std::string::npos);
  CHECK(fault_of(R"({"model_type": "mine", "family": {"norms": "beside"}})")
            .find("before, after, around, shared or after_residual") != std::string::npos);
}

TEST_CASE("a model_type that is a path is no family's name") {
  CHECK(fault_of(R"({"model_type": "../models/gpt2"})").find("is not known") != std::string::npos);
}

TEST_CASE("layers of other shapes: by word, by list and by number") {
  // Gemma 4: heads of 512 in full layers, which are every sixth.
  const Model gemma = model_of(R"({"model_type": "gemma4_text", "num_hidden_layers": 6})");
  REQUIRE(gemma.kinds.size() == 2);
  CHECK(std::get<SoftmaxAttention>(gemma.kinds[0].attention).head_dim == 256);
  CHECK(std::get<SoftmaxAttention>(gemma.kinds[1].attention).head_dim == 512);
  const Model own = model_of(R"({"model_type": "gemma4_text", "num_hidden_layers": 6,
      "per_layer_config": {"05": {"head_dim": 128}}})");
  CHECK(std::get<SoftmaxAttention>(own.kinds[1].attention).head_dim == 128);
  const Model widths = model_of(R"({"model_type": "gemma3n_text", "num_hidden_layers": 2,
      "num_kv_shared_layers": 0, "intermediate_size": [64, 96]})");
  CHECK(std::get<Mlp>(widths.kinds[1].feed_forward).width == 96);
}

TEST_CASE(
    "layers as published configs have them: numbers for words, and indices that begin with 1") {
  // deepseek-ai/DeepSeek-V4-Flash: a number for each layer and one for the prediction layer.
  const Model deepseek = model_of(R"({"model_type": "deepseek_v4", "num_hidden_layers": 3,
      "compress_ratios": [0, 4, 128, 0]})");
  REQUIRE(deepseek.kinds.size() == 3);
  for (const auto [layer, ratio] : {std::pair(0, 0), std::pair(1, 4), std::pair(2, 128)}) {
    const auto& attention = deepseek.kinds[static_cast<std::size_t>(layer)].attention;
    CHECK(std::get<CompressedAttention>(attention).ratio == ratio);
  }
  CHECK(fault_of(R"({"model_type": "deepseek_v4", "num_hidden_layers": 1,
      "compress_ratios": [5]})")
            .find("'5' is not a known layer type") != std::string::npos);
  // moonshotai/Kimi-Linear-48B-A3B: the fourth layer is the first with softmax attention.
  const Model kimi = model_of(R"({"model_type": "kimi_linear", "num_hidden_layers": 4,
      "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]}})");
  const auto& last = kimi.kinds[kimi.layers[3].at()].attention;
  CHECK(std::holds_alternative<LatentAttention>(last));
  CHECK(std::holds_alternative<GatedDeltaNet>(kimi.kinds[kimi.layers[2].at()].attention));
}

TEST_CASE("what was not compared with layers that run is said") {
  const auto says = [](const Model& model, std::string_view what) {
    return std::any_of(model.notes.begin(), model.notes.end(), [&](const std::string& note) {
      return note.find(what) != std::string::npos && note.find("not compared") != std::string::npos;
    });
  };
  CHECK(says(model_of(R"({"model_type": "kimi_linear"})"), "Kimi delta attention"));
  CHECK(says(model_of(R"({"model_type": "gemma3n_text"})"), "per-layer embeddings"));
  CHECK(!says(model_of(R"({"model_type": "deepseek_v32"})"), ""));
}

TEST_CASE("an indexer limits what a query attends to, and runs forward only") {
  const Model model = model_of(R"({"model_type": "deepseek_v32", "num_hidden_layers": 1})");
  const auto& attention = model.kinds[0].attention;
  // 2,048 keys at most: of 4,096 tokens the first 2,048 see (1 + 2048) / 2 in the mean.
  CHECK(keys_per_query(attention, Tokens(4096), AttentionPairs::Causal) ==
        (2048 * 2049 / 2 + 2048.0 * 2048) / 4096);
  // 64 heads of 128 score all keys before them, and are summed up.
  CHECK(index_flops(attention, Tokens(4096), AttentionPairs::Causal) ==
        Flops(2 * 64 * 129 * 4097 / 2.0));
  const TokenFlops flops = token_flops(model, Tokens(4096), AttentionPairs::Causal);
  CHECK(flops.backward() == (flops.forward() - flops.without_gradient) * 2);
}

TEST_CASE("hyper-connections: streams, their mixing weights and what mixes them") {
  const Model model = model_of(R"({"model_type": "deepseek_v4", "num_hidden_layers": 2})");
  CHECK(model.streams == 4);
  // transformers 5.23.0, DeepseekV4HyperConnection: (2 + 4) 4 x 4 hidden, as many and 3 numbers.
  Params mix;
  for (const Weight& weight : layer_weights(model, model.kinds[0])) {
    if (weight.name.starts_with("attention_mix")) mix += size_of(weight);
  }
  CHECK(mix == Params(24 * 4 * 4096 + 24 + 3));
}

}  // namespace trainwright
