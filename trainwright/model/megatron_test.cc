// Configs in the words of Megatron-LM's arguments.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/model/layer_pattern.h"
#include "trainwright/model/model.h"
#include "trainwright/testing/published_sizes.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

Model model_of(std::string_view text) {
  auto model = parse_model(text, "config.json", kData);
  REQUIRE_MESSAGE(model, to_text(model.error()));
  return *std::move(model);
}

// A small model with four layers and 8 heads of 64; `more` begins with a comma.
Model small(std::string_view more) {
  return model_of(fmt::format(R"({{"model_type": "megatron", "num_layers": 4, "hidden_size": 512,
    "num_attention_heads": 8, "vocab_size": 50257, "max_position_embeddings": 1024{}}})",
                              more));
}

Diagnostics faults_of(std::string_view more) {
  const auto model =
      parse_model(fmt::format(R"({{"model_type": "megatron", "num_layers": 4, "hidden_size": 512,
        "num_attention_heads": 8, "vocab_size": 50257, "max_position_embeddings": 1024{}}})",
                              more),
                  "c.json", kData);
  REQUIRE(!model);
  return model.error().diagnostics;
}

const Mlp& mlp_of(const Model& model) { return std::get<Mlp>(model.kinds[0].feed_forward); }
const MixtureOfExperts& experts_of(const Model& model) {
  return std::get<MixtureOfExperts>(model.kinds.back().feed_forward);
}

// Equal but for what the model is called, and for what the arguments do not say of its constants.
void check_same(Model read, const Model& wanted) {
  read.constants = wanted.constants;
  read.name = wanted.name;
  read.family = wanted.family;
  read.notes = wanted.notes;
  read.style = wanted.style;
  CHECK_MESSAGE(read == wanted, to_text(to_json(read)) << "\n" << to_text(to_json(wanted)));
}

const ZooEntry& known(std::string_view name) {
  static const auto zoo = load_zoo(std::string(TRAINWRIGHT_SOURCE_DIR) + "/data");
  REQUIRE(zoo);
  const auto found = std::find_if(zoo->begin(), zoo->end(),
                                  [&](const ZooEntry& entry) { return entry.model.name == name; });
  REQUIRE(found != zoo->end());
  return *found;
}

TEST_CASE("Megatron's defaults: LayerNorm, biases, learned positions, tied, 4 h, dropout 0.1") {
  // arguments.py and transformer_config.py of core_v0.16.1.
  const Model model = small("");
  Model wanted = model_of(
      R"({"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8, "vocab_size": 50257,
          "n_positions": 1024, "resid_pdrop": 0.1, "attn_pdrop": 0.1})");
  check_same(model, wanted);
  CHECK(mlp_of(model).width == 2048);
  CHECK(model_of(R"({"model_type": "megatron_gpt", "num_layers": 4, "hidden_size": 512,
    "num_attention_heads": 8, "vocab_size": 50257, "max_position_embeddings": 1024})") == model);
}

TEST_CASE("SwiGLU without a width has two thirds of 4 h in whole multiples of 64") {
  // int(4 x 512 x 2/3 / 64) x 64 = int(21.33) x 64 = 1344.
  const Model model = small(R"(, "swiglu": true)");
  CHECK(mlp_of(model) == Mlp{.width = 1344, .gated = true, .bias = true});
}

TEST_CASE("GELU has the tanh form where it is fused with a bias, and the exact one elsewhere") {
  CHECK(mlp_of(small("")).activation == Activation::GeluTanh);
  CHECK(mlp_of(small(R"(, "bias_gelu_fusion": false)")).activation == Activation::Gelu);
  CHECK(mlp_of(small(R"(, "disable_bias_linear": true)")).activation == Activation::Gelu);
  CHECK(mlp_of(small(R"(, "activation_func": "relu")")).activation == Activation::Relu);
  CHECK(mlp_of(small(R"(, "squared_relu": true)")).activation == Activation::SquaredRelu);
}

