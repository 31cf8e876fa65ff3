// Layers as plain PyTorch runs them, by hand; the real ones are in tests/oracle.
#include <doctest/doctest.h>

#include <array>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kWidth = 1408;
constexpr std::int64_t kSequence = 128;
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kRows = kSequence * kBatch;                         // sb
constexpr std::int64_t kSbh = kRows * kHidden;                             // sbh
constexpr std::int64_t kScores = kHeads * kSequence * kSequence * kBatch;  // a s^2 b

Slice plain_slice(AttentionKernel attention) {
  return {.mbs = kBatch, .seq = kSequence, .attention = attention};
}

Bytes kept(const Model& model, const Slice& slice, Dtype compute = Dtype::Bf16) {
  return layer_totals(model, slice, plain_recipe(compute)).kept;
}

Model llama() { return llama_model(kHidden, kHeads, kKvHeads, kWidth); }

}  // namespace

TEST_CASE(
    "plain PyTorch's loss needs 12 bytes a logit at its highest, 16 where tp cuts the vocabulary") {
  // Forward: logits 2, their fp32 copy 4, log-softmax 4, which stays. Backward: beside it the
  // gradient of the likelihood 4 and that of log-softmax 4. Cut over tp (torch 2.13
  // distributed/tensor/parallel/loss.py): logits without the largest 4 and their exponentials 4
  // more; backward zeros, exponentials, their sum and its product with the loss' gradient beside
  // it.
  const auto per_logit = [](std::int64_t tp, bool split) {
    Model wide = llama(), narrow = llama();
    wide.vocabulary = 2 * (narrow.vocabulary = 1 << 20);
    Recipe recipe = plain_recipe();
    recipe.code.vocabulary_split = recipe.loss.split_by_tp = split;
    Slice slice = plain_slice(AttentionKernel::Eager);
    slice.tp = tp;
    const Totals more = totals(head_work(wide, slice, recipe));
    const Totals less = totals(head_work(narrow, slice, recipe));
    const auto logits = static_cast<double>(kRows * narrow.vocabulary / tp);
    const auto share = [&](Bytes a, Bytes b) {
      return static_cast<double>((a - b).value()) / logits;
    };
    return std::array{share(more.forward.bytes, less.forward.bytes), share(more.kept, less.kept),
                      share(more.backward.bytes, less.backward.bytes)};
  };
  CHECK(per_logit(1, false) == std::array{10.0, 4.0, 12.0});
  CHECK(per_logit(1, true) == std::array{10.0, 4.0, 12.0});
  CHECK(per_logit(4, true) == std::array{14.0, 4.0, 16.0});
}

TEST_CASE("Qwen's own file takes norms and rotations from flash-attention where that is") {
  Model qwen = llama_model(kHidden, kHeads, kHeads, kWidth);
  qwen.style = {.joined_attention = true, .takes_flash_kernels = true};
  const auto read_by = [&](AttentionKernel attention, std::string_view name) {
    Bytes read;
    const OperatorList list =
        layer_work(qwen, qwen.kinds[0], plain_slice(attention), plain_recipe());
    for (const Operator& op : list.operators)
      if (op.name == name) read += op.forward.read;
    return read;
  };
  // Eager: two norms square fp32 copies; queries and keys are read as parts of one storage, 2 bytes
  // a number for the cosine's product each.
  CHECK(read_by(AttentionKernel::Sdpa, "square") == Bytes(2 * 4 * kSbh));
  CHECK(read_by(AttentionKernel::Sdpa, "times_cosine") == Bytes(2 * 2 * kSbh));
  CHECK(read_by(AttentionKernel::Flash, "square") == Bytes(0));
  CHECK(read_by(AttentionKernel::Flash, "times_cosine") == Bytes(0));
  CHECK(read_by(AttentionKernel::Flash, "rotate") == Bytes(2 * 4 * kSbh));  // fp32 copies
}

TEST_CASE("an eager Llama layer keeps sbh(24 + 8f/h + 6as/h) + 8sb bytes") {
  // Each norm: its input in fp32 4, the normalized rows 2, the result 2, and 4 per row; queries and
  // repeated keys and values 2 each; probabilities in fp32 and in bf16; what is attended 2; gate,
  // its activation, up and their product 2 each.
  const Bytes expected = Bytes(24 * kSbh + 8 * kRows * kWidth + 6 * kScores + 8 * kRows);
  CHECK(kept(llama(), plain_slice(AttentionKernel::Eager)) == expected);
}

