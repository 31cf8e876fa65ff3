// Tensor, sequence, context and expert parallelism: collectives, copies, low precision.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kTokens = 2 * 8192;
constexpr std::int64_t kRow = kTokens * kHidden * 2;

Model llama() { return llama_model(kHidden, 32, 8, 14336); }

Totals of(const Slice& slice, const Recipe& recipe = paper_recipe()) {
  return layer_totals(llama(), slice, recipe);
}

Slice slice_with(std::int64_t tp, std::int64_t cp = 1) {
  return {.tp = tp, .cp = cp, .etp = tp, .mbs = 2, .seq = 8192};
}

Traffic moved(const Totals& sum, GroupKind group, CollectiveKind kind, Pass pass) {
  return sum.traffic.at(group, kind, pass);
}

}  // namespace

TEST_CASE("heads copied out of their product stay whole beside the queries, unless grouped") {
  // nanotron's layer: input, two norms' outputs and the sum between are 4 rows; the first copy of
  // queries, keys and values 3, the second of keys and values 2, what attention gives 1; gate and
  // up, activation and product 4 of the feed-forward's width. Statistics: 4 bytes per token and
  // norm, and per token and head.
  const Recipe recipe = recipe_of(picked_trainer("nanotron-main"), PrecisionKind::Bf16);
  const std::int64_t statistics = kTokens * 4 * (2 + 32);
  const Bytes wide(4 * kTokens * 14336 * 2 + statistics);
  const Model whole = llama_model(kHidden, 32, 32, 14336);
  CHECK(layer_totals(whole, slice_with(1), recipe).kept == Bytes(10 * kRow) + wide);
  // With 8 of 32 heads for keys and values the copies of the three are tensors of their own, and
  // only those of the queries and the second ones stay.
  CHECK(layer_totals(llama(), slice_with(1), recipe).kept == Bytes(6 * kRow + kRow / 2) + wide);
}

TEST_CASE("tensor parallelism sums twice forward and twice backward") {
  // arXiv:1909.08053 section 3: one all-reduce after attention and one after the feed-forward, and
  // one before each of them backward, of a whole hidden state.
  const Totals sum = of(slice_with(4));
  const auto tp = [&](CollectiveKind kind, Pass pass) {
    return moved(sum, GroupKind::Tp, kind, pass);
  };
  CHECK(tp(CollectiveKind::AllReduce, Pass::Forward) == Traffic{2, Bytes(2 * kRow)});
  CHECK(tp(CollectiveKind::AllReduce, Pass::InputGradient) == Traffic{2, Bytes(2 * kRow)});
  CHECK(tp(CollectiveKind::AllGather, Pass::Forward) == Traffic{});
}

TEST_CASE("a product knows the part of its matrix that a rank holds") {
  const Model model = llama();
  const OperatorList list = layer_work(model, model.kinds.front(), slice_with(4), paper_recipe());
  std::vector<MatrixShape> shapes;
  for (const Operator& op : list.operators) {
    if (op.matrix.in > 0) shapes.push_back(op.matrix);
  }
  // 32 query and 2 x 8 key and value heads of 128 over 4 ranks, then back; gate and up, down.
  const std::vector<MatrixShape> expected = {
      {4096, 12 * 128}, {1024, 4096}, {4096, 2 * 3584}, {3584, 4096}};
  CHECK(shapes == expected);
}

TEST_CASE("split products copy what they fold") {
  // One layer's down product, fp16, tp 1: its input has 2 x 16384 x 14336 bytes, its output's
  // gradient 2 x 16384 x 4096, its weight's 2 x 14336 x 4096; the input's copy is the largest.
  const Model model = llama();
  Recipe recipe = paper_recipe();
  recipe.accumulates_in_product = false;
  const auto workspace = [&] {
    const OperatorList list = layer_work(model, model.kinds.front(), slice_with(1), recipe);
    for (const Operator& op : list.operators) {
      if (op.name == "down") return op.weight_workspace;
    }
    return Bytes(-1);
  };
  const Bytes fused = workspace();
  CHECK(fused == Bytes(2 * 14336 * 4096));
  recipe.splits_products = true;
  CHECK(workspace() == Bytes(2LL * kTokens * 14336));
}