TEST_CASE("shapes of published tables: own heads, ReLU, groups of queries, either dropout alone") {
  // Sailor's OPT-350M and GPT-Neo-2.7B, PaddleNLP's GPT-3, Megatron-LM's test with 8 groups.
  const auto gpt2 = [](std::string_view more) {
    return model_of(fmt::format(R"({{"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8,
          "vocab_size": 50257, "n_positions": 1024{}}})",
                                more));
  };
  check_same(small(R"(, "activation_func": "relu", "hidden_dropout": 0, "attention_dropout": 0,
                       "untie_embeddings_and_output_weights": true)"),
             gpt2(R"(, "activation_function": "relu", "tie_word_embeddings": false)"));
  check_same(small(R"(, "activation_func": "gelu", "attention_dropout": 0,
                       "untie_embeddings_and_output_weights": true)"),
             gpt2(R"(, "activation_function": "gelu", "resid_pdrop": 0.1,
                      "tie_word_embeddings": false)"));
  check_same(small(R"(, "ffn_hidden_size": 1536, "hidden_dropout": 0)"),
             gpt2(R"(, "n_inner": 1536, "attn_pdrop": 0.1)"));
  Model grouped = gpt2(R"(, "resid_pdrop": 0.1, "attn_pdrop": 0.1)");
  std::get<SoftmaxAttention>(grouped.kinds[0].attention).kv_heads = 2;
  check_same(small(R"(, "group_query_attention": true, "num_query_groups": 2)"), grouped);
}

TEST_CASE("a Llama in Megatron's words is that Llama") {
  // What run_pretrain scripts of Llama-2-7B say; megatron/core's RMSNorm has a gain alone.
  check_same(model_of(R"({"model_type": "megatron", "num_layers": 32, "hidden_size": 4096,
    "ffn_hidden_size": 11008, "num_attention_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 4096, "position_embedding_type": "rope", "swiglu": true,
    "normalization": "RMSNorm", "disable_bias_linear": true, "hidden_dropout": 0,
    "attention_dropout": 0, "untie_embeddings_and_output_weights": true})"),
             known("llama-2-7b").model);
}

TEST_CASE("published models of Megatron-LM have their sizes when written as its arguments") {
  for (const char* name : {"gpt3-175b", "megatron-22b", "megatron-530b", "megatron-1t"}) {
    const Model& wanted = known(name).model;
    const auto& attention = std::get<SoftmaxAttention>(wanted.kinds[0].attention);
    Model model = model_of(fmt::format(
        R"({{"model_type": "megatron", "num_layers": {}, "hidden_size": {},
             "num_attention_heads": {}, "vocab_size": {}, "max_position_embeddings": {},
             "hidden_dropout": 0, "attention_dropout": 0}})",
        wanted.layers.size(), wanted.hidden, attention.heads, wanted.vocabulary,
        wanted.sequence_most));
    check_same(model, wanted);
    CHECK(testing::disagreements({model, "", {}, known(name).published}).empty());
  }
}

TEST_CASE("DeepSeek-V3 cut to a few layers is written as its own config or as Megatron's") {
  // As SimuMax ran it: one dense layer, then experts; no module for further tokens.
  Model wanted = known("deepseek-v3").model;
  wanted.layers.assign(5, wanted.layers.back());
  wanted.layers.front() = LayerKindId(0);
  wanted.mtp.clear();
  ++wanted.vocabulary;
  check_same(model_of(R"({"model_type": "deepseek_v3", "num_hidden_layers": 5,
    "first_k_dense_replace": 1, "num_nextn_predict_layers": 0, "vocab_size": 129281,
    "max_position_embeddings": 163840})"),
             wanted);
  check_same(model_of(R"({"model_type": "megatron", "num_layers": 5, "hidden_size": 7168,
    "ffn_hidden_size": 18432, "num_attention_heads": 128, "vocab_size": 129280,
    "tokenizer_type": "NullTokenizer", "max_position_embeddings": 163840,
    "position_embedding_type": "rope", "swiglu": true, "normalization": "RMSNorm",
    "disable_bias_linear": true, "untie_embeddings_and_output_weights": true,
    "hidden_dropout": 0, "attention_dropout": 0, "qk_layernorm": true,
    "multi_latent_attention": true, "q_lora_rank": 1536, "kv_lora_rank": 512,
    "num_experts": 256, "moe_router_topk": 8, "moe_ffn_hidden_size": 2048,
    "moe_shared_expert_intermediate_size": 2048, "moe_router_enable_expert_bias": true,
    "moe_layer_freq": "[0]*1+[1]*4"
})"),
             wanted);
}

