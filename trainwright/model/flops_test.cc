#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "trainwright/base/text.h"
#include "trainwright/model/model.h"
#include "trainwright/testing/skip.h"

namespace trainwright {
namespace {

const std::string kData = std::string(TRAINWRIGHT_SOURCE_DIR) + "/data";

using namespace literals;

Model model_of(std::string_view text) {
  auto model = parse_model(text, "config.json", kData);
  REQUIRE_MESSAGE(model, to_text(model.error()));
  return *std::move(model);
}

// GPT-3 175B (arXiv:2005.14165) as Megatron runs it: vocabulary padded to 51200.
Model gpt3() {
  return model_of(R"({"model_type": "gpt2", "vocab_size": 51200, "n_embd": 12288, "n_layer": 96,
                      "n_head": 96, "n_positions": 2048})");
}

TEST_CASE("queries see (s + 1) / 2 keys on average, fewer with a window or in chunks") {
  SoftmaxAttention attention{.heads = 1, .kv_heads = 1, .head_dim = 1};
  CHECK(keys_per_query(attention, Tokens(7), AttentionPairs::Full) == 7);
  CHECK(keys_per_query(attention, Tokens(7), AttentionPairs::Causal) == 4);
  attention.reach = Reach::Sliding;
  attention.window = 3;
  // 1 + 2 + 3 + 3 + 3 + 3 + 3 = 18.
  CHECK(keys_per_query(attention, Tokens(7), AttentionPairs::Causal) == 18.0 / 7);
  CHECK(keys_per_query(attention, Tokens(7), AttentionPairs::Full) == 7);
  CHECK(keys_per_query(attention, Tokens(2), AttentionPairs::Causal) == 1.5);
  attention.reach = Reach::Chunked;
  // 1 + 2 + 3 + 1 + 2 + 3 + 1 = 13.
  CHECK(keys_per_query(attention, Tokens(7), AttentionPairs::Causal) == 13.0 / 7);
}

TEST_CASE(
    "a token costs 2 FLOPs forward per weight it is multiplied with, and twice that backward") {
  const Model model = model_of(R"({"model_type": "llama"})");
  const TokenFlops flops = token_flops(model, Tokens(4096), AttentionPairs::Full);
  CHECK(flops.projections == Flops(2.0 * 32 * 4 * 4096 * 4096));
  CHECK(flops.feed_forward == Flops(2.0 * 32 * 3 * 4096 * 11008));
  CHECK(flops.head == Flops(2.0 * 4096 * 32000));
  // Scores and values: 2 x 2 x 4096 (all heads) x 4096 keys.
  CHECK(flops.attention_core == Flops(32 * 4.0 * 4096 * 4096));
  CHECK(flops.backward() == flops.forward() * 2);
  CHECK(flops.train() == flops.forward() * 3);
}

TEST_CASE("Megatron's formula is 72 L h^2 (1 + s/6h + V/12hL) for GPT") {
  const double L = 96, h = 12288, s = 2048, V = 51200;
  const double formula = 72 * L * h * h * (1 + s / (6 * h) + V / (12 * h * L));
  const Model model = gpt3();
  CHECK(megatron_token_flops(model, Tokens(2048), 51200).value() == doctest::Approx(formula));
  // The exact count with all pairs is the same thing.
  CHECK(token_flops(model, Tokens(2048), AttentionPairs::Full).train().value() ==
        doctest::Approx(formula).epsilon(1e-12));
  // SC21's 96 B s L h^2 (1 + s/6h + V/16hL) is what runs with full recomputation, except that it
  // does not run the head twice.
  const double sc21 = 96 * L * h * h * (1 + s / (6 * h) + V / (16 * h * L));
  TokenFlops flops = token_flops(model, Tokens(2048), AttentionPairs::Full);
  const double head = flops.head.value();
  CHECK((flops.train() + flops.forward()).value() - head == doctest::Approx(sc21));
}

TEST_CASE("Megatron halves the attention core when it counts causal attention") {
  const Model model = gpt3();
  const Flops full = megatron_token_flops(model, Tokens(2048), 51200, AttentionPairs::Full);
  const Flops causal = megatron_token_flops(model, Tokens(2048), 51200, AttentionPairs::Causal);
  CHECK((full - causal).value() == doctest::Approx(3 * 96 * 2.0 * 12288 * 2048));
}

TEST_CASE("PaLM's convention is 6N + 12LHQT") {
  const Model model = gpt3();
  const double n = static_cast<double>(parameters(model).total().value());
  CHECK(palm_token_flops(model, Tokens(2048)) == Flops(6 * n + 12.0 * 96 * 96 * 128 * 2048));
}

TEST_CASE("routed experts cost what a token meets of them") {
  const Model model = model_of(R"({"model_type": "mixtral"})");
  const TokenFlops flops = token_flops(model, Tokens(1), AttentionPairs::Full);
  CHECK(flops.feed_forward == Flops(32 * 2.0 * (8 * 4096 + 2 * 3 * 4096.0 * 14336)));
}

TEST_CASE("an MTP module costs its projection, a layer and a pass through the head") {
  const Model with = model_of(R"({"model_type": "deepseek_v3"})");
  const Model without = model_of(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 0})");
  const Model longer = model_of(
      R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 0, "num_hidden_layers": 62})");
  const auto forward = [](const Model& model) {
    return token_flops(model, Tokens(4096), AttentionPairs::Causal).forward();
  };
  const Flops layer = forward(longer) - forward(without);
  const Flops own = Flops(2.0 * 2 * 7168 * 7168 + 2.0 * 7168 * 129280);
  CHECK(forward(with) - forward(without) == layer + own);
}

