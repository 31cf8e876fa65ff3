// The closed formulas of the papers, as consequences of the list.
#include <doctest/doctest.h>

#include <string>

#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

// 22B of arXiv:2205.05198, table 3: h 6144, a 64, s 2048, b 4.
constexpr std::int64_t kHidden = 6144;
constexpr std::int64_t kHeads = 64;
constexpr std::int64_t kSequence = 2048;
constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kSbh = kSequence * kBatch * kHidden;
constexpr std::int64_t kScores = kHeads * kSequence * kSequence * kBatch;  // a s^2 b

Slice paper_slice(std::int64_t tp, bool sp) {
  return {.tp = tp,
          .etp = tp,
          .mbs = kBatch,
          .seq = kSequence,
          .sp = sp,
          .attention = AttentionKernel::FusedSoftmax};
}

Bytes kept(const Slice& slice) {
  return layer_totals(gpt_model(kHidden, kHeads), slice, paper_recipe()).kept;
}

}  // namespace

TEST_CASE("a GPT layer keeps sbh(34 + 5as/h) bytes") {
  CHECK(kept(paper_slice(1, false)) == Bytes(34 * kSbh + 5 * kScores));
}

TEST_CASE("a GPT layer keeps what the paper lists, tensor by tensor") {
  // Section 4.1: norms 2 + 2 and their outputs 2 + 2; query, key, value 6; softmax, its mask and
  // its dropped copy 2 + 1 + 2 per score; the projection's input 2, its mask 1; 8 before and 8
  // after GELU; the mask 1.
  const Model model = gpt_model(kHidden, kHeads);
  const OperatorList list =
      layer_work(model, model.kinds.front(), paper_slice(1, false), paper_recipe());
  std::string names;
  for (const Kept& one : kept_tensors(list)) names += std::string(list.at(one.tensor).name) + ' ';
  CHECK(names ==
        "hidden normed query key value probabilities probabilities_dropped attention_mask attended "
        "hidden dropout_mask normed up activated dropout_mask ");
}

TEST_CASE("tensor parallelism leaves sbh(10 + 24/t + 5as/(ht))") {
  for (const std::int64_t t : {2, 4, 8}) {
    CHECK(kept(paper_slice(t, false)) == Bytes(10 * kSbh + 24 * kSbh / t + 5 * kScores / t));
  }
}

TEST_CASE("sequence parallelism leaves sbh/t(34 + 5as/h)") {
  for (const std::int64_t t : {2, 4, 8}) {
    CHECK(kept(paper_slice(t, true)) == Bytes(34 * kSbh / t + 5 * kScores / t));
  }
}

TEST_CASE("selective recompute leaves 34sbh/t, or sbh(10 + 24/t) without sequence parallelism") {
  for (const std::int64_t t : {1, 2, 8}) {
    CHECK(kept(recomputed(paper_slice(t, true), RecomputeKind::Selective)) == Bytes(34 * kSbh / t));
    CHECK(kept(recomputed(paper_slice(t, false), RecomputeKind::Selective)) ==
          Bytes(10 * kSbh + 24 * kSbh / t));
  }
}

TEST_CASE("full recompute keeps the input of the layer, 2sbh") {
  CHECK(kept(recomputed(paper_slice(8, false), RecomputeKind::Full)) == Bytes(2 * kSbh));
  CHECK(kept(recomputed(paper_slice(8, true), RecomputeKind::Full)) == Bytes(2 * kSbh / 8));
  Slice parts = recomputed(paper_slice(8, false), RecomputeKind::Full);
  parts.distribute_saved = true;
  CHECK(kept(parts) == Bytes(2 * kSbh / 8));
}

TEST_CASE("a stage of L layers keeps L times as much, and 1F1B holds p of them") {
  // Section 4.2.3: the first stage holds p micro-batches of L/p layers, sbhL/t (34 + 5as/h).
  const Totals layer =
      layer_totals(gpt_model(kHidden, kHeads), paper_slice(8, true), paper_recipe());
  const Portion portion{&layer, 12};
  const Totals stage = compose({&portion, 1});
  CHECK(stage.kept * 4 == Bytes(34 * kSbh / 8 + 5 * kScores / 8) * 48);
}

