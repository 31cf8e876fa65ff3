// What is said about configs that are wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/model/config_fields.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

Diagnostics faults_of(std::string_view text) {
  const auto model = parse_model(text, "c.json", kData);
  REQUIRE(!model);
  return model.error().diagnostics;
}

bool mentions(const Diagnostics& faults, std::string_view where, std::string_view what) {
  return std::any_of(faults.begin(), faults.end(), [&](const Diagnostic& fault) {
    return fault.where.find(where) != std::string::npos &&
           fault.what.find(what) != std::string::npos;
  });
}

TEST_CASE("ten mistakes give ten diagnostics, each at its place") {
  const Diagnostics faults = faults_of(R"({
  "model_type": "mixtral",
  "vocab_size": "32000",
  "hidden_size": -4096,
  "num_hidden_layers": 2.5,
  "num_attention_heads": 0,
  "intermediate_size": null,
  "tie_word_embeddings": "no",
  "hidden_act": "sillu",
  "num_experts_per_tok": 9,
  "sliding_windw": 4096,
  "attention_dropout": 2
})");
  CHECK(faults.size() == 10);
  CHECK(mentions(faults, "c.json:3 /vocab_size", "expected a whole number, found a string"));
  CHECK(mentions(faults, "c.json:4 /hidden_size", "-4096 is out of range"));
  CHECK(mentions(faults, "c.json:5 /num_hidden_layers", "expected a whole number"));
  CHECK(mentions(faults, "c.json:6 /num_attention_heads", "0 is out of range"));
  CHECK(mentions(faults, "c.json:7 /intermediate_size", "a number is needed here"));
  CHECK(mentions(faults, "c.json:8 /tie_word_embeddings", "expected true or false"));
  CHECK(mentions(faults, "c.json:9 /hidden_act", "the activation 'sillu' is not known"));
  CHECK(mentions(faults, "c.json:10 /num_experts_per_tok", "9 experts per token"));
  CHECK(mentions(faults, "c.json:11 /sliding_windw", "mixtral has no field 'sliding_windw'"));
  CHECK(mentions(faults, "c.json:12 /attention_dropout", "2 is not a probability"));
}

TEST_CASE("of thousands of strange fields the first are named and the others counted") {
  std::string text = "{\"model_type\": \"llama\"";
  for (int i = 0; i < 20'000; ++i) text += ",\n\"strange_" + std::to_string(i) + "\": 1";
  const Diagnostics faults = faults_of(text + "}");
  REQUIRE(faults.size() == kMostUnknown + 1);
  CHECK(faults[19].what == "llama has no field 'strange_19'");
  CHECK(faults[20] == Diagnostic{"c.json:1", "has 19,980 more fields that llama has not", ""});
}

TEST_CASE("a misspelt field gets the nearest, a field of another family its readers") {
  Diagnostics faults = faults_of(R"({"model_type": "llama", "hiden_size": 4096})");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].hint == "did you mean 'hidden_size'?");
  faults = faults_of(R"({"model_type": "llama", "num_local_experts": 8})");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].hint.starts_with("it is read by afmoe"));
}

TEST_CASE("an unknown family is answered with the fields that no known one reads") {
  const Diagnostics faults = faults_of(
      R"({"model_type": "deepseek_v9", "hidden_size": 2048, "n_routed_experts": 64,
          "guess_heads": 64, "guess_topk": 2048})");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].what == "the family 'deepseek_v9' is not known");
  CHECK(faults[0].hint ==
        "no known family reads guess_heads and guess_topk; `trainwright list families` shows "
        "those that are known");
}

TEST_CASE("no family is named in the place of one that has the same fields or nearly its name") {
  for (const char* type : {"jamba2", "llama5", "flexible_olmo", "qwen4", ""}) {
    const Diagnostics faults = faults_of(fmt::format(
        R"({{"model_type": "{}", "hidden_size": 2048, "num_hidden_layers": 4, "head_dim": 64}})",
        type));
    REQUIRE(faults.size() == 1);
    for (const std::string& known : known_families(kData)) {
      CHECK_MESSAGE(faults[0].hint.find(fmt::format("'{}'", known)) == std::string::npos, type);
    }
  }
}

