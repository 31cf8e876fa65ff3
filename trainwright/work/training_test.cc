// What is trained and what is not, by hand; real models are in tests/oracle/test_adapters.py.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kKeys = 256;  // 4 of 16 heads of 64
constexpr std::int64_t kRank = 16;
constexpr std::int64_t kTokens = 512;

Model llama(std::size_t layers = 1) {
  Model model = llama_model(kHidden, 16, 4, kWidth);
  model.layers.assign(layers, LayerKindId(0));
  return model;
}
Slice slice_of_tokens() { return {.mbs = 1, .seq = kTokens}; }

Recipe with_adapters(Recipe recipe, std::string_view target, Dtype dtype = Dtype::Bf16) {
  recipe.training.adapters = AdapterRecipe{
      .rank = kRank, .targets = matrices_named(target), .dtype = dtype, .trained = {}};
  return recipe;
}

std::vector<Operator> adapters_in(const OperatorList& list) {
  std::vector<Operator> found;
  std::copy_if(list.operators.begin(), list.operators.end(), std::back_inserter(found),
               [](const Operator& op) { return op.adapter; });
  return found;
}

OperatorList layer(const Slice& slice, const Recipe& recipe) {
  const Model model = llama();
  return layer_work(model, model.kinds[0], slice, recipe);
}

}  // namespace

TEST_CASE("adapters beside query, key and value are one where their product is one") {
  const auto joined =
      adapters_in(layer(slice_of_tokens(), with_adapters(paper_recipe(), "c_attn")));
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].matrix == MatrixShape{kHidden, kRank});
  CHECK(joined[1].matrix == MatrixShape{kRank, kHidden + 2 * kKeys});
  // Of which only the query was named, or where each is a product of its own.
  CHECK(adapters_in(layer(slice_of_tokens(), with_adapters(paper_recipe(), "query"))).size() == 2);
  CHECK(adapters_in(layer(slice_of_tokens(), with_adapters(plain_recipe(), "c_attn"))).size() == 6);
}

TEST_CASE("compiled, an adapter's term is scaled and added where the sum is read") {
  const auto moved = [](bool compiled) {
    Slice slice = slice_of_tokens();
    slice.compiled = compiled;
    Bytes bytes;
    for (const Operator& op : layer(slice, with_adapters(plain_recipe(), "down")).operators) {
      if (op.name == "lora_scale" || op.name == "lora_add")
        bytes += op.forward.read + op.forward.written;
    }
    return bytes;
  };
  // Eager: the term is read, written, read again beside the product's result, and the sum written.
  CHECK(moved(false) == Bytes(5 * 2 * kTokens * kHidden));
  CHECK(moved(true) == Bytes(2 * kTokens * kHidden));
}

TEST_CASE("prepared weights are fp32, and so is what a layer that is run again keeps") {
  Recipe recipe = with_adapters(plain_recipe(), "query", Dtype::Fp32);
  recipe.training.adapters->base = FrozenBase::Nf4;
  recipe.training.adapters->autocast = true;
  Slice slice = slice_of_tokens();
  slice.recompute.kind = RecomputeKind::Full;
  const Model model = llama();
  const auto of = [&](ListOf::What what, Prepared prepared) {
    recipe.training.adapters->prepared = prepared;
    const ListOf list{.what = what, .slice = slice};
    return totals(model, recipe, list, make_list(model, recipe, list));
  };
  using What = ListOf::What;
  CHECK(of(What::Layer, Prepared::No).kept == Bytes(2 * kTokens * kHidden));
  CHECK(of(What::Layer, Prepared::Peft).kept == Bytes(4 * kTokens * kHidden));
  CHECK(of(What::Layer, Prepared::Trl).kept == Bytes(4 * kTokens * kHidden));
  // Two norms of a layer; the table is cast back by TRL.
  const auto more = [&](What what, Prepared prepared) {
    const HeldParameters held = of(what, prepared).parameters;
    const HeldParameters before = of(what, Prepared::No).parameters;
    CHECK(held.dense.all == before.dense.all);
    CHECK(held.dense.stored - before.dense.stored ==
          Bytes(4 * (held.dense.quantised - before.dense.quantised).value()));
    return held.dense.quantised - before.dense.quantised;
  };
  CHECK(more(What::Layer, Prepared::Peft) == Params(2 * kHidden));
  CHECK(more(What::Layer, Prepared::Trl) == Params(2 * kHidden));
  CHECK(more(What::Embedding, Prepared::Peft) == Params(model.vocabulary * kHidden));
  CHECK(more(What::Embedding, Prepared::Trl) == Params(0));
}