TEST_CASE(
    "in fp32 casts make nothing: a norm keeps its input, the normalized rows and the result") {
  // 12 a norm, 12 queries, keys and values, 4 attended, and one matrix of probabilities.
  const Bytes expected = Bytes(40 * kSbh + 16 * kRows * kWidth + 4 * kScores + 8 * kRows);
  CHECK(kept(llama(), plain_slice(AttentionKernel::Eager), Dtype::Fp32) == expected);
}

TEST_CASE("PyTorch's attention keeps its inputs unrepeated, its output and a number per row") {
  const std::int64_t kv = kRows * kKvHeads * (kHidden / kHeads);
  const Bytes expected =
      Bytes(20 * kSbh + 4 * kv + 8 * kRows * kWidth + 4 * kRows * kHeads + 8 * kRows);
  CHECK(kept(llama(), plain_slice(AttentionKernel::Sdpa)) == expected);
}

TEST_CASE("recomputed attention keeps queries, keys and values as they enter it") {
  const std::int64_t kv = kRows * kKvHeads * (kHidden / kHeads);
  const Slice slice = recomputed(plain_slice(AttentionKernel::Eager), RecomputeKind::Selective);
  CHECK(kept(llama(), slice) == Bytes(20 * kSbh + 4 * kv + 8 * kRows * kWidth + 8 * kRows));
}

TEST_CASE("a view of a joined product keeps all of it, a copy only its part") {
  // GPT-NeoX: of one sequence the values are a view of query, key and value, 6sbh; of several they
  // are copied for the product, 2sbh. Queries and keys are made anew by the rotation.
  Model neox = gpt_model(kHidden, kHeads);
  std::get<SoftmaxAttention>(neox.kinds.front().attention).rotary = true;
  neox.dropout_hidden = neox.dropout_attention = 0;
  neox.style = {.joined_attention = true, .rotates_part = true};
  Slice slice = plain_slice(AttentionKernel::Eager);
  // Layer norms 2 + 2 and 8 per row each; attended 2; 8 before and 8 after GELU.
  CHECK(kept(neox, slice) == Bytes((8 + 4 + 2 + 2 + 16) * kSbh + 16 * kRows + 6 * kScores));
  slice.mbs = 1;
  CHECK(kept(neox, slice) ==
        Bytes((8 + 4 + 6 + 2 + 16) * kSbh / kBatch + 16 * kSequence + 6 * kScores / kBatch));
}

TEST_CASE("the tanh form of GELU written out keeps five matrices where the kernel keeps two") {
  Model model = gpt_model(kHidden, kHeads);
  std::get<Mlp>(model.kinds.front().feed_forward).activation = Activation::GeluTanh;
  const Slice slice = plain_slice(AttentionKernel::Eager);
  const Bytes kernel = kept(model, slice);
  model.style.tanh_gelu_in_steps = true;
  CHECK(kept(model, slice) - kernel == Bytes(3 * 2 * 4 * kSbh));
}

TEST_CASE("tanh-capped scores keep their tanh") {
  Model model = llama();
  const Bytes before = kept(model, plain_slice(AttentionKernel::Eager));
  std::get<SoftmaxAttention>(model.kinds.front().attention).softcap = true;
  CHECK(kept(model, plain_slice(AttentionKernel::Eager)) - before == Bytes(2 * kScores));
}

TEST_CASE("the products of a layer do not depend on how its steps are run") {
  for (const auto& [own, like] : {std::pair(AttentionKernel::Eager, AttentionKernel::FusedSoftmax),
                                  std::pair(AttentionKernel::Sdpa, AttentionKernel::Flash)}) {
    const Totals plain = layer_totals(llama(), plain_slice(own), plain_recipe(Dtype::Bf16));
    const Totals fused = layer_totals(llama(), plain_slice(like), paper_recipe());
    for (std::size_t pass = 0; pass < 3; ++pass) {
      CHECK(plain.effort[pass].matmul == fused.effort[pass].matmul);
    }
  }
}

}  // namespace trainwright