TEST_CASE("latents have norms only with qk_layernorm, and biases only behind attention") {
  // 4 layers: down 512 x (16 + 64), up 16 x 8 x (128 + 128), query 512 x 8 x 192,
  // output 8 x 128 x 512 and its bias of 512.
  const auto latent = [](std::string_view more) {
    const Model model = small(
        std::string(R"(, "multi_latent_attention": true, "kv_lora_rank": 16)") + std::string(more));
    return parameters(model).attention.value();
  };
  constexpr std::int64_t kLayer = 512 * 80 + 16 * 8 * 256 + 512 * 8 * 192 + 8 * 128 * 512 + 512;
  CHECK(latent("") == 4 * kLayer);
  CHECK(latent(R"(, "qk_layernorm": true)") == 4 * (kLayer + 2 * 16));
  CHECK(latent(R"(, "qk_layernorm": true, "normalization": "RMSNorm")") == 4 * (kLayer + 16));
}

TEST_CASE("moe_layer_freq: every n-th from the first, a list, or a pattern") {
  const auto places = [](std::string_view frequency) {
    const Model model =
        small(fmt::format(R"(, "num_experts": 8, "moe_layer_freq": {})", frequency));
    std::string text;
    for (const LayerKindId id : model.layers) {
      text += std::holds_alternative<Mlp>(model.kinds[id.at()].feed_forward) ? '0' : '1';
    }
    return text;
  };
  CHECK(places("1") == "1111");
  CHECK(places("2") == "1010");
  CHECK(places("\"3\"") == "1001");
  CHECK(places("[0, 1, 1, 0]") == "0110");
  CHECK(places("\"([0]*1+[1]*3)\"") == "0111");
}