TEST_CASE("casts move bytes for every number that a low-precision product reads") {
  const Model model = llama();
  Recipe recipe = paper_recipe();
  recipe.rounds = {.input = 4,
                   .after_norm = 1,
                   .input_again = 2,
                   .gradient = 3,
                   .gradient_again = 6,
                   .weight = 5};
  const auto named = [&](const Slice& slice, std::string_view name) {
    const OperatorList list = layer_work(model, model.kinds.front(), slice, recipe);
    for (const Operator& op : list.operators) {
      if (op.name == name) return op;
    }
    return Operator{};
  };
  // `down` reads 16384 x 14336 numbers and a matrix of 14336 x 4096, and gives 16384 x 4096.
  const std::int64_t in = kTokens * 14336, out = kTokens * kHidden, weights = 14336LL * kHidden;
  const Operator down = named(slice_with(1), "down");
  CHECK(down.forward.converted == Bytes(4 * in + 5 * weights));
  CHECK(down.input_gradient.converted == Bytes(3 * out + 5 * weights));
  CHECK(down.weight_gradient.converted == Bytes(2 * in + 6 * out));
  // `gate_up` reads what a norm has written.
  const Operator gate = named(slice_with(1), "gate_up");
  CHECK(gate.forward.converted == Bytes(kTokens * kHidden + 5 * 2 * weights));
  // Matrices that are gathered in 8 bits need no cast; a product in 16 bits has none.
  Slice gathered = slice_with(1);
  gathered.weights_rounded = true;
  CHECK(named(gathered, "down").forward.converted == Bytes(4 * in));
  CHECK(named(slice_with(1), "attention_core").forward.converted == Bytes(0));
}

TEST_CASE("what is cast before it is gathered travels in one byte, and each rank casts its own") {
  const Model model = llama();
  Recipe recipe = paper_recipe();
  recipe.code.gathers_again = false;
  recipe.rounds = {.input = 4, .after_norm = 4, .gradient = 3};
  Slice slice = slice_with(4);
  slice.sp = true;
  const auto down_of = [&] {
    const OperatorList list = layer_work(model, model.kinds.front(), slice, recipe);
    for (const Operator& op : list.operators) {
      if (op.name == "down") return op.input_gradient.converted;
    }
    return Bytes(-1);
  };
  const auto gathered = [&](Pass pass) {
    return moved(of(slice, recipe), GroupKind::Tp, CollectiveKind::AllGather, pass);
  };
  CHECK(gathered(Pass::Forward) == Traffic{2, Bytes(2 * kRow)});
  CHECK(down_of() == Bytes(3LL * kTokens * kHidden));
  recipe.rounds.before_gather = true;
  CHECK(gathered(Pass::Forward) == Traffic{2, Bytes(kRow)});
  CHECK(gathered(Pass::InputGradient) == Traffic{2, Bytes(kRow)});
  CHECK(down_of() == Bytes(3LL * kTokens * kHidden / 4));
}

TEST_CASE("sequence parallelism gathers and scatters instead, and gathers once more for weights") {
  // arXiv:2205.05198 section 4.2.2: an all-gather and a reduce-scatter move what an all-reduce
  // does; the input of a matrix is kept in parts and gathered again backward.
  Slice slice = slice_with(4);
  slice.sp = true;
  const Totals sum = of(slice);
  const auto tp = [&](CollectiveKind kind, Pass pass) {
    return moved(sum, GroupKind::Tp, kind, pass);
  };
  const Traffic twice{2, Bytes(2 * kRow)};
  CHECK(tp(CollectiveKind::AllGather, Pass::Forward) == twice);
  CHECK(tp(CollectiveKind::ReduceScatter, Pass::Forward) == twice);
  CHECK(tp(CollectiveKind::AllGather, Pass::InputGradient) == twice);
  CHECK(tp(CollectiveKind::ReduceScatter, Pass::InputGradient) == twice);
  CHECK(tp(CollectiveKind::AllGather, Pass::WeightGradient) == twice);
  CHECK(tp(CollectiveKind::AllReduce, Pass::Forward) == Traffic{});

  Recipe once = paper_recipe();
  once.code.gathers_again = false;
  const Totals kept = of(slice, once);
  CHECK(moved(kept, GroupKind::Tp, CollectiveKind::AllGather, Pass::WeightGradient) == Traffic{});
  // Two gathered inputs of 1 instead of two parts of 1/4.
  CHECK(kept.kept - sum.kept == Bytes(2 * kRow - 2 * kRow / 4));
}

