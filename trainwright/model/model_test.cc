#include "trainwright/model/model.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

Model model_of(std::string_view text) {
  auto model = parse_model(text, "config.json", kData);
  REQUIRE_MESSAGE(model, to_text(model.error()));
  return *std::move(model);
}

std::int64_t total_of(std::string_view text) { return parameters(model_of(text)).total().value(); }

// The class defaults of llama are Llama-2-7B.
constexpr std::string_view kLlama = R"({"model_type": "llama"})";

TEST_CASE("Llama-2-7B has 6,738,415,616 parameters") {
  // Layer: 4 x 4096^2 (attention) + 3 x 4096 x 11008 (gated) + 2 x 4096 (norms) = 202,383,360.
  // 32 layers + 2 x 32000 x 4096 (embedding, head) + 4096 (final norm).
  const Model model = model_of(kLlama);
  CHECK(parameters(layer_weights(model, model.kinds[0])).total() == Params(202'383'360));
  CHECK(parameters(model).total() == Params(32 * 202'383'360LL + 2 * 32000 * 4096 + 4096));
  CHECK(parameters(model).total() == Params(6'738'415'616));
  CHECK(active_parameters(model) == parameters(model));
}

TEST_CASE("parts add up to the total and are named after what they are") {
  const Parameters parts = parameters(model_of(kLlama));
  CHECK(parts.embedding == Params(32000 * 4096));
  CHECK(parts.head == Params(32000 * 4096));
  CHECK(parts.attention == Params(32LL * 4 * 4096 * 4096));
  CHECK(parts.feed_forward == Params(32LL * 3 * 4096 * 11008));
  CHECK(parts.norm == Params(65 * 4096));
  CHECK(parts.routed_experts == Params(0));
}

TEST_CASE("a tied head is stored once but still multiplied with") {
  const Model model = model_of(R"({"model_type": "llama", "tie_word_embeddings": true})");
  CHECK(parameters(model).head == Params(0));
  CHECK(parameters(model).total() == Params(6'738'415'616 - 32000 * 4096));
  const Flops head = token_flops(model, Tokens(1), AttentionPairs::Full).head;
  CHECK(head == Flops(2.0 * 4096 * 32000));
}

TEST_CASE("GPT-2 small is 124,439,808: biases, learned positions, a tied head") {
  CHECK(total_of(R"({"model_type": "gpt2"})") == 124'439'808);
}

TEST_CASE("a tied head keeps its bias") {
  // GPT-J: the vocabulary's biases remain when the matrix is the embedding's.
  const std::int64_t untied = total_of(R"({"model_type": "gptj"})");
  const std::int64_t tied = total_of(R"({"model_type": "gptj", "tie_word_embeddings": true})");
  CHECK(untied - tied == 50400LL * 4096);
}

TEST_CASE("Mixtral-8x7B has 46.7B parameters of which a token meets 12.9B") {
  // arXiv:2401.04088. Inactive: 6 of 8 experts of 3 x 4096 x 14336 in 32 layers.
  const Model model = model_of(R"({"model_type": "mixtral"})");
  CHECK(parameters(model).total() == Params(46'702'792'704));
  CHECK(active_parameters(model).total() == Params(46'702'792'704 - 32LL * 6 * 3 * 4096 * 14336));
}

TEST_CASE("DeepSeek-V3: 671B, an MTP module of 11.5B beside it, the first three layers dense") {
  const Model model = model_of(R"({"model_type": "deepseek_v3"})");
  CHECK(parameters(model).total() == Params(671'026'404'352));
  REQUIRE(model.kinds.size() == 2);
  CHECK(std::holds_alternative<Mlp>(model.kinds[0].feed_forward));
  CHECK(std::count(model.layers.begin(), model.layers.end(), LayerKindId(0)) == 3);
  // README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 11.5B beside the shared embedding and head;
  // active 36.7B with both. On the hub 684.5B: main model, module and its copies of both.
  const double mtp = mtp_parameters(model).total() / Params(1'000'000'000);
  CHECK(mtp == doctest::Approx(11.6).epsilon(0.01));
  const double active = active_parameters(model).total() / Params(1'000'000'000);
  CHECK(active == doctest::Approx(37.6).epsilon(0.005));
  const double copies = 2 * (Params(129280LL * 7168) / Params(1'000'000'000));
  CHECK(671.026 + mtp + copies == doctest::Approx(684.49).epsilon(0.0001));
}

TEST_CASE("layer kinds are few and in order of first appearance") {
  // Gemma 3: every sixth layer is full, the others slide.
  const Model model = model_of(R"({"model_type": "gemma3_text", "num_hidden_layers": 13})");
  REQUIRE(model.kinds.size() == 2);
  CHECK(std::get<SoftmaxAttention>(model.kinds[0].attention).reach == Reach::Sliding);
  CHECK(std::get<SoftmaxAttention>(model.kinds[1].attention).reach == Reach::Full);
  CHECK(std::count(model.layers.begin(), model.layers.end(), LayerKindId(1)) == 2);
  CHECK(model.layers[5] == LayerKindId(1));
}

TEST_CASE("an absent field means the class default, null means derive it") {
  // Qwen2's class has 32 key-value heads; null makes it as many as query heads.
  const auto kv = [](std::string_view text) {
    const Model model = model_of(text);
    return std::get<SoftmaxAttention>(model.kinds[0].attention).kv_heads;
  };
  CHECK(kv(R"({"model_type": "qwen2", "num_attention_heads": 64})") == 32);
  CHECK(kv(R"({"model_type": "qwen2", "num_attention_heads": 64, "num_key_value_heads": null})") ==
        64);
}

TEST_CASE("OPT-350m's narrow embedding has projections, and its norms stand after the residual") {
  const Model model = model_of(
      R"({"model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096,
          "num_attention_heads": 16, "word_embed_proj_dim": 512, "do_layer_norm_before": false})");
  CHECK(parameters(model).total() == Params(331'196'416));  // the count of facebook/opt-350m
  CHECK(model.final_norm == Norm::None);
  CHECK(model.kinds[0].norm_after_residual);
}

TEST_CASE("the text model of a multimodal wrapper is read, saying what is left out") {
  const Model model = model_of(
      R"({"model_type": "gemma3", "tie_word_embeddings": false, "image_token_index": 262144,
          "text_config": {"hidden_size": 2560, "num_hidden_layers": 34, "vocab_size": 262208,
                          "intermediate_size": 9216},
          "vision_config": {"hidden_size": 1152}})");
  CHECK(model.family == "gemma3_text");
  CHECK(model.hidden == 2560);
  CHECK(!model.tied);
  REQUIRE(model.notes.size() == 1);
  CHECK(model.notes[0] == "this is the text model of gemma3; vision_config is left out");
}

TEST_CASE("the text model of a config that keeps its tower beside it") {
  const Model model = model_of(
      R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_hidden_layers": 28,
          "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
          "vocab_size": 152064, "vision_config": {"depth": 32}})");
  CHECK(parameters(model).total() == Params(7'615'616'512));  // Qwen2.5-7B
  REQUIRE(model.notes.size() == 1);
  CHECK(model.notes[0] == "this is the text model of qwen2_5_vl; vision_config is left out");
}

TEST_CASE("families that bring their own code have the totals they publish") {
  // Qwen-7B counts gate and up together.
  CHECK(total_of(R"({"model_type": "qwen"})") == 7'721'324'544);
  const Model baichuan = model_of(
      R"({"model_type": "baichuan", "vocab_size": 64000, "hidden_size": 5120,
          "intermediate_size": 13696, "num_hidden_layers": 40, "num_attention_heads": 40,
          "model_max_length": 4096})");
  CHECK(parameters(baichuan).total() == Params(13'264'901'120));
  CHECK(baichuan.positions == Positions::Alibi);
}

TEST_CASE("a field the class does not act upon is noted, not followed") {
  const Model model =
      model_of(R"({"model_type": "mpt", "expansion_ratio": 3, "d_model": 2048, "n_layers": 24,
                        "vocab_size": 50368})");
  REQUIRE(model.notes.size() == 1);
  CHECK(model.notes[0] ==
        "expansion_ratio is 3, but is taken as 4: the class is always 4 x hidden wide");
  CHECK(parameters(model).total() == Params(total_of(R"({"model_type": "mpt"})")));
}

TEST_CASE("ten trillion parameters, 1,024 experts and a million tokens are counted exactly") {
  const Model model = model_of(
      R"({"model_type": "deepseek_v3", "hidden_size": 16384, "num_hidden_layers": 100,
          "n_routed_experts": 1024, "moe_intermediate_size": 2048, "num_experts_per_tok": 8,
          "max_position_embeddings": 1048576})");
  // The experts alone: 97 layers x 1024 x 3 x 16384 x 2048.
  CHECK(parameters(model).routed_experts == Params(97LL * 1024 * 3 * 16384 * 2048));
  CHECK(parameters(model).total() > Params(10'000'000'000'000));
  const TokenFlops flops = token_flops(model, Tokens(1 << 20), AttentionPairs::Causal);
  // 128 heads x 2 x (192 + 128) x (2^20 + 1) / 2 per layer.
  CHECK(flops.attention_core == Flops(100 * 128 * 320.0 * ((1 << 20) + 1)));
}

TEST_CASE("a config is found by path, by directory and by its zoo name") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / "trainwright_model_test";
  fs::create_directories(root / "models");
  fs::create_directories(root / "tiny-llama");
  fs::copy(fs::path(kData) / "families", root / "families",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  std::ofstream(root / "tiny-llama" / "config.json") << kLlama;
  std::ofstream(root / "models" / "tiny.json")
      << R"({"name": "tiny", "source": "made up", "config": {"model_type": "gpt2"}})";
  const std::string data = root.string();
  CHECK(read_model((root / "tiny-llama").string(), kData).value().name == "tiny-llama");
  CHECK(read_model((root / "tiny-llama" / "config.json").string(), kData).value().name ==
        "tiny-llama");
  CHECK(find_model("Tiny", data).value().family == "gpt2");
  CHECK(find_model((root / "models" / "tiny.json").string(), data).value().family == "gpt2");
  const auto missing = find_model("tinny", data);
  REQUIRE(!missing);
  CHECK(missing.error().diagnostics[0].hint == "did you mean 'tiny'?");
  fs::remove_all(root);
}

TEST_CASE("the report's totals are the sums of its parts") {
  const Json report = model_report(model_of(R"({"model_type": "qwen3_next"})"), Tokens(4096));
  const Json* counts = report.find("parameters");
  std::int64_t sum = 0;
  for (const auto& [name, value] : counts->find("parts")->members) {
    if (name != "total") sum += value.integer;
  }
  CHECK(counts->find("total")->integer == sum);
  CHECK(sum == 79'674'391'296);
  std::int64_t layers = 0;
  for (const Json& kind : counts->find("kinds")->items) layers += kind.find("layers")->integer;
  CHECK(layers == 48);
}

}  // namespace
}  // namespace trainwright