TEST_CASE("over tp, A is whole and B cut beside columns, and the other way round beside rows") {
  const Recipe recipe = with_adapters(paper_recipe(), "linear_fc1");
  Slice slice = slice_of_tokens();
  slice.tp = slice.etp = 4;
  for (const bool sp : {false, true}) {
    slice.sp = sp;
    const auto columns = adapters_in(layer(slice, recipe));
    REQUIRE(columns.size() == 2);
    CHECK(columns[0].matrix == MatrixShape{kHidden, kRank});
    CHECK(columns[1].matrix == MatrixShape{kRank, 2 * kWidth / 4});
    // With sequence parallelism A works on a quarter of the tokens, and its result is gathered.
    CHECK(columns[0].forward.matmul == Flops(2.0 * kTokens / (sp ? 4 : 1) * kHidden * kRank));
    CHECK(columns[1].forward.matmul == Flops(2.0 * kTokens * kRank * 2 * kWidth / 4));
    const auto rows = adapters_in(layer(slice, with_adapters(paper_recipe(), "down")));
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].matrix == MatrixShape{kWidth / 4, kRank});
    CHECK(rows[1].matrix == MatrixShape{kRank, kHidden});
    CHECK(rows[1].forward.matmul == Flops(2.0 * kTokens / (sp ? 4 : 1) * kRank * kHidden));
  }
  // What travels beside the layer's own calls: r numbers a token, summed forward or backward.
  slice.sp = false;
  const auto bytes = [&](const Recipe& of, Pass pass) {
    const Totals sum = totals(layer(slice, of));
    return sum.traffic.at(GroupKind::Tp, CollectiveKind::AllReduce, pass).bytes;
  };
  Recipe frozen = paper_recipe();
  frozen.training.frozen.bits = 0xff;
  const Bytes rank = Bytes(2 * kTokens * kRank);
  CHECK(bytes(recipe, Pass::InputGradient) - bytes(frozen, Pass::InputGradient) == rank);
  const Recipe down = with_adapters(paper_recipe(), "down");
  CHECK(bytes(down, Pass::Forward) - bytes(frozen, Pass::Forward) == rank);
}

TEST_CASE("experts have adapters each, and they are expert parameters") {
  Model model = with_experts(llama(), {.experts = 8,
                                       .experts_per_token = 2,
                                       .expert = {.width = kWidth, .gated = true},
                                       .shared = std::nullopt});
  const Recipe recipe = with_adapters(paper_recipe(), "expert_down");
  Slice slice = slice_of_tokens();
  slice.ep = 4;
  const Totals sum = layer_totals(model, slice, recipe);
  CHECK(sum.parameters.expert.adapters == Params(2 * kRank * (kWidth + kHidden)));
  CHECK(sum.parameters.dense.adapters == Params(0));
}

TEST_CASE("weights that are not trained make no gradient, wide adapters keep wide inputs") {
  // Beside the down projection alone, fp32: its input is 4 bytes wide, not 2, and so is A's result.
  const Totals narrow =
      layer_totals(llama(), slice_of_tokens(), with_adapters(plain_recipe(), "down"));
  const Totals wide =
      totals(layer(slice_of_tokens(), with_adapters(plain_recipe(), "down", Dtype::Fp32)));
  CHECK(wide.kept - narrow.kept == Bytes(2 * kTokens * (kWidth + kRank)));
  const auto weights = static_cast<std::size_t>(Pass::WeightGradient);
  CHECK(narrow.effort[weights].matmul == Flops(2.0 * kTokens * kRank * (kWidth + kHidden)));
  CHECK(narrow.parameters.dense.adapters == Params(kRank * (kWidth + kHidden)));
}

TEST_CASE("a quantised base is stored in few bits and made whole for the gradient of its input") {
  Recipe recipe = with_adapters(plain_recipe(), "down", Dtype::Fp32);
  const Totals wide = totals(layer(slice_of_tokens(), recipe));
  CHECK(wide.parameters.dense.stored == Bytes(0));
  for (const FrozenBase base : {FrozenBase::Nf4, FrozenBase::Int8, FrozenBase::Fp8}) {
    recipe.training.adapters->base = base;
    const OperatorList list = layer(slice_of_tokens(), recipe);
    const Totals sum = layer_totals(llama(), slice_of_tokens(), recipe);
    // Query and output, key and value, gate, up and down; norms and biases are not.
    const Bytes matrices =
        stored_bytes(base, kHidden, kHidden) * 2 + stored_bytes(base, kHidden, kKeys) * 2 +
        stored_bytes(base, kHidden, kWidth) * 2 + stored_bytes(base, kWidth, kHidden);
    CHECK(sum.parameters.dense.stored == matrices);
    CHECK(sum.parameters.dense.quantised ==
          Params(kHidden * (2 * kHidden + 2 * kKeys + 3 * kWidth)));
    for (std::size_t pass = 0; pass < 3; ++pass) {
      CHECK(sum.effort[pass].matmul == wide.effort[pass].matmul);
    }
    // int8 holds the inputs of all seven: two norms' results and what is activated; what is
    // attended is held by attention already.
    const std::int64_t held = base == FrozenBase::Int8 ? 2 * kTokens * (2 * kHidden + kWidth) : 0;
    CHECK(sum.kept - wide.kept == Bytes(held));
    const auto down = std::find_if(list.operators.begin(), list.operators.end(),
                                   [](const Operator& op) { return op.name == "down"; });
    CHECK(down->backward_workspace == Bytes(2 * kHidden * kWidth));
  }
}