TEST_CASE("key and value heads beyond their number are copied") {
  const Model model = llama_model(kHidden, 32, 2, 14336);
  const LayerKind& kind = model.kinds.front();
  const OperatorList list = layer_work(model, kind, slice_with(8), paper_recipe());
  for (const Tensor& tensor : list.tensors) {
    if (tensor.name == "key") {
      CHECK(tensor.copies == 4);
      CHECK(tensor.elements == kTokens * 128);
    }
    if (tensor.name == "query") CHECK(tensor.copies == 1);
  }
  // Each rank holds one of two key heads, so four times the key weights in all.
  const Weight key{.name = "key",
                   .part = Part::SelfAttention,
                   .in = kHidden,
                   .out = 256,
                   .cut = WeightCut::Columns,
                   .unit = 128};
  const auto held = held_weights({&key, 1}, {}, slice_with(8), paper_recipe());
  REQUIRE(held.size() == 1);
  CHECK(held.front().tensor.in == kHidden);
  CHECK(held.front().tensor.out == 128);
}

TEST_CASE("a ring passes keys and values cp - 1 times, and twice that backward") {
  const Totals sum = of(slice_with(2, 4));
  // One rank of tp 2: 4 of 8 key heads of 128, a quarter of the tokens, 2 bytes, keys and values.
  const std::int64_t block = kTokens / 4 * 4 * 128 * 2 * 2;
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::Ring, Pass::Forward) ==
        Traffic{1, Bytes(3 * block)});
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::Ring, Pass::InputGradient) ==
        Traffic{1, Bytes(6 * block)});
  CHECK(sum.kept * 4 == of(slice_with(2)).kept);
}

TEST_CASE("an all-gather of keys and values is repeated backward and its gradients scattered") {
  Slice slice = slice_with(1, 4);
  slice.cp_kind = CpKind::AllGather;
  const Totals sum = of(slice);
  const std::int64_t keys = kTokens * 8 * 128 * 2;
  const Traffic both{2, Bytes(2 * keys)};
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::AllGather, Pass::Forward) == both);
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::AllGather, Pass::InputGradient) == both);
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::ReduceScatter, Pass::InputGradient) == both);
}

TEST_CASE("Ulysses exchanges queries, keys, values and the output") {
  Slice slice = slice_with(1, 4);
  slice.cp_kind = CpKind::Ulysses;
  const Totals sum = of(slice);
  const std::int64_t query = kTokens / 4 * 32 * 128 * 2;
  const std::int64_t key = query / 4;
  const Traffic four{4, Bytes(2 * query + 2 * key)};
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::AllToAll, Pass::Forward) == four);
  CHECK(moved(sum, GroupKind::Cp, CollectiveKind::AllToAll, Pass::InputGradient) == four);
  // The projection's input is another tensor than the kernel's output.
  CHECK(sum.kept == of(slice_with(1, 4)).kept + Bytes(query));
  slice.cp_kind = CpKind::UlyssesRing;
  slice.cp_ulysses = 2;
  const Totals mixed = of(slice);
  CHECK(moved(mixed, GroupKind::Cp, CollectiveKind::AllToAll, Pass::Forward) == four);
  CHECK(moved(mixed, GroupKind::Cp, CollectiveKind::Ring, Pass::Forward) ==
        Traffic{1, Bytes(2 * key)});
  CHECK(mixed.effort[0].matmul.value() == doctest::Approx(sum.effort[0].matmul.value()));
}