TEST_CASE("a family's name in other letters is put right") {
  CHECK(faults_of(R"({"model_type": "GPT-NeoX"})")[0].hint == "write 'gpt_neox'");
  CHECK(faults_of(R"({"model_type": "Qwen3_MoE"})")[0].hint == "write 'qwen3_moe'");
}

TEST_CASE("a config without model_type is told to add it") {
  const Diagnostics faults = faults_of(R"({"n_embd": 768, "n_layer": 12, "n_head": 12})");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].what == "the field 'model_type' is missing");
  CHECK(faults[0].hint == "add it; `trainwright list families` shows those that are known");
}

TEST_CASE("two names of one field must agree") {
  CHECK(
      parse_model(R"({"model_type": "gpt2", "n_embd": 768, "hidden_size": 768})", "c.json", kData));
  const Diagnostics faults =
      faults_of(R"({"model_type": "gpt2", "n_embd": 768, "hidden_size": 1024})");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].what == "is 1024, but 'n_embd', another name of the same field, is 768");
}

TEST_CASE("heads that do not divide are a fault") {
  CHECK(mentions(faults_of(R"({"model_type": "llama", "num_key_value_heads": 5})"),
                 "num_key_value_heads", "5 key-value heads do not divide 32"));
  CHECK(mentions(faults_of(R"({"model_type": "gpt2", "n_head": 7})"), "n_head",
                 "not a multiple of 7 heads"));
}

TEST_CASE("a list per layer must have as many entries as there are layers") {
  CHECK(mentions(faults_of(R"({"model_type": "gemma2", "layer_types": ["full_attention"]})"),
                 "layer_types", "1 layer types for 26 layers"));
  CHECK(mentions(faults_of(R"({"model_type": "gemma2", "layer_types": ["fuller"]})"), "layer_types",
                 "'fuller' is not a known layer type"));
}

TEST_CASE("absurd sizes are diagnosed before anything overflows") {
  CHECK(mentions(faults_of(R"({"model_type": "llama", "hidden_size": 9223372036854775807})"),
                 "hidden_size", "out of range"));
  const Diagnostics faults = faults_of(
      R"({"model_type": "deepseek_v3", "hidden_size": 16777216, "n_routed_experts": 1048576,
          "moe_intermediate_size": 2147483648, "num_hidden_layers": 65536})");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].what.starts_with("these sizes make"));
}

TEST_CASE("what is nested is read, and what is unknown there is reported") {
  const auto model = parse_model(
      R"({"model_type": "dbrx", "attn_config": {"kv_n_heads": 4, "clip_qkv": 8},
          "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4}})",
      "c.json", kData);
  REQUIRE(model);
  CHECK(std::get<SoftmaxAttention>(model->kinds[0].attention).kv_heads == 4);
  const Diagnostics faults =
      faults_of(R"({"model_type": "dbrx", "attn_config": {"kv_heads": 4}, "ffn_config": 3})");
  CHECK(faults.size() == 2);
  CHECK(mentions(faults, "/attn_config/kv_heads", "no field"));
  CHECK(mentions(faults, "/ffn_config", "expected an object"));
}

TEST_CASE("anything but an object is refused") {
  CHECK(mentions(faults_of("[]"), "c.json", "expected a config object, found an array"));
  CHECK(!parse_model("", "c.json", kData));
  CHECK(!parse_model("{", "c.json", kData));
}

TEST_CASE("the order of the fields does not matter") {
  const std::string data = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data/models/";
  for (const std::string& name : zoo_names(std::string(TRAINWRIGHT_SOURCE_DIR) + "/data")) {
    const Json file = read_json_file(data + name + ".json").value();
    Json config = *file.find("config");
    const auto model = model_from_json(config, name, kData);
    REQUIRE(model);
    std::reverse(config.members.begin(), config.members.end());
    CHECK_MESSAGE(model_from_json(config, name, kData) == model, name);
    const auto again = parse_model(to_text(config), name, kData);
    CHECK_MESSAGE(again == model, name);
  }
}