TEST_CASE("plain PyTorch: experts cut over tp are stored, multiplied and summed up in parts") {
  const Model model = testing::moe(8, kWidth, 0);
  Recipe recipe = with_adapters(plain_recipe(), "query");
  recipe.training.adapters->base = FrozenBase::Nf4;
  Slice slice = slice_of_tokens();
  const auto sums = [&] { return totals_of(model, model.kinds[1], slice, recipe); };
  const auto forward = static_cast<std::size_t>(Pass::Forward);
  const Totals whole = sums();
  for (const bool sp : {false, true}) {
    slice.tp = slice.etp = 4;
    slice.sp = sp;
    const Totals part = sums();
    CHECK(whole.parameters.expert.quantised > Params(0));
    CHECK(part.parameters.expert.quantised * 4 == whole.parameters.expert.quantised);
    slice.etp = 1;  // every rank has whole experts, for its own tokens with sequence parallelism
    const Totals uncut = sums();
    CHECK(uncut.parameters.expert.quantised == whole.parameters.expert.quantised);
    // Two experts a token, three matrices each.
    const Flops experts(2.0 * 2 * 3 * kTokens * static_cast<double>(model.hidden) * kWidth);
    const Flops more = uncut.effort[forward].matmul - part.effort[forward].matmul;
    if (!sp) CHECK(more == experts * 0.75);
    const CollectiveKind kind = sp ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
    const auto calls = [&](const Totals& of) {
      return of.traffic.at(GroupKind::Tp, kind, Pass::Forward).calls;
    };
    CHECK(calls(part) == calls(uncut) + 1);
  }
}

TEST_CASE("the first trained layer is the first with a weight of a trained part or an adapter") {
  const Model model = llama(4);
  Training training;
  CHECK(first_trained_layer(model, training) == -1);
  training.frozen = {Part::Embedding};
  CHECK(first_trained_layer(model, training) == 0);
  training.frozen_layers = 3;
  CHECK(first_trained_layer(model, training) == 3);
  training.frozen.bits = 0xff;
  CHECK(first_trained_layer(model, training) == 4);
  Recipe recipe = with_adapters(paper_recipe(), "query");
  CHECK(first_trained_layer(model, recipe.training) == 0);
  recipe.training.adapters->targets = {LayerMatrix::ExpertDown};
  CHECK(first_trained_layer(model, recipe.training) == 4);
}

TEST_CASE("a stage knows which of its layers are frozen and into which a gradient flows") {
  const Model model = llama(6);
  Recipe recipe = plain_recipe();
  recipe.training.frozen = {Part::Embedding};
  recipe.training.frozen_layers = 2;
  WorkCache cache(model, recipe);
  Stage stage;
  stage.count = 6;
  stage.runs = {{LayerKindId(0), 6}};
  stage.embedding = stage.head = true;
  const auto portions = cache.stage(stage, slice_of_tokens());
  REQUIRE(portions.size() == 5);
  const std::vector<std::int64_t> counts = {1, 2, 1, 3, 1};
  for (std::size_t i = 0; i < counts.size(); ++i) CHECK(portions[i].count == counts[i]);
  // Frozen: nothing kept, nothing backward. The first trained one gives no gradient further down,
  // for which its first norm would keep its input and a number per token in fp32.
  CHECK(portions[1].totals->kept == Bytes(0));
  CHECK(portions[1].totals->effort[1].matmul == Flops(0));
  CHECK(portions[2].totals->effort[2].matmul == portions[3].totals->effort[2].matmul);
  CHECK(portions[3].totals->kept - portions[2].totals->kept == Bytes(4 * kTokens * (kHidden + 1)));
  CHECK(portions[4].list->slice.input_gradient);
  // With adapters and layers that are run again, peft lets a gradient flow from the embedding on.
  recipe = with_adapters(recipe, "query");
  recipe.training.flows_when_run_again = true;
  WorkCache adapted(model, recipe);
  CHECK(!adapted.stage(stage, slice_of_tokens())[1].list->slice.input_gradient);
  const Slice again = recomputed(slice_of_tokens(), RecomputeKind::Full);
  CHECK(adapted.stage(stage, again)[1].list->slice.input_gradient);
}

TEST_CASE("a tied head is no weight of its list, the copy that is trained in its place is one") {
  Model model = llama();
  model.tied = true;
  Recipe recipe = with_adapters(plain_recipe(), "query");
  const ListOf of{ListOf::What::Head, LayerKindId(0), slice_of_tokens()};
  const auto tables = [&] {
    const auto held = held_weights(model, recipe, of, make_list(model, recipe, of));
    return std::count_if(held.begin(), held.end(), [&](const HeldWeight& weight) {
      return weight.trained && weight.tensor.out == model.vocabulary;
    });
  };
  CHECK(tables() == 0);
  recipe.training.adapters->trained.insert(Part::Head);
  CHECK(tables() == 1);
}

}  // namespace trainwright