TEST_CASE("expert parallelism sends every row there and back") {
  const MixtureOfExperts experts{.experts = 16,
                                 .experts_per_token = 4,
                                 .expert = {.width = 1024, .gated = true},
                                 .shared = {}};
  const Model model = with_experts(llama(), experts);
  Slice slice = slice_with(1);
  const Totals alone = layer_totals(model, slice, paper_recipe());
  CHECK(moved(alone, GroupKind::Ep, CollectiveKind::AllToAll, Pass::Forward) == Traffic{});
  slice.ep = 8;
  const Totals spread = layer_totals(model, slice, paper_recipe());
  const Traffic both{2, Bytes(2 * 4 * kRow)};
  CHECK(moved(spread, GroupKind::Ep, CollectiveKind::AllToAll, Pass::Forward) == both);
  CHECK(moved(spread, GroupKind::Ep, CollectiveKind::AllToAll, Pass::InputGradient) == both);
  CHECK(spread.parameters.expert.all * 8 == alone.parameters.expert.all);
  CHECK(spread.effort[0].matmul == alone.effort[0].matmul);  // as many rows, of other ranks
  slice.dispatcher = DispatcherKind::AllGather;
  const Totals gathers = layer_totals(model, slice, paper_recipe());
  CHECK(moved(gathers, GroupKind::Ep, CollectiveKind::AllGather, Pass::Forward) ==
        Traffic{1, Bytes(8 * kRow)});
}

TEST_CASE("DeepEP sends a token once to each rank") {
  const MixtureOfExperts experts{.experts = 16,
                                 .experts_per_token = 4,
                                 .expert = {.width = 1024, .gated = true},
                                 .shared = {}};
  const Model model = with_experts(llama(), experts);
  Slice slice = slice_with(1);
  slice.ep = 2;
  const Totals rows = layer_totals(model, slice, paper_recipe());
  slice.dispatcher = DispatcherKind::Flex;
  const Totals tokens = layer_totals(model, slice, paper_recipe());
  // Four experts on two ranks: two copies of a token instead of four.
  CHECK(moved(tokens, GroupKind::Ep, CollectiveKind::AllToAll, Pass::Forward) ==
        Traffic{2, Bytes(2 * 2 * kRow)});
  CHECK(moved(rows, GroupKind::Ep, CollectiveKind::AllToAll, Pass::Forward) ==
        Traffic{2, Bytes(2 * 4 * kRow)});
  CHECK(tokens.effort[0].matmul == rows.effort[0].matmul);
}

TEST_CASE("what cannot be counted is said, not thrown") {
  const Slice huge{.mbs = std::int64_t{1} << 31, .seq = std::int64_t{1} << 31};
  REQUIRE(too_large(llama(), huge).has_value());
  const Slice million{.tp = 8, .cp = 16, .mbs = 1, .seq = 1 << 20};
  CHECK(!too_large(llama(), million).has_value());
  CHECK(layer_totals(llama(), million, paper_recipe()).kept > Bytes(0));
  // The largest that is counted: 2^48 numbers of eight hidden states, 2^33 tokens.
  Slice most{.mbs = 1 << 2, .seq = std::int64_t{1} << 31};
  CHECK(!too_large(llama_model(4096, 32, 8, 14336), most).has_value());
  const Totals layer = layer_totals(llama(), most, paper_recipe());
  const Portion portion{&layer, 1000};
  CHECK(compose({&portion, 1}).kept == layer.kept * 1000);
}

TEST_CASE("the parts of experts enlarge no model without experts") {
  // Half a million tokens of 2^19 channels in 256 layers: 2^46 numbers, of 2^51 that are counted;
  // 64 parts of experts gather 64 times as much.
  const Slice slice{.tp = 64, .etp = 64, .mbs = 1, .seq = 1 << 19};
  const Model dense = [] {
    Model model = llama_model(1 << 16, 512, 8, 1 << 18);
    model.layers.assign(256, LayerKindId(0));
    return model;
  }();
  CHECK(!too_large(dense, slice).has_value());
  const MixtureOfExperts experts{.experts = 1,
                                 .experts_per_token = 1,
                                 .expert = Mlp{.width = 1 << 18, .gated = true},
                                 .shared = {}};
  const auto fault = too_large(with_experts(dense, experts), slice);
  REQUIRE(fault.has_value());
  CHECK(fault->what.starts_with("a micro-batch of 1 sequence of 524288 tokens"));
}

