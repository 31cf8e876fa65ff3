// Mamba-2 layers: what mamba_ssm's kernels keep, what tensor and context parallelism cut.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

// 8 heads of 16 channels in 4 groups with 8 states: 128 channels, 32 numbers of B and of C.
Model mamba_model(
    Mamba2 mamba = {
        .heads = 8, .head_dim = 16, .groups = 4, .state = 8, .convolution = 4, .chunk = 32}) {
  Model model = llama_model(64, 4, 4, 256);
  LayerKind& kind = model.kinds.front();
  kind.attention = mamba;
  kind.feed_forward = NoFeedForward{};
  kind.before_feed_forward = Norm::None;
  return model;
}

// 2 x 64 tokens.
constexpr Slice kSlice{.mbs = 2, .seq = 64};

// Norms as one kernel, so that what is kept is that of the mixer.
Recipe transformers_recipe() {
  Recipe recipe = plain_recipe();
  recipe.norm = FusedKeeps{.input = true};
  return recipe;
}

// Bytes of 128 tokens in bf16.
constexpr std::int64_t kHidden = 128 * 64 * 2, kWidth = 128 * 128 * 2;
constexpr std::int64_t kProjected = 128 * (2 * 128 + 2 * 32 + 8) * 2;
constexpr std::int64_t kStatistics = 128 * 4 * 4;

bool keeps(const OperatorList& list, std::string_view name) {
  const auto kept = kept_tensors(list);
  return std::any_of(kept.begin(), kept.end(),
                     [&](const Kept& one) { return list.at(one.tensor).name == name; });
}

TEST_CASE("Megatron keeps projection, scan, gate, norm and the last product's input") {
  const Totals sum = layer_totals(mamba_model(), kSlice, paper_recipe());
  CHECK(sum.kept == Bytes(2 * kHidden + kProjected + 3 * kWidth + kStatistics));
}

TEST_CASE("transformers' function makes the last product's input again") {
  const Totals sum = layer_totals(mamba_model(), kSlice, transformers_recipe());
  CHECK(sum.kept == Bytes(2 * kHidden + kProjected + kWidth + kStatistics));
}

TEST_CASE("without a norm the gate's result is what the last product reads") {
  Model model = mamba_model();
  std::get<Mamba2>(model.kinds.front().attention).output_norm = Norm::None;
  CHECK(layer_totals(model, kSlice, paper_recipe()).kept ==
        Bytes(2 * kHidden + kProjected + 2 * kWidth));
  CHECK(layer_totals(model, kSlice, transformers_recipe()).kept ==
        Bytes(2 * kHidden + kProjected + kWidth));
}

TEST_CASE(
    "tensor parallelism with sequence parallelism halves all of it, context parallelism too") {
  const Bytes whole = layer_totals(mamba_model(), kSlice, paper_recipe()).kept;
  Slice tp = kSlice;
  tp.tp = 2;
  tp.sp = true;
  CHECK(layer_totals(mamba_model(), tp, paper_recipe()).kept * 2 == whole);
  Slice cp = kSlice;
  cp.cp = 2;
  const OperatorList list =
      layer_work(mamba_model(), mamba_model().kinds.front(), cp, paper_recipe());
  CHECK(totals(list).kept * 2 == whole);
  const auto exchanges =
      std::count_if(list.operators.begin(), list.operators.end(),
                    [](const Operator& op) { return op.name == "exchange_heads"; });
  CHECK(exchanges == 2);
}

TEST_CASE("groups that are fewer than the ranks of cp are copied") {
  Model model = mamba_model();
  std::get<Mamba2>(model.kinds.front().attention).groups = 1;
  Slice cp = kSlice;
  cp.cp = 2;
  const OperatorList list = layer_work(model, model.kinds.front(), cp, paper_recipe());
  // 64 tokens: gate and values, B and C of one group twice, a step width per head.
  const auto tensor = std::find_if(list.tensors.begin(), list.tensors.end(),
                                   [](const Tensor& t) { return t.name == "projected_exchanged"; });
  REQUIRE(tensor != list.tensors.end());
  CHECK(tensor->elements == 64 * (2 * 128 + 2 * 2 * 8 + 8));
}

TEST_CASE("one rank of two holds half of a mixer but for the layer's norm") {
  const Model model = mamba_model();
  const LayerKind& kind = model.kinds.front();
  Slice tp = kSlice;
  tp.tp = 2;
  const std::int64_t all = parameters(layer_weights(model, kind)).total().value();
  CHECK(layer_totals(model, tp, paper_recipe()).parameters.dense.all.value() * 2 == all + 64);
}

TEST_CASE("layers of one branch have that branch's operators alone") {
  Model model = llama_model(64, 4, 4, 256);
  const Totals both = layer_totals(model, kSlice, paper_recipe());
  LayerKind& kind = model.kinds.front();
  const LayerKind whole = kind;
  kind.attention = NoAttention{};
  kind.before_attention = Norm::None;
  const Totals fed = layer_totals(model, kSlice, paper_recipe());
  kind = whole;
  kind.feed_forward = NoFeedForward{};
  kind.before_feed_forward = Norm::None;
  const Totals attended = layer_totals(model, kSlice, paper_recipe());
  CHECK(fed.kept + attended.kept == both.kept);
  for (std::size_t pass = 0; pass < 3; ++pass) {
    CHECK(fed.effort[pass].matmul + attended.effort[pass].matmul == both.effort[pass].matmul);
  }
  CHECK(fed.parameters.dense.all + attended.parameters.dense.all == both.parameters.dense.all);
}

TEST_CASE("mixers side by side each keep a scaled copy of what the norm made") {
  Model model = llama_model(64, 4, 4, 256);
  model.kinds.front().beside_attention = std::get<Mamba2>(mamba_model().kinds.front().attention);
  const OperatorList list = layer_work(model, model.kinds.front(), kSlice, transformers_recipe());
  CHECK(keeps(list, "mamba_input"));
  CHECK(keeps(list, "attention_input"));
  CHECK(keeps(list, "scanned"));
}

TEST_CASE("the scan's products count as the model's, whatever the kernel of attention") {
  const Model model = mamba_model();
  const double tokens = 128;
  // 2 x 32 x (4 x 8 + 128) + 4 x 128 x 8 per token; 4 taps on 128 + 64 channels.
  const double scan = tokens * (2 * 32 * 160 + 4 * 128 * 8 + 2 * 4 * 192);
  for (const auto attention : {AttentionKernel::Flash, AttentionKernel::Eager}) {
    Slice slice = kSlice;
    slice.attention = attention;
    const Totals sum = layer_totals(model, slice, paper_recipe());
    CHECK(sum.effort[0].matmul.value() ==
          doctest::Approx(scan + tokens * 2 * (64 * 328 + 128 * 64)));
  }
}

}  // namespace
}  // namespace trainwright
