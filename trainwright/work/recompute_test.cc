// What each kind of recompute keeps, runs again and holds.
#include <doctest/doctest.h>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kWidth = 11008;
constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kTokens = 2 * 4096;  // s b

Slice plain_slice() { return {.mbs = 2, .seq = 4096}; }
Model llama() { return llama_model(kHidden, kHeads, kHeads, kWidth); }

Totals of(const Slice& slice, const Recipe& recipe = paper_recipe()) {
  return layer_totals(llama(), slice, recipe);
}

constexpr std::int64_t kRow = kTokens * kHidden * 2;        // one hidden state
constexpr std::int64_t kWide = kTokens * kWidth * 2;        // one tensor of the feed-forward
constexpr std::int64_t kStatistics = 4 * kHeads * kTokens;  // log-sum-exp
constexpr std::int64_t kAll = 8 * kRow + 3 * kWide + kStatistics;

}  // namespace

TEST_CASE("without recompute a Llama layer keeps eight hidden states and three wide tensors") {
  CHECK(of(plain_slice()).kept == Bytes(kAll));
}

TEST_CASE("selective recompute drops only the statistics of flash attention") {
  // Query, key, value enter the segment; its output is the projection's input.
  const Totals sum = of(recomputed(plain_slice(), RecomputeKind::Selective));
  CHECK(sum.kept == Bytes(kAll - kStatistics));
  const Flops core =
      attention_core_flops(llama().kinds[0].attention, Tokens(4096), AttentionPairs::Causal) *
      static_cast<double>(kTokens);
  CHECK(sum.effort[3].matmul == core);
}

TEST_CASE("feed-forward recompute keeps what enters it") {
  const Totals sum = of(recomputed(plain_slice(), RecomputeKind::FeedForwardOnly));
  CHECK(sum.kept == Bytes(8 * kRow + kStatistics));
  CHECK(sum.effort[3].matmul == Flops(6.0 * static_cast<double>(kTokens) * kHidden * kWidth));
  // A norm that is part of the product after it is run again with it, and its output goes too.
  Recipe fused = paper_recipe();
  fused.code.norm_in_product = true;
  CHECK(of(recomputed(plain_slice(), RecomputeKind::FeedForwardOnly), fused).kept ==
        Bytes(7 * kRow + kStatistics));
}

TEST_CASE("Megatron's modules: norms lose their outputs, the others what is inside") {
  const auto with = [](Flags<RecomputeModule> modules) {
    return of(recomputed(plain_slice(), RecomputeKind::Modules, modules)).kept;
  };
  CHECK(with({RecomputeModule::Norm}) == Bytes(kAll - 2 * kRow));
  CHECK(with({RecomputeModule::CoreAttention}) == Bytes(kAll - kStatistics));
  CHECK(with({RecomputeModule::Mlp}) == Bytes(kAll - 3 * kWide));
  // The norm's output, which the checkpointed branch reads, is dropped and made again for it.
  CHECK(with({RecomputeModule::Mlp, RecomputeModule::Norm}) == Bytes(6 * kRow + kStatistics));
  CHECK(with({}) == Bytes(kAll));
}

TEST_CASE("experts: activation, whole mixture, shared experts") {
  const MixtureOfExperts experts{.experts = 8,
                                 .experts_per_token = 2,
                                 .expert = {.width = 1024, .gated = true},
                                 .shared = Mlp{.width = 2048, .gated = true}};
  const Model model = with_experts(llama(), experts);
  const auto kept = [&](Flags<RecomputeModule> modules) {
    return layer_totals(model, recomputed(plain_slice(), RecomputeKind::Modules, modules),
                        paper_recipe())
        .kept;
  };
  const Bytes all = kept({});
  const std::int64_t rows = 2 * kTokens;
  CHECK(all - kept({RecomputeModule::MoeActivation}) == Bytes(rows * 1024 * 2));
  CHECK(all - kept({RecomputeModule::SharedExperts}) == Bytes(kTokens * 2048 * 3 * 2));
  // All that is left is what attention keeps, and the norm's output.
  CHECK(kept({RecomputeModule::Moe}) == Bytes(8 * kRow + kStatistics));
}

TEST_CASE("latent attention: the up projections' outputs are made again from the latents") {
  Model model = llama();
  const LatentAttention a{.heads = 32,
                          .query_rank = 1536,
                          .kv_rank = 512,
                          .rope_dim = 64,
                          .nope_dim = 128,
                          .value_dim = 128};
  model.kinds.front().attention = a;
  const auto kept = [&](Flags<RecomputeModule> modules) {
    return layer_totals(model, recomputed(plain_slice(), RecomputeKind::Modules, modules),
                        paper_recipe())
        .kept;
  };
  // Hidden 2 x 2, normed 2 x 2, both latents and their normed copies, queries and keys of 192 and
  // values of 128 per head, the output, the feed-forward.
  const std::int64_t heads = kTokens * 32 * 2;
  const std::int64_t latents = kTokens * (1536 + 512) * 2;
  CHECK(kept({}) == Bytes(4 * kRow + 2 * latents + heads * (192 + 192 + 128) + heads * 128 +
                          kStatistics + 3 * kWide));
  // Dropped: normed latents, queries, keys, values. The rotary key enters and stays.
  const std::int64_t rotary = kTokens * 64 * 2;
  CHECK(kept({}) - kept({RecomputeModule::MlaUpProjection}) ==
        Bytes(latents + heads * (192 + 192 + 128) - rotary));
}