TEST_CASE("what published configs carry beyond the shape does not disturb") {
  // The field names of deepseek-ai/DeepSeek-V3, mosaicml/mpt-7b, google/gemma-2-9b and
  // facebook/opt-6.7b; values shortened.
  for (const char* config :
       {R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
            "attention_bias": false, "attention_dropout": 0.0, "auto_map": {"AutoModel": "m"},
            "aux_loss_alpha": 0.001, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1,
            "first_k_dense_replace": 3, "moe_layer_freq": 1, "n_group": 8, "norm_topk_prob": true,
            "num_nextn_predict_layers": 1, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
            "quantization_config": {"fmt": "e4m3", "weight_block_size": [128, 128]},
            "rope_scaling": {"type": "yarn", "factor": 40}, "rope_theta": 10000,
            "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "seq_aux": true,
            "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
            "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true})",
        R"({"model_type": "mpt", "attn_config": {"alibi": true, "alibi_bias_max": 8,
            "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
            "attn_uses_sequence_id": false, "clip_qkv": null, "prefix_lm": false, "qk_ln": false,
            "softmax_scale": null}, "emb_pdrop": 0, "embedding_fraction": 1.0,
            "expansion_ratio": 4, "init_config": {"name": "kaiming_normal_"},
            "init_device": "cpu", "learned_pos_emb": true, "logit_scale": null, "no_bias": true,
            "norm_type": "low_precision_layernorm", "tokenizer_name": "t", "verbose": 0})",
        R"({"model_type": "gemma2", "attn_logit_softcapping": 50.0, "cache_implementation": "h",
            "final_logit_softcapping": 30.0, "hidden_act": "gelu_pytorch_tanh",
            "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
            "sliding_window_size": 4096, "layer_norm_eps": 1e-6})",
        R"({"model_type": "opt", "activation_dropout": 0.0, "_remove_final_layer_norm": false,
            "init_std": 0.02, "layerdrop": 0.0, "output_projection": true, "prefix": "</s>"})"}) {
    const auto model = parse_model(config, "config.json", kData);
    CHECK_MESSAGE(model, to_text(model.error()));
  }
}

TEST_CASE("every family's entry reads its own defaults and says which sizes they are") {
  for (const std::string& family : known_families(kData)) {
    if (family.starts_with("megatron")) continue;  // Megatron-LM has no sizes of its own
    const auto model = parse_model(R"({"model_type": ")" + family + R"("})", family, kData);
    if (family == "dots1") continue;  // the class has no number of experts
    REQUIRE_MESSAGE(model, family);
    CHECK_MESSAGE(model->notes.back().starts_with("the config does not give hidden_size ("),
                  family);
    CHECK_MESSAGE(parameters(*model).total() > Params(0), family);
  }
}

TEST_CASE("layers that attend to images are refused by the field that lists them") {
  // meta-llama/Llama-3.2-11B-Vision, shortened.
  const auto model = parse_model(R"({"model_type": "mllama", "text_config": {
    "model_type": "mllama_text_model", "hidden_size": 4096, "num_hidden_layers": 40,
    "cross_attention_layers": [3, 8]}})",
                                 "config.json", kData);
  REQUIRE(!model);
  CHECK(to_text(model.error()).find("no known family reads cross_attention_layers") !=
        std::string::npos);
}

TEST_CASE("a value the class cannot derive is said, not guessed") {
  // DeepSeek-V2's class has no default for the experts per token, and GLM-4-MoE's default heads do
  // not divide its hidden size.
  const Model v2 = parse_model(R"({"model_type": "deepseek_v2"})", "c", kData).value();
  REQUIRE(v2.notes.size() == 2);
  CHECK(v2.notes[0].starts_with("num_experts_per_tok is absent"));
  const Model glm = parse_model(R"({"model_type": "glm4_moe"})", "c", kData).value();
  REQUIRE(glm.notes.size() == 2);
  CHECK(glm.notes[0] == "head_dim is absent: 4096 / 96 rounded down to 42");
}