TEST_CASE("the parts of an expert gather each other's rows over etp") {
  const MixtureOfExperts experts{.experts = 16,
                                 .experts_per_token = 4,
                                 .expert = {.width = 1024, .gated = true},
                                 .shared = {}};
  const Model model = with_experts(llama(), experts);
  Slice slice = slice_with(4);
  slice.sp = true;
  slice.ep = 2;
  slice.etp = 2;
  const Totals sum = layer_totals(model, slice, paper_recipe());
  const std::int64_t sent = 4 * kRow / 4;  // four experts each of a quarter of the tokens
  CHECK(moved(sum, GroupKind::Etp, CollectiveKind::AllGather, Pass::Forward) ==
        Traffic{1, Bytes(2 * sent)});
  CHECK(moved(sum, GroupKind::Etp, CollectiveKind::ReduceScatter, Pass::Forward) ==
        Traffic{1, Bytes(2 * sent)});
  // Rows double and widths halve: the work is the same as without.
  slice.etp = 1;
  CHECK(layer_totals(model, slice, paper_recipe()).effort[0].matmul == sum.effort[0].matmul);
}

TEST_CASE("an fp8 recipe keeps copies of the matrices' inputs") {
  Recipe recipe = paper_recipe();
  recipe.input_copy = 1;
  const Slice slice{.mbs = 2, .seq = 8192};
  const Totals narrow = of(slice, recipe);
  const Totals wide = of(slice);
  // Normed 2 x 2 -> 1, the activation 2 -> 1; attention's output stays for the kernel and is
  // copied.
  const std::int64_t row = kTokens * kHidden;
  CHECK(wide.kept - narrow.kept == Bytes(2 * row + kTokens * 14336 - row));
  CHECK(narrow.effort[0].matmul == wide.effort[0].matmul);
}

TEST_CASE("the facts of Megatron-Core give the Transformer Engine layer") {
  const Recipe recipe = recipe_of(picked_trainer("megatron@0.13"), PrecisionKind::Bf16);
  CHECK(recipe.attention == AttentionKernel::Flash);
  CHECK(recipe.code.vocabulary_multiple == 128);
  const Model model = llama_model(4096, 32, 32, 11008);
  const Slice slice{.tp = 2, .etp = 2, .mbs = 1, .seq = 4096, .sp = true};
  CHECK(layer_totals(model, slice, recipe).kept ==
        Bytes(2048 * (16 * 4096 + 6 * 11008) + 4 * 32 * 2048 + 2 * 4 * 2048));
}

TEST_CASE("the facts of Megatron-Core in fp8 keep fp8 inputs of matrices") {
  // Of 16: both normed inputs 2 -> 1, the projection's input 1 more beside the kernel's output; of
  // 6f/h: the last product's input 2 -> 1.
  const Recipe recipe = recipe_of(picked_trainer("megatron@0.13"), PrecisionKind::Fp8Delayed);
  CHECK(recipe.input_copy == 1);
  CHECK(recipe.weight_copy == 2);
  const Model model = llama_model(4096, 32, 32, 11008);
  Slice slice{.tp = 2, .etp = 2, .mbs = 1, .seq = 4096, .sp = true};
  slice.precision = PrecisionKind::Fp8Delayed;
  const Totals sum = layer_totals(model, slice, recipe);
  CHECK(sum.kept == Bytes(2048 * (15 * 4096 + 5 * 11008) + 4 * 32 * 2048 + 2 * 4 * 2048));
  // Every matrix of the layer is cast; what is gathered is the fp8 copy.
  CHECK(sum.parameters.dense.low_precision == sum.parameters.dense.all - Params(2 * 4096));
  CHECK(moved(sum, GroupKind::Tp, CollectiveKind::AllGather, Pass::Forward) ==
        Traffic{2, Bytes(2 * 4096 * 4096)});
}