TEST_CASE("experts are as wide as the dense layers unless moe_ffn_hidden_size says otherwise") {
  const Model model = small(R"(, "num_experts": 8, "ffn_hidden_size": 768)");
  CHECK(experts_of(model).expert.width == 768);
  CHECK(experts_of(model).experts_per_token == 2);
  CHECK(experts_of(model).router_bias);  // moe/router.py: with add_bias_linear
  CHECK(!experts_of(model).shared);
  CHECK(model.kinds.size() == 1);
  CHECK(experts_of(small(R"(, "num_experts": 8, "moe_ffn_hidden_size": 96)")).expert.width == 96);
  // What is switched off does nothing, as in a dump of all arguments.
  CHECK(small(R"(, "num_experts": null, "moe_router_topk": 4, "moe_layer_freq": 2,
                  "num_query_groups": 1, "kv_lora_rank": 32)") == small(""));
}

TEST_CASE("a module for further tokens is a layer like the last one") {
  const Model model = small(R"(, "position_embedding_type": "rope", "mtp_num_layers": 2,
    "num_experts": 8, "moe_layer_freq": "[0]*3+[1]")");
  CHECK(model.mtp == std::vector{LayerKindId(1), LayerKindId(1)});
}

TEST_CASE("windows and layers without positions come every n-th layer or as listed") {
  const Model model = small(R"(, "position_embedding_type": "rope", "window_size": [127, 0],
    "window_attn_skip_freq": 2, "no_rope_freq": [0, 0, 1, 0], "softmax_type": "learnable")");
  REQUIRE(model.kinds.size() == 3);
  const auto attention = [&](std::size_t layer) {
    return std::get<SoftmaxAttention>(model.kinds[model.layers[layer].at()].attention);
  };
  CHECK(attention(0).window == 128);
  CHECK(attention(1).reach == Reach::Full);
  CHECK(attention(2).reach == Reach::Sliding);
  CHECK(!attention(2).rotary);
  CHECK(attention(3).rotary);
  CHECK(attention(3).sinks);
}

TEST_CASE("the vocabulary is padded_vocab_size where that is said; the null tokenizer adds one") {
  CHECK(small(R"(, "padded_vocab_size": 51200)").vocabulary == 51200);
  CHECK(small(R"(, "tokenizer_type": "NullTokenizer")").vocabulary == 50258);
  const Model model = small(R"(, "make_vocab_size_divisible_by": 64)");
  REQUIRE(model.notes.size() == 1);
  CHECK(model.notes[0].find("padded_vocab_size") != std::string::npos);
}

TEST_CASE("what Megatron-LM asks for and what does not go together is said, all at once") {
  const auto empty = parse_model(R"({"model_type": "megatron"})", "c.json", kData);
  REQUIRE(!empty);
  CHECK(empty.error().diagnostics.size() == 5);
  const Diagnostics faults =
      faults_of(R"(, "normalization": "BatchNorm", "position_embedding_type": "alibi",
        "swiglu": true, "squared_relu": true, "add_bias_linear": true,
        "disable_bias_linear": true, "num_query_groups": 4, "is_hybrid_model": true,
        "moe_layer_freq": "[0]*5", "num_experts": 4)");
  std::vector<std::string> places;
  for (const Diagnostic& fault : faults) {
    places.push_back(fault.where.substr(fault.where.find('/')));
  }
  std::sort(places.begin(), places.end());
  CHECK(places == std::vector<std::string>{"/add_bias_linear", "/is_hybrid_model",
                                           "/moe_layer_freq", "/normalization", "/num_query_groups",
                                           "/position_embedding_type", "/swiglu"});
}

TEST_CASE("a pattern of layers is a Python expression of lists and nothing else") {
  using detail::parse_layer_pattern;
  using Layers = std::vector<std::int64_t>;
  CHECK(parse_layer_pattern("([0]*1+[1]*2)*2", 99) == Layers{0, 1, 1, 0, 1, 1});
  CHECK(parse_layer_pattern("2*[1,0]", 99) == Layers{1, 0, 1, 0});
  CHECK(parse_layer_pattern("[]", 99) == Layers{});
  CHECK(parse_layer_pattern("[1]*0+[0]", 99) == Layers{0});
  CHECK(!parse_layer_pattern("[1]*100", 99));
  CHECK(!parse_layer_pattern("[1]*99999999999999999999", 99));
  for (const char* bad : {"", "3", "[1", "([1]", "[1]]", "[1]*", "[1]+", "[a]", "[1]*[0]", "[1,]",
                          "[-1]", "[1] *2", "2*3"}) {
    CHECK_MESSAGE(!parse_layer_pattern(bad, 99), bad);
  }
  CHECK(!parse_layer_pattern(std::string(100'000, '('), 99));
}

TEST_CASE("what exports hand on is read from either spelling") {
  const auto read = [](const char* text) {
    const auto model = parse_model(text, "c.json", kData);
    REQUIRE_MESSAGE(model.has_value(), to_text(model.error()));
    return model->constants;
  };
  const Constants llama = read(R"({"model_type": "llama", "rope_theta": 1e6, "rms_norm_eps": 1e-6,
                                   "rope_scaling": {"rope_type": "llama3", "factor": 8}})");
  CHECK(llama.rotary_base == 1e6);
  CHECK(llama.norm_epsilon == 1e-6);
  CHECK(llama.rotary_scaling == "llama3");
  CHECK(llama.rotary_factor == 8);
  const Constants odd = read(R"({"model_type": "llama", "rope_theta": "big", "rope_scaling": 3})");
  CHECK(odd == Constants{});
  // transformers 5.22.2 writes rope_parameters; its DeepseekV3Config has 8 groups, 4 of them, 2.5.
  const Constants deep = read(R"({"model_type": "deepseek_v3",
                                  "rope_parameters": {"rope_theta": 10000.0}})");
  CHECK(deep.rotary_base == 10000);
  CHECK(deep.scores == Constants::Scores::Sigmoid);
  CHECK(deep.balancing_bias);
  CHECK(deep.expert_groups == 8);
  CHECK(deep.groups_chosen == 4);
  CHECK(deep.score_scale == 2.5);
}

}  // namespace
}  // namespace trainwright