TEST_CASE("FLOPs of GPT are 72 b L s h^2 (1 + s/6h + V/12hL)") {
  // arXiv:2205.05198 section 5 prints V/12hL for 72; 96 with V/16hL counts a second forward pass
  // (arXiv:2104.04473).
  const Model model = gpt_model(kHidden, kHeads);
  const Slice slice = paper_slice(1, false);
  const double h = kHidden;
  const double s = kSequence;
  const double b = kBatch;
  const auto train = [](const Totals& sum) {
    return (sum.effort[0].matmul + sum.effort[1].matmul + sum.effort[2].matmul).value();
  };
  const Totals layer = layer_totals(model, slice, paper_recipe());
  CHECK(train(layer) == doctest::Approx(72 * b * s * h * h * (1 + s / (6 * h))).epsilon(1e-12));
  const Totals head = totals(head_work(model, slice, paper_recipe()));
  CHECK(train(head) == doctest::Approx(6 * b * s * h * 51200).epsilon(1e-12));
  const Totals again = layer_totals(model, recomputed(slice, RecomputeKind::Full), paper_recipe());
  CHECK(train(again) + again.effort[3].matmul.value() ==
        doctest::Approx(96 * b * s * h * h * (1 + s / (6 * h))).epsilon(1e-12));
}

TEST_CASE(
    "a Llama layer in Transformer Engine keeps sbh/t(16 + 6f/h) + 4asb/t and norm statistics") {
  // Norm inputs 2 + 2 and outputs 2 + 2, query, key and value 6, attention's output 2; gate and up
  // 4f/h, their product 2f/h; one fp32 log-sum-exp per token and head; one fp32 per token and norm.
  const std::int64_t width = 11008;
  const std::int64_t hidden = 4096;
  const std::int64_t heads = 32;
  Recipe recipe = paper_recipe();
  recipe.norm->row_bytes = 4;
  const Model model = llama_model(hidden, heads, heads, width);
  for (const std::int64_t t : {1, 2, 4, 8}) {
    const Slice slice{.tp = t, .etp = t, .mbs = 2, .seq = 4096, .sp = true};
    const std::int64_t sb = 2 * 4096;
    CHECK(layer_totals(model, slice, recipe).kept ==
          Bytes(sb / t * (16 * hidden + 6 * width) + 4 * heads * sb / t + 2 * 4 * sb / t));
  }
}

TEST_CASE("the Llama layer with unfused softmax, derived like the paper's") {
  // No dropout and no masks; 4 norm bytes in and 4 out, 6, 2 per score, 2, 4f/h + 2f/h.
  const Model model = llama_model(4096, 32, 32, 11008);
  const Slice slice{.mbs = 2, .seq = 2048, .attention = AttentionKernel::FusedSoftmax};
  const std::int64_t sb = 2 * 2048;
  CHECK(layer_totals(model, slice, paper_recipe()).kept ==
        Bytes(sb * (16 * 4096 + 6 * 11008) + 2 * 32 * sb * 2048));
}

TEST_CASE("Megatron's vocabulary-parallel loss holds 6 bytes per logit and keeps 4, over tp") {
  const Model model = llama_model(4096, 32, 32, 11008);
  for (const std::int64_t t : {1, 2, 8}) {
    const Slice slice{.tp = t, .etp = t, .mbs = 1, .seq = 4096, .sp = t > 1};
    const OperatorList list = head_work(model, slice, paper_recipe());
    const std::int64_t logits = 4096 * 32000 / t;
    const Totals sum = totals(list);
    // Beside the logits: the norm's input and output, over tp too; 4 bytes of mean loss.
    const std::int64_t hidden = 2 * 2 * 4096 * 4096 / t;
    CHECK(sum.kept == Bytes(4 * logits + hidden));
    CHECK(sum.forward.bytes == Bytes(6 * logits + hidden + 4));
  }
}