TEST_CASE("what experts keep grows with the rows they receive") {
  const MixtureOfExperts experts{.experts = 16,
                                 .experts_per_token = 4,
                                 .expert = {.width = 1024, .gated = true},
                                 .shared = {}};
  Recipe recipe = paper_recipe();
  recipe.code.expert_scores = ExpertScores::InActivation;
  const Slice slice{.ep = 4, .mbs = 2, .seq = 8192};
  const Totals sum = layer_totals(with_experts(llama(), experts), slice, recipe);
  // Rows as sent to the experts, gate, up and their product.
  CHECK(sum.kept_of_experts == Bytes(4 * kRow + 4 * kTokens * 3 * 1024 * 2));
  CHECK(of(slice).kept_of_experts == Bytes(0));
}

TEST_CASE("scores in the rows leave the bias of experts to be scaled and added by itself") {
  const auto casts = [](bool bias, ExpertScores scores, std::size_t pass) {
    const MixtureOfExperts experts{.experts = 16,
                                   .experts_per_token = 4,
                                   .expert = {.width = 1024, .gated = true, .bias = bias},
                                   .shared = {}};
    Recipe recipe = paper_recipe();
    recipe.code.expert_scores = scores;
    const Slice slice{.ep = 4, .mbs = 2, .seq = 8192};
    return layer_totals(with_experts(llama(), experts), slice, recipe).effort[pass].converted;
  };
  // Of each number of the rows that four experts of a token give: 28 bytes forward, 40 backward.
  const std::int64_t numbers = 4 * kTokens * kHidden;
  CHECK(casts(true, ExpertScores::InActivation, 0) == Bytes(28 * numbers));
  CHECK(casts(true, ExpertScores::InActivation, 1) == Bytes(40 * numbers));
  CHECK(casts(false, ExpertScores::InActivation, 0) == Bytes(0));
  CHECK(casts(true, ExpertScores::AtCombine, 0) == Bytes(0));
}

TEST_CASE("weight gradients that can wait hold the inputs of matrices and what enters them") {
  const Slice slice{.mbs = 2, .seq = 8192};
  const Totals sum = of(slice);
  const std::int64_t wide = kTokens * 14336 * 2;
  // Inputs: both normed, attention's output, the activation.
  CHECK(sum.kept_for_weights == Bytes(3 * kRow + wide));
  // Gradients of query, key, value, of both branches' outputs, of gate and up.
  CHECK(sum.held_gradients == Bytes(kRow + kRow / 2 + 2 * kRow + 2 * wide));
}

TEST_CASE("what a stage sends is as wide as what the layer after it reads") {
  const Slice slice = slice_with(2);
  Slice autocast = slice;
  autocast.autocast = true;
  Recipe recipe = paper_recipe();
  recipe.stored_wide = true;
  WorkCache cache(llama(), recipe);
  // 2 bytes, or 4 where torch.autocast leaves what flows between branches in fp32.
  CHECK(boundary_bytes(llama(), slice, recipe) == Bytes(kRow));
  CHECK(boundary_bytes(llama(), autocast, recipe) == Bytes(2 * kRow));
  for (const Slice& of : {slice, autocast}) {
    CHECK(boundary_bytes(llama(), of, recipe) == cache.layer(LayerKindId(0), of).input);
  }
}

TEST_CASE("the gate of shared experts is no low-precision product, however experts are written") {
  MixtureOfExperts experts{.experts = 8,
                           .experts_per_token = 2,
                           .expert = Mlp{.width = 512},
                           .shared = Mlp{.width = 512}};
  experts.shared_gate = true;
  const Model model = with_experts(llama_model(1024, 8, 8, 512), experts);
  for (const bool permutes : {true, false}) {
    Recipe recipe = paper_recipe();
    recipe.code.permutes_tokens = permutes;
    const ListOf of{ListOf::What::Layer, LayerKindId(0), {.mbs = 1, .seq = 256}};
    const OperatorList list = make_list(model, recipe, of);
    const auto gate = std::find_if(list.operators.begin(), list.operators.end(),
                                   [](const Operator& op) { return op.name == "shared_scale"; });
    REQUIRE(gate != list.operators.end());
    CHECK(!gate->low_precision);
  }
}