TEST_CASE("linear attention reads and writes its state, whatever the length") {
  const Attention delta =
      GatedDeltaNet{.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16};
  for (const AttentionPairs pairs : {AttentionPairs::Full, AttentionPairs::Causal}) {
    CHECK(attention_core_flops(delta, Tokens(10), pairs) == Flops(4 * 6.0 * 8 * 16));
    CHECK(attention_core_flops(delta, Tokens(1'000'000), pairs) == Flops(4 * 6.0 * 8 * 16));
  }
  const Attention lightning = LightningAttention{.heads = 4, .head_dim = 8};
  CHECK(attention_core_flops(lightning, Tokens(10), AttentionPairs::Full) ==
        Flops(4 * 4.0 * 8 * 8));
}

TEST_CASE("MFU and HFU are work over time over peak") {
  CHECK(utilization(Flops(5e14), 1_s, 1000_TFLOPS) == doctest::Approx(0.5));
}

using Row = std::map<std::string, std::string>;

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(file, line);) {
    const auto cells = split(line, ',');
    if (header.empty()) {
      for (std::string_view cell : cells) header.emplace_back(cell);
      continue;
    }
    Row row;
    for (std::size_t i = 0; i < header.size() && i < cells.size(); ++i) {
      row[header[i]] = std::string(cells[i]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double mfu_of(Row& row) {
  const Model model =
      model_of(R"({"model_type": "llama", "vocab_size": )" + row["vocab"] + R"(, "hidden_size": )" +
               row["hidden"] + R"(, "num_hidden_layers": )" + row["layers"] +
               R"(, "num_attention_heads": )" + row["heads"] + R"(, "intermediate_size": )" +
               row["ffn_hidden"] + "}");
  const std::int64_t sequence = parse_integer(row["seq_len"]).value();
  const double tokens = parse_number(row["global_batch"]).value() * static_cast<double>(sequence);
  const Flops work = palm_token_flops(model, Tokens(sequence)) * tokens;
  // A100: 312 TFLOP/s dense in bf16 (NVIDIA A100 datasheet).
  const FlopsPerSecond peak = 312_TFLOPS * parse_number(row["gpus"]).value();
  return 100 * utilization(work, Seconds(parse_number(row["step_time_s"]).value()), peak);
}

TEST_CASE("the MFU of the Aleph-Alpha sweep follows from its step times") {
  // arXiv:2311.05610; the source disagrees with itself in 14 of 401 rows, by up to 1.1 points.
  const auto path = testing::shared_path("measurements/aleph_alpha_2023.csv");
  if (!path) return;
  auto rows = read_rows(*path);
  int ran = 0, agree = 0;
  std::string others;
  for (Row& row : rows) {
    if (row["step_time_s"].empty() || row["mfu_pct"].empty()) continue;
    ++ran;
    const double printed = parse_number(row["mfu_pct"]).value();
    const double ours = mfu_of(row);
    if (std::abs(ours - printed) <= 0.1) {
      ++agree;
    } else {
      others += row["source_ref"] + ": " + significant(ours, 5) + ", printed " +
                significant(printed, 6) + "\n";
    }
  }
  MESSAGE(agree << " of " << ran << " rows within 0.1 point; the others:\n" << others);
  CHECK(ran == 401);
  CHECK(agree >= 385);
}

}  // namespace
}  // namespace trainwright