TEST_CASE("a loss moves what its kernels read and write for every logit, in one piece or many") {
  const Model model = llama_model(4096, 32, 32, 11008);
  const Slice slice{.mbs = 1, .seq = 4096};
  const std::int64_t logits = std::int64_t{4096} * 32000;
  const auto moved = [&](const Recipe& recipe) {
    Effort forward, backward;
    for (const Operator& op : head_work(model, slice, recipe).operators) {
      if (op.kind != OperatorKind::Loss) continue;
      forward.read += op.forward.read + op.forward.written;
      backward.read += op.input_gradient.read + op.input_gradient.written;
    }
    return std::pair(forward.read, backward.read);
  };
  // Megatron's: a cast of 2 + 4 bytes, maximum 4, difference, powers, sum and quotient 8 + 8 + 4 +
  // 8; backward a product of 8 and a cast of 4 + 2.
  Recipe recipe = paper_recipe();
  recipe.loss.moved_forward = 38;
  recipe.loss.moved_backward = 14;
  CHECK(moved(recipe) == std::pair(Bytes(38 * logits), Bytes(14 * logits)));
  recipe.loss.chunks = 8;
  CHECK(moved(recipe) == std::pair(Bytes(38 * logits), Bytes(14 * logits)));
  // PyTorch's log-softmax in fp32: three times read and once written; backward the gradient is
  // filled in, read twice, and read with the result to write that of the logits.
  recipe.loss = Loss();
  recipe.loss.by_operators = true;
  CHECK(moved(recipe) == std::pair(Bytes(16 * logits), Bytes((4 + 8 + 4 + 4) * logits)));
}

TEST_CASE("flash attention keeps the same whatever the window") {
  Model model = llama_model(4096, 32, 8, 14336);
  const Slice slice{.mbs = 1, .seq = 8192};
  const Bytes full = layer_totals(model, slice, paper_recipe()).kept;
  auto& attention = std::get<SoftmaxAttention>(model.kinds.front().attention);
  attention.reach = Reach::Sliding;
  attention.window = 1024;
  CHECK(layer_totals(model, slice, paper_recipe()).kept == full);
}

TEST_CASE("Sailor's layers keep what its profiler measured") {
  // sailor/Planner/llm_info.json, act_mem_floats of one sequence of 2048: fp32 numbers that a layer
  // leaves behind, its output among them. OPT-350M, 16 heads, at tp 1 and 8: (43, 8) x 2048 x 1024
  // and a statistic per token of two norms. The norms keep their outputs, so the input is not kept.
  const Trainer trainer = picked_trainer("sailor");
  const Recipe recipe = recipe_of(trainer, PrecisionKind::Fp32);
  Model opt = gpt_model(1024, 16);
  opt.dropout_hidden = opt.dropout_attention = 0;
  std::get<Mlp>(opt.kinds[0].feed_forward).activation = Activation::Relu;
  for (const auto& [tp, floats] : {std::pair<std::int64_t, std::int64_t>{1, 90'181'632},
                                   std::pair<std::int64_t, std::int64_t>{8, 16'781'312}}) {
    const Slice slice{
        .tp = tp, .etp = tp, .mbs = 1, .seq = 2048, .attention = AttentionKernel::FusedSoftmax};
    const Totals of = layer_totals(opt, slice, recipe);
    CHECK(of.kept + of.output == Bytes(4 * floats));
  }
  // GPT-Neo 2.7B, 20 heads, torch.nn.LayerNorm: the input is kept in place of the output.
  Model neo = gpt_model(2560, 20);
  neo.dropout_attention = 0;
  Recipe plain = recipe;
  plain.norm.reset();
  const Slice whole{.mbs = 1, .seq = 2048, .attention = AttentionKernel::FusedSoftmax};
  CHECK(layer_totals(neo, whole, plain).kept == Bytes(std::int64_t{4} * 170'401'792));
}

}  // namespace trainwright