TEST_CASE("data parallelism: what ZeRO and FSDP move") {
  HeldParameters held;
  held.dense.all = held.dense.trained = Params(1000);
  held.dense.low_precision = Params(900);
  held.expert.all = held.expert.trained = held.expert.low_precision = Params(600);
  const ParameterBytes model{.weight = 2, .gradient = 4, .master = 4, .states = {}};
  const TrainedBytes bytes{.model = model, .adapter = model};
  Layout layout;
  layout.dp = 8;
  const Trainer trainer;
  const auto traffic = [&] {
    return parameter_traffic(held, 5, sharding_of(layout, trainer), paper_recipe(), bytes);
  };
  REQUIRE(traffic().size() == 2);
  CHECK(traffic()[0].kind == CollectiveKind::AllReduce);
  CHECK(traffic()[0].bytes == Bytes(4000));
  CHECK(traffic()[1].group == GroupKind::Edp);
  layout.zero = 1;
  layout.sharding = ShardingKind::Zero;
  REQUIRE(traffic().size() == 4);
  CHECK(traffic()[0].kind == CollectiveKind::AllGather);
  CHECK(traffic()[0].bytes == Bytes(2000));
  CHECK(traffic()[0].copied == Bytes(0));
  CHECK(!traffic()[0].every_micro_batch);
  layout.zero = 3;
  CHECK(traffic()[1].copied == Bytes(0));
  layout.sharding = ShardingKind::Hsdp;
  layout.dp_replicate = 2;
  // Gathers before forward and backward, a reduce-scatter, an all-reduce of a quarter; experts
  // likewise.
  REQUIRE(traffic().size() == 8);
  CHECK(traffic()[0].calls == 5);
  CHECK(traffic()[1].pass == Pass::InputGradient);
  CHECK(traffic()[3].group == GroupKind::Replicate);
  CHECK(traffic()[3].bytes == Bytes(1000));
  // FSDP2 copies gathered weights out of a buffer, 2 bytes read and 2 written, and bf16 gradients
  // into one of fp32.
  CHECK(traffic()[0].copied == Bytes(4000));
  CHECK(traffic()[2].copied == Bytes(6000));
  CHECK(traffic()[3].copied == Bytes(0));
  CHECK(traffic()[7].group == GroupKind::ExpertReplicate);
  CHECK(traffic()[7].bytes == Bytes(600));
  // Frozen weights are gathered all the same, but only the others' gradients travel.
  held.dense.trained = Params(300);
  CHECK(traffic()[0].bytes == Bytes(2000));
  CHECK(traffic()[2].bytes == Bytes(1200));
  layout.zero = 0;
  layout.dp_replicate = 1;
  layout.sharding = ShardingKind::Ddp;
  held.expert.trained = Params(0);
  REQUIRE(traffic().size() == 1);
  CHECK(traffic()[0].bytes == Bytes(1200));
}

TEST_CASE("a boundary between stages passes one hidden state") {
  CHECK(boundary_bytes(llama(), slice_with(4), paper_recipe()) == Bytes(kRow));
  Slice slice = slice_with(4, 2);
  slice.sp = true;
  CHECK(boundary_bytes(llama(), slice, paper_recipe()) == Bytes(kRow / 8));
}

TEST_CASE("inputs that are copied for every column-parallel product are kept once for each") {
  // Query, key, value, gate and up keep five copies in place of the two norms' outputs.
  Recipe recipe = paper_recipe();
  recipe.code.joined_projections = false;
  const Model model = llama_model(1024, 16, 16, 2816);
  const Slice slice{.tp = 2, .etp = 2, .mbs = 1, .seq = 512};
  const Bytes shared = layer_totals(model, slice, recipe).kept;
  recipe.code.inputs_copied = true;
  CHECK(layer_totals(model, slice, recipe).kept == shared + Bytes(3 * 512 * 1024 * 2));
  const Slice alone{.mbs = 1, .seq = 512};
  const Bytes whole = layer_totals(model, alone, recipe).kept;
  recipe.code.inputs_copied = false;
  CHECK(layer_totals(model, alone, recipe).kept == whole);
}

}  // namespace trainwright
