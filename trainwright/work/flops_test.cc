// The FLOPs of the lists are those that `model` counts.
#include <doctest/doctest.h>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

const std::vector<ZooEntry>& zoo() {
  static const auto entries = [] {
    auto loaded = load_zoo(std::string(TRAINWRIGHT_SOURCE_DIR) + "/data");
    REQUIRE(loaded.has_value());
    return *std::move(loaded);
  }();
  return entries;
}

// A whole model on one rank.
Totals whole_model(const Model& model, const Slice& slice, const Recipe& recipe) {
  WorkCache cache(model, recipe);
  std::vector<Portion> portions = {{&cache.embedding(slice), 1}};
  for (const LayerKindId kind : model.layers) portions.push_back({&cache.layer(kind, slice), 1});
  for (const LayerKindId kind : model.mtp) {
    portions.push_back({&cache.mtp(slice), 1});
    portions.push_back({&cache.layer(kind, slice), 1});
  }
  portions.push_back({&cache.head(slice), 1});
  return compose(portions);
}

Flops forward(const Totals& sum) { return sum.effort[0].matmul; }
Flops backward(const Totals& sum) { return sum.effort[1].matmul + sum.effort[2].matmul; }

}  // namespace

TEST_CASE("FLOPs of every model of the zoo equal the model's: causal pairs with flash attention") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.model.name);
    const Slice slice{.mbs = 2, .seq = 3000};
    const Totals sum = whole_model(entry.model, slice, paper_recipe());
    const TokenFlops tokens = token_flops(entry.model, Tokens(3000), AttentionPairs::Causal);
    CHECK(forward(sum).value() == doctest::Approx(6000 * tokens.forward().value()).epsilon(1e-10));
    CHECK(backward(sum).value() ==
          doctest::Approx(6000 * tokens.backward().value()).epsilon(1e-10));
    CHECK(sum.effort[3].matmul == Flops(0));
  }
}

TEST_CASE("and all pairs with kernels that compute all scores") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.model.name);
    const Slice slice{.mbs = 1, .seq = 2048, .attention = AttentionKernel::FusedSoftmax};
    const Totals sum = whole_model(entry.model, slice, paper_recipe());
    const TokenFlops tokens = token_flops(entry.model, Tokens(2048), AttentionPairs::Full);
    CHECK(forward(sum).value() == doctest::Approx(2048 * tokens.forward().value()).epsilon(1e-10));
  }
}

TEST_CASE("and as plain PyTorch runs them") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.model.name);
    const TokenFlops full = token_flops(entry.model, Tokens(2048), AttentionPairs::Full);
    const TokenFlops causal = token_flops(entry.model, Tokens(2048), AttentionPairs::Causal);
    const Totals eager = whole_model(
        entry.model, {.mbs = 1, .seq = 2048, .attention = AttentionKernel::Eager}, plain_recipe());
    CHECK(forward(eager).value() == doctest::Approx(2048 * full.forward().value()).epsilon(1e-10));
    CHECK(backward(eager).value() ==
          doctest::Approx(2048 * full.backward().value()).epsilon(1e-10));
    // Fused kernels leave out what a causal mask hides, if it needs no tensor and heads are alike.
    const Totals fused = whole_model(
        entry.model, {.mbs = 1, .seq = 2048, .attention = AttentionKernel::Sdpa}, plain_recipe());
    CHECK(forward(fused).value() <= 2048 * full.forward().value() * (1 + 1e-10));
    CHECK(forward(fused).value() >= 2048 * causal.forward().value() * (1 - 1e-10));
    CHECK(backward(fused).value() >= 2048 * causal.backward().value() * (1 - 1e-10));
  }
}

TEST_CASE("the parameters of one rank of one are the model's") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.model.name);
    const Totals sum = whole_model(entry.model, {}, paper_recipe());
    CHECK(sum.parameters.dense.all + sum.parameters.expert.all ==
          parameters(entry.model).total() + mtp_parameters(entry.model).total());
  }
}

TEST_CASE("full recompute runs the forward pass of the layers once more") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.model.name);
    const Slice slice{.mbs = 1, .seq = 512};
    const LayerKind& kind = entry.model.kinds.front();
    const Totals sum = totals(
        layer_work(entry.model, kind, recomputed(slice, RecomputeKind::Full), paper_recipe()));
    CHECK(sum.effort[3] == sum.effort[0]);
    // What a layer takes beside the hidden state, its part of per-layer embeddings, stays too.
    if (entry.model.per_layer_width == 0) CHECK(sum.kept == sum.input);
  }
}

}  // namespace trainwright