TEST_CASE("a config that is silent on its sizes has its family's, which is said") {
  const Model model = parse_model(R"({"model_type": "llama"})", "c", kData).value();
  REQUIRE(model.notes.size() == 1);
  // transformers 5.22.2 LlamaConfig.
  CHECK(model.notes[0] ==
        "the config does not give hidden_size (4096), num_hidden_layers (32), vocab_size (32000) "
        "and intermediate_size (11008): defaults of the family llama");
  CHECK(parse_model(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                        "vocab_size": 512, "intermediate_size": 128})",
                    "c", kData)
            .value()
            .notes.empty());
}

TEST_CASE("sizes that a config leaves to its class are told") {
  // transformers 5.22.2 LlamaConfig: a vocabulary of 32000, feed-forward layers of 11008.
  const auto model = parse_model(R"({"model_type": "llama", "hidden_size": 4096,
                                     "num_hidden_layers": 32})",
                                 "c.json", kData);
  REQUIRE(model);
  CHECK(model->notes == std::vector<std::string>{
                            "the config does not give vocab_size (32000) and intermediate_size "
                            "(11008): defaults of the family llama"});
}

TEST_CASE("a module for multi-token prediction that only the class has is told") {
  // transformers 5.22.2 DeepseekV3Config is silent on it; DeepSeek-V3's config.json has one.
  const char* sizes = R"("model_type": "deepseek_v3", "hidden_size": 1024, "vocab_size": 1000,
                         "intermediate_size": 2048, "num_hidden_layers": 4)";
  const auto notes = [&](const std::string& more) {
    const auto model = parse_model(fmt::format("{{{}{}}}", sizes, more), "c.json", kData);
    REQUIRE(model);
    return model->notes;
  };
  CHECK(notes("") == std::vector<std::string>{"the config does not give num_nextn_predict_layers "
                                              "(1): defaults of the family deepseek_v3"});
  CHECK(notes(R"(, "num_nextn_predict_layers": 0)").empty());
}

TEST_CASE("feed-forwards of a list are dense or sparse, one for each layer") {
  // transformers 5.23.0 Glm4MoeLiteConfig: without a list the first is dense.
  const auto experts = [](const std::string& more) {
    const Model model =
        parse_model(R"({"model_type": "glm4_moe_lite", "num_hidden_layers": 3)" + more + "}",
                    "c.json", kData)
            .value();
    std::string found;
    for (const LayerKindId id : model.layers) {
      const LayerKind& kind = model.kinds[id.at()];
      found += std::holds_alternative<MixtureOfExperts>(kind.feed_forward) ? 's' : 'd';
    }
    return found;
  };
  CHECK(experts("") == "dss");
  CHECK(experts(R"(, "mlp_layer_types": ["sparse", "dense", "sparse"])") == "sds");
  CHECK(mentions(faults_of(R"({"model_type": "glm4_moe_lite", "mlp_layer_types": ["sparse"]})"),
                 "mlp_layer_types", "1 layer types for 47 layers"));
  CHECK(mentions(faults_of(R"({"model_type": "glm4_moe_lite", "mlp_layer_types": ["moe"]})"),
                 "mlp_layer_types", "'moe' is not a known layer type"));
}

TEST_CASE("EXAONE 4 has its pattern from the list, else from a number") {
  // LGAI-EXAONE/EXAONE-4.0-32B says both, the pattern in letters.
  const auto windows = [](const char* more) {
    const Model model =
        parse_model(fmt::format(R"({{"model_type": "exaone4", "num_hidden_layers": 4{}}})", more),
                    "c.json", kData)
            .value();
    std::int64_t count = 0;
    for (const LayerKindId id : model.layers) {
      const LayerKind& kind = model.kinds[id.at()];
      count += std::get<SoftmaxAttention>(kind.attention).window > 0 ? 1 : 0;
    }
    return count;
  };
  CHECK(windows("") == 3);
  CHECK(windows(R"(, "sliding_window_pattern": 2)") == 2);
  CHECK(windows(R"(, "sliding_window_pattern": "LLLG", "layer_types": ["full_attention",
                     "full_attention", "full_attention", "sliding_attention"])") == 1);
  CHECK(windows(R"(, "sliding_window": null, "sliding_window_pattern": 4)") == 0);
}

}  // namespace
}  // namespace trainwright
