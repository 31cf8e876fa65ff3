#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <array>

#include "trainwright/testing/slow_work.h"
#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

std::int64_t within(std::int64_t low, std::int64_t high) {
  return *rc::gen::inRange<std::int64_t>(low, high + 1);
}
bool any_bool() { return *rc::gen::arbitrary<bool>(); }

Mlp any_mlp() {
  return {.width = 96 * within(1, 4),
          .gated = any_bool(),
          .bias = any_bool(),
          .activation = static_cast<Activation>(within(0, 6))};
}

CodeStyle any_style() {
  return {.gain = static_cast<CodeStyle::Gain>(within(0, 3)),
          .gate = static_cast<CodeStyle::Gate>(within(0, 2)),
          .rms_by_power = any_bool(),
          .one_plus_norm_gain = any_bool(),
          .layer_norm_in_steps = any_bool(),
          .joined_attention = any_bool(),
          .joined_feed_forward = any_bool(),
          .softmax_in_fp32 = any_bool(),
          .subtracts_largest = any_bool(),
          .rotates_part = any_bool(),
          .tanh_gelu_in_steps = any_bool(),
          .router_in_fp32 = any_bool(),
          .scores_in_fp32 = any_bool(),
          .scores_of_chosen = any_bool(),
          .scores_by_root = any_bool(),
          .scores_divided = any_bool(),
          .scores_narrowed = any_bool(),
          .scores_before_experts = any_bool()};
}

Model any_dense_model() {
  Model model = llama_model(256, 16, 16, 96);
  model.style = any_style();
  LayerKind& kind = model.kinds.front();
  kind.attention = SoftmaxAttention{.heads = 16,
                                    .kv_heads = 8 * within(1, 2),
                                    .head_dim = 16,
                                    .softcap = any_bool(),
                                    .rotary = any_bool()};
  kind.feed_forward = any_mlp();
  kind.before_attention = any_bool() ? Norm::Rms : Norm::Layer;
  kind.before_feed_forward = kind.before_attention;
  kind.parallel = any_bool();
  model.dropout_hidden = any_bool() ? 0.1 : 0;
  model.dropout_attention = any_bool() ? 0.1 : 0;
  return model;
}

Model any_model() {
  Model model = any_dense_model();
  if (any_bool()) {
    model.kinds.front().attention = LatentAttention{.heads = 16,
                                                    .query_rank = any_bool() ? 64 : 0,
                                                    .kv_rank = 32,
                                                    .rope_dim = 8,
                                                    .nope_dim = 16,
                                                    .value_dim = 16};
  }
  if (any_bool()) {
    model.kinds.front().feed_forward =
        MixtureOfExperts{.experts = 8,
                         .experts_per_token = within(1, 3),
                         .expert = any_mlp(),
                         .shared = any_bool() ? std::optional(any_mlp()) : std::nullopt,
                         .shared_gate = any_bool()};
  }
  return model;
}

Slice any_slice() {
  constexpr std::array kKinds = {RecomputeKind::None, RecomputeKind::Selective,
                                 RecomputeKind::Full};
  Slice slice{.tp = std::int64_t{1} << within(0, 3),
              .cp = std::int64_t{1} << within(0, 1),
              .ep = std::int64_t{1} << within(0, 2),
              .mbs = within(1, 3),
              .seq = 64};
  slice.sp = any_bool();
  slice.attention = any_bool() ? AttentionKernel::Eager : AttentionKernel::Sdpa;
  slice.recompute.kind = kKinds[static_cast<std::size_t>(within(0, 2))];
  return slice;
}

OperatorList list_of(const Model& model, const Slice& slice, Dtype compute) {
  return layer_work(model, model.kinds.front(), slice, plain_recipe(compute));
}
Dtype any_dtype() { return any_bool() ? Dtype::Bf16 : Dtype::Fp32; }

// Kept bytes of all ranks of tp x cp, copies counted once.
double whole(const OperatorList& list, const Slice& slice) {
  double sum = 0;
  for (const Kept& kept : kept_tensors(list)) {
    const Tensor& tensor = list.at(kept.tensor);
    sum += static_cast<double>(tensor.bytes().value() * slice.tp * slice.cp) /
           static_cast<double>(tensor.copies);
  }
  return sum;
}

}  // namespace

TEST_CASE("plain PyTorch: kept bytes and peaks equal those of the obvious count") {
  CHECK(rc::check([] {
    const OperatorList list = list_of(any_model(), any_slice(), any_dtype());
    const Totals sum = totals(list);
    const SlowWork slow = SlowLiveness(list).run();
    RC_ASSERT(sum.kept == slow.kept);
    RC_ASSERT(sum.forward.bytes == slow.forward);
    RC_ASSERT(sum.backward.bytes == slow.backward);
  }));
}

TEST_CASE("plain PyTorch: recompute never keeps more") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Slice slice = any_slice();
    const Dtype compute = any_dtype();
    Slice none = slice;
    none.recompute = {};
    // Of several sequences attention copies its inputs; what enters it may be larger than they are
    // where it is a view of more.
    if (slice.recompute.kind == RecomputeKind::Selective) return;
    RC_ASSERT(totals(list_of(model, slice, compute)).kept <=
              totals(list_of(model, none, compute)).kept);
  }));
}

TEST_CASE("plain PyTorch: parts of all ranks add up to the whole, copies counted once") {
  CHECK(rc::check([] {
    const Model model = any_dense_model();
    const Dtype compute = any_dtype();
    Slice slice = any_slice();
    slice.recompute = {};
    slice.cp = 1;      // Scores and masks of a ring's rank are those of its own queries only.
    slice.sp = false;  // Else gathered inputs are kept beside the parts.
    // A view of joined queries, keys and values, or a head that lies alone, is another storage.
    slice.mbs = within(2, 3);
    slice.tp = std::int64_t{1} << within(0, 2);
    Slice one = slice;
    one.tp = 1;
    const OperatorList parts = list_of(model, slice, compute);
    const OperatorList all = list_of(model, one, compute);
    RC_ASSERT(whole(parts, slice) == whole(all, one));
  }));
}

}  // namespace trainwright