TEST_CASE("torchtitan's selective mode stores every second product and attention") {
  Recipe recipe = paper_recipe();
  recipe.code.joined_projections = false;
  recipe.code.stops_early = true;
  const Totals sum = of(recomputed(plain_slice(), RecomputeKind::OpSelective), recipe);
  // Stored: query, value, the attention's output and statistics, gate, down; the input enters.
  CHECK(sum.kept == Bytes(kRow + 2 * kRow + kRow + kStatistics + kWide + kRow));
  // Run again: key, attention's output, up.
  const double tokens = static_cast<double>(kTokens);
  CHECK(sum.effort[3].matmul ==
        Flops(2 * tokens * kHidden * kHidden * 2 + 2 * tokens * kHidden * kWidth));
}

TEST_CASE("the selective mode stores all of a product that query, key and value share") {
  // Torchtitan 0.3: one product for these, two for gate and up. Key's part is stored too, and the
  // products after it are counted from two.
  Recipe recipe = paper_recipe();
  recipe.code.joined_projections = false;
  recipe.code.stops_early = true;
  const Slice slice = recomputed(plain_slice(), RecomputeKind::OpSelective);
  const Bytes apart = of(slice, recipe).kept;
  recipe.code.joined_queries = true;
  CHECK(of(slice, recipe).kept - apart == Bytes(kRow));
}

TEST_CASE("compiled, the selective mode stores no product that nobody needs") {
  // The last one, down: the residual sum after it has no use for it.
  Recipe recipe = paper_recipe();
  recipe.code.joined_projections = false;
  Slice slice = recomputed(plain_slice(), RecomputeKind::OpSelective);
  const Bytes eager = of(slice, recipe).kept;
  slice.compiled = true;
  CHECK(eager - of(slice, recipe).kept == Bytes(kRow));
}

TEST_CASE("the selective mode stores neither experts' products nor the router's") {
  Recipe recipe = paper_recipe();
  recipe.code.joined_projections = false;
  MixtureOfExperts mixture{.experts = 64,
                           .experts_per_token = 4,
                           .expert = {.width = 1024, .gated = true},
                           .shared = std::nullopt};
  const Model model = with_experts(llama(), mixture);
  const Totals sum =
      layer_totals(model, recomputed(plain_slice(), RecomputeKind::OpSelective), recipe);
  // Query, value, the attention's output and statistics; the input enters. Of four products the
  // last, attention's output, is the second of its pair.
  CHECK(sum.kept == Bytes(kRow + 2 * kRow + kRow + kStatistics));
}

TEST_CASE("PyTorch's checkpoint stops before the last product") {
  Recipe recipe = paper_recipe();
  const Flops whole = of(recomputed(plain_slice(), RecomputeKind::Full), recipe).effort[3].matmul;
  recipe.code.stops_early = true;
  const Flops early = of(recomputed(plain_slice(), RecomputeKind::Full), recipe).effort[3].matmul;
  CHECK(whole - early == Flops(2.0 * static_cast<double>(kTokens) * kHidden * kWidth));
}

TEST_CASE("which layers of a stage are run again is settled by their place") {
  const Recompute block{.kind = RecomputeKind::Block, .modules = {}, .n = 2};
  CHECK(recompute_of_layer(block, 1).kind == RecomputeKind::Full);
  CHECK(recompute_of_layer(block, 2).kind == RecomputeKind::None);
  const Recompute third{.kind = RecomputeKind::EveryNth, .modules = {}, .n = 3};
  CHECK(recompute_of_layer(third, 0).kind == RecomputeKind::None);
  CHECK(recompute_of_layer(third, 2).kind == RecomputeKind::Full);
  CHECK(recompute_of_layer(third, 5).kind == RecomputeKind::Full);
}

TEST_CASE("a stage under block recompute keeps whole layers and inputs") {
  const Model model = llama();
  WorkCache cache(model, paper_recipe());
  Slice slice = plain_slice();
  slice.recompute = {.kind = RecomputeKind::Block, .modules = {}, .n = 3};
  Stage stage;
  stage.runs = {{LayerKindId(0), 8}};
  const Totals sum = compose(cache.stage(stage, slice));
  CHECK(sum.kept == Bytes(3 * kRow + 5 * kAll));
  CHECK(cache.size() == 2);
}

TEST_CASE("layers checkpointed together keep one input and hold all of themselves once more") {
  const Totals plain = of(plain_slice());
  const Totals full = of(recomputed(plain_slice(), RecomputeKind::Full));
  const Totals four = checkpointed_together(plain, full, 4);
  CHECK(four.kept == Bytes(kRow));
  CHECK(four.effort[3].matmul == plain.effort[0].matmul * 4);
  CHECK(four.backward.bytes >= plain.kept * 3 + plain.backward.bytes);
  CHECK(checkpointed_together(plain, full, 1).kept == full.kept);

  WorkCache cache(llama(), paper_recipe());
  Slice slice = recomputed(plain_slice(), RecomputeKind::Full);
  slice.recompute.n = 4;
  Stage stage;
  stage.runs = {{LayerKindId(0), 10}};  // two groups of four and one of two
  CHECK(compose(cache.stage(stage, slice)).kept == Bytes(3 * kRow));
}

}  // namespace trainwright
