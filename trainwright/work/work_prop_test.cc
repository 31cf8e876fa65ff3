#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <array>
#include <string>

#include "trainwright/testing/slow_work.h"
#include "trainwright/testing/work_cases.h"
#include "trainwright/work/formula.h"

namespace trainwright {
namespace {

std::int64_t within(std::int64_t low, std::int64_t high) {
  return *rc::gen::inRange<std::int64_t>(low, high + 1);
}
bool any_bool() { return *rc::gen::arbitrary<bool>(); }
template <class E>
E any_of(E last) {
  return static_cast<E>(within(0, static_cast<std::int64_t>(last)));
}
std::int64_t power(std::int64_t most) { return std::int64_t{1} << within(0, most); }

Attention any_attention() {
  switch (within(0, 4)) {
    case 0:
      return SoftmaxAttention{.heads = 16,
                              .kv_heads = power(4),
                              .head_dim = 64,
                              .qk_norm = any_bool() ? Norm::Rms : Norm::None,
                              .qk_norm_per_head = any_bool(),
                              .output_gate = any_bool(),
                              .rotary = any_bool()};
    case 1:
      return LatentAttention{.heads = 16,
                             .query_rank = any_bool() ? 256 : 0,
                             .kv_rank = 128,
                             .rope_dim = 32,
                             .nope_dim = 64,
                             .value_dim = 64};
    case 2:
      return GatedDeltaNet{
          .key_heads = 16, .value_heads = 32, .key_dim = 64, .value_dim = 32, .convolution = 4};
    case 3:
      return Mamba2{.heads = 32,
                    .head_dim = 32,
                    .groups = 16,
                    .state = 32,
                    .convolution = 4,
                    .chunk = 64,
                    .input_bias = any_bool(),
                    .output_norm = any_bool() ? Norm::Rms : Norm::None};
    default: return LightningAttention{.heads = 16, .head_dim = 64, .block = 256};
  }
}

FeedForward any_feed_forward() {
  const Mlp mlp{.width = 1024 * within(1, 4), .gated = any_bool(), .bias = any_bool()};
  if (any_bool()) return mlp;
  return MixtureOfExperts{.experts = 32,
                          .experts_per_token = within(1, 4),
                          .latent = any_bool() ? 256 : 0,
                          .expert = mlp,
                          .shared = any_bool() ? std::optional(mlp) : std::nullopt,
                          .shared_gate = any_bool()};
}

Model any_model() {
  Model model = llama_model(1024, 16, 16, 1024);
  LayerKind& kind = model.kinds.front();
  kind.attention = any_attention();
  kind.feed_forward = any_feed_forward();
  kind.parallel = any_bool();
  if (any_bool()) kind.after_attention = kind.after_feed_forward = Norm::Rms;
  kind.norm_after_residual = any_bool();
  model.dropout_hidden = any_bool() ? 0.1 : 0;
  model.dropout_attention = any_bool() ? 0.1 : 0;
  return model;
}

Recipe any_recipe() {
  Recipe recipe = paper_recipe();
  if (any_bool()) recipe.norm = FusedKeeps{.input = true, .row_bytes = 4};
  if (within(0, 3) == 0) recipe.norm = std::nullopt;
  if (within(0, 3) == 0) recipe.gated_activation = recipe.bias_activation = std::nullopt;
  if (within(0, 3) == 0) recipe.bias_dropout = std::nullopt;
  recipe.code.joined_projections = any_bool();
  recipe.code.gathers_again = any_bool();
  recipe.code.delays_vectors = any_bool();
  recipe.code.stops_early = any_bool();
  recipe.code.norm_in_product = any_bool();
  recipe.accumulates_in_product = any_bool();
  recipe.code.expert_scores = any_of(ExpertScores::AtCombine);
  recipe.input_copy = any_bool() ? 1 : 0;
  return recipe;
}

// What is trained, if not everything.
Training any_training() {
  Training training;
  training.frozen.bits = static_cast<std::uint32_t>(within(0, 255));
  if (any_bool()) {
    training.adapters = AdapterRecipe{.rank = within(1, 64),
                                      .targets = {},
                                      .dtype = any_bool() ? Dtype::Fp32 : Dtype::Bf16,
                                      .dropout = any_bool(),
                                      .trained = {}};
    training.adapters->targets.bits = static_cast<std::uint32_t>(within(0, (1 << 22) - 1));
  }
  return training;
}
Recipe partly_trained(Recipe recipe) {
  if (any_bool()) recipe.training = any_training();
  return recipe;
}
Slice partly_trained(Slice slice) {
  slice.frozen = within(0, 3) == 0;
  slice.input_gradient = any_bool();
  return slice;
}

Slice any_slice() {
  Slice slice{.tp = power(3), .cp = power(2), .ep = power(4), .mbs = within(1, 3), .seq = 2048};
  slice.etp = any_bool() ? slice.tp : 1;
  slice.sp = any_bool();
  slice.cp_kind = any_of(CpKind::UlyssesRing);
  slice.cp_ulysses = 2;
  slice.dispatcher = any_of(DispatcherKind::Flex);
  slice.attention = any_bool() ? AttentionKernel::Flash : AttentionKernel::FusedSoftmax;
  slice.distribute_saved = any_bool();
  slice.recompute.kind = any_of(RecomputeKind::Full);
  slice.recompute.modules.bits = static_cast<std::uint32_t>(within(0, 127));
  return slice;
}

// Kept bytes of all ranks of tp x cp, copies counted once.
double whole(const OperatorList& list, const Slice& slice) {
  double sum = 0;
  for (const Kept& kept : kept_tensors(list)) {
    const Tensor& tensor = list.at(kept.tensor);
    sum += static_cast<double>(tensor.bytes().value()) * static_cast<double>(slice.tp * slice.cp) /
           static_cast<double>(tensor.copies);
  }
  return sum;
}

// What a failing case shows: "query 4096/1 ...", bytes and copies.
std::string described(const OperatorList& list) {
  std::string text;
  for (const Kept& kept : kept_tensors(list)) {
    const Tensor& tensor = list.at(kept.tensor);
    text += std::string(tensor.name) + ' ' + std::to_string(tensor.bytes().value()) + '/' +
            std::to_string(tensor.copies) + ' ';
  }
  return text + '\n';
}

// Of what every rank has its own part of.
Bytes split_bytes(const OperatorList& list) {
  Bytes sum;
  for (const Kept& kept : kept_tensors(list)) {
    if (list.at(kept.tensor).copies == 1) sum += list.at(kept.tensor).bytes();
  }
  return sum;
}

bool has_state(const Model& model) {
  const Attention& attention = model.kinds.front().attention;
  return std::holds_alternative<GatedDeltaNet>(attention) ||
         std::holds_alternative<Mamba2>(attention) ||
         std::holds_alternative<LightningAttention>(attention);
}

OperatorList list_of(const Model& model, const Slice& slice, const Recipe& recipe) {
  return layer_work(model, model.kinds.front(), slice, recipe);
}

double flops(const Totals& sum) {
  double all = 0;
  for (const Effort& effort : sum.effort) all += effort.matmul.value();
  return all;
}

}  // namespace

TEST_CASE("matrices that products multiply with are the weights that a rank holds") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Slice slice = partly_trained(any_slice());
    const Recipe recipe = partly_trained(any_bool() ? any_recipe() : plain_recipe());
    const std::vector<Weight> weights = layer_weights(model, model.kinds.front());
    const auto held = [&](const OperatorList& list) {
      HeldParameters sum = held_parameters(held_weights(weights, list, slice, recipe), recipe);
      sum.dense.adapters = sum.expert.adapters = Params(0);
      return sum;
    };
    RC_ASSERT(held(list_of(model, slice, recipe)) == held({}));
  }));
}

TEST_CASE("kept bytes and peaks equal those of the obvious count") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Slice slice = partly_trained(any_slice());
    const OperatorList list = list_of(model, slice, partly_trained(any_recipe()));
    const Totals sum = totals(list);
    const SlowWork slow = SlowLiveness(list).run();
    std::string marks;
    for (const Operator& op : list.operators) {
      marks += std::string(op.name) + ':' + std::to_string(static_cast<int>(op.again)) + '/' +
               std::to_string(op.segment) + ' ';
    }
    RC_LOG() << marks << "backward " << sum.backward.bytes.value() << " at "
             << sum.backward.at.index() << ", slow " << slow.backward.value() << '\n';
    RC_ASSERT(sum.kept == slow.kept);
    RC_ASSERT(sum.forward.bytes == slow.forward);
    RC_ASSERT(sum.backward.bytes == slow.backward);
  }));
}

TEST_CASE("a formula says what four times the sequence keeps, term by term") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Recipe recipe = any_recipe();
    ListOf layer{ListOf::What::Layer, LayerKindId(0), partly_trained(any_slice())};
    const KeptFormula formula = kept_formula(model, recipe, layer);
    RC_ASSERT(formula.bytes == totals(make_list(model, recipe, layer)).kept);
    layer.slice.seq *= 4;
    const KeptFormula longer = kept_formula(model, recipe, layer);
    RC_ASSERT(longer.terms.size() == formula.terms.size());
    RC_ASSERT(longer.text == formula.text);
    for (std::size_t i = 0; i < formula.terms.size(); ++i) {
      const KeptTerm& term = formula.terms[i];
      if (term.width == TermWidth::Fixed) continue;
      const std::int64_t times = term.width == TermWidth::Scores ? 16 : 4;
      RC_LOG() << term.tensor << ' ' << term.text << '\n';
      RC_ASSERT(longer.terms[i].bytes == term.bytes * times);
    }
  }));
}

TEST_CASE("parts of all ranks add up to the whole, copies counted once") {
  CHECK(rc::check([] {
    const Model model = any_model();
    Recipe recipe = partly_trained(any_recipe());
    recipe.code.gathers_again = true;  // else gathered inputs are kept beside the parts
    Slice slice = partly_trained(any_slice());
    slice.recompute = {};
    slice.dispatcher = DispatcherKind::AllToAll;
    if (slice.cp_kind != CpKind::AllGather) slice.cp_kind = CpKind::Ring;
    if (has_state(model)) slice.cp = 1;  // heads exchanged for tokens are further tensors
    // Without sequence parallelism and with whole experts, ranks route their part of what all hold.
    if (!slice.sp) slice.etp = slice.tp;
    Slice one = slice;
    one.tp = one.cp = one.ep = one.etp = 1;
    one.sp = false;
    const OperatorList parts = list_of(model, slice, recipe);
    const OperatorList all = list_of(model, one, recipe);
    RC_LOG() << "tp " << slice.tp << ", etp " << slice.etp << '\n'
             << described(parts) << described(all);
    RC_ASSERT(whole(parts, slice) == whole(all, one));
  }));
}

TEST_CASE("more tensor, context or expert parallelism never adds work or kept parts to a rank") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Recipe recipe = any_recipe();
    Slice slice = any_slice();
    slice.etp = 1;
    slice.sp = true;
    slice.dispatcher = DispatcherKind::AllToAll;
    slice.cp_kind = CpKind::Ring;
    Slice more = slice;
    std::int64_t& degree =
        *std::array{&more.tp, &more.cp, &more.ep}[*rc::gen::inRange<std::size_t>(0, 3)];
    // One rank alone has nothing to gather, exchange or store of what was sent.
    RC_PRE(degree > 1 || (slice.recompute.kind != RecomputeKind::OpSelective && !has_state(model) &&
                          recipe.code.gathers_again));
    degree *= 2;
    const OperatorList before = list_of(model, slice, recipe);
    const OperatorList after = list_of(model, more, recipe);
    RC_ASSERT(flops(totals(after)) <= flops(totals(before)) * (1 + 1e-12));
    RC_ASSERT(split_bytes(after) <= split_bytes(before));
  }));
}

TEST_CASE("recompute never keeps more than nothing does, and runs again at most the forward pass") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Recipe recipe = any_recipe();
    const Slice slice = any_slice();
    Slice none = slice;
    none.recompute = {};
    const Totals with = totals(list_of(model, slice, recipe));
    RC_ASSERT(with.effort[3].matmul <= with.effort[0].matmul);
    if (slice.recompute.kind == RecomputeKind::OpSelective) return;  // stores outputs nobody needs
    if (slice.recompute.kind == RecomputeKind::Modules) return;  // may keep inputs nobody needed
    if (slice.recompute.kind == RecomputeKind::FeedForwardOnly) return;
    RC_ASSERT(with.kept <= totals(list_of(model, none, recipe)).kept);
  }));
}

TEST_CASE("what is frozen is neither kept for nor worked on, and adds nothing") {
  CHECK(rc::check([] {
    const Model model = any_model();
    Recipe recipe = any_recipe();
    const Slice slice = any_slice();
    const OperatorList all = list_of(model, slice, recipe);
    recipe.training.frozen = any_training().frozen;
    const Slice part = partly_trained(slice);
    const OperatorList list = list_of(model, part, recipe);
    RC_ASSERT(totals(list).effort[0] == totals(all).effort[0]);
    for (std::size_t i = 0; i < list.operators.size(); ++i) {
      const Operator &op = list.operators[i], &whole = all.operators[i];
      RC_ASSERT(op.saves.size() <= whole.saves.size());
      RC_ASSERT(op.input_gradient.matmul <= whole.input_gradient.matmul);
      RC_ASSERT(op.weight_gradient.matmul ==
                (op.trained ? whole.weight_gradient.matmul : Flops(0)));
      RC_ASSERT(!op.trained || !(part.frozen || recipe.training.frozen.has(op.part)));
    }
    // Below the first trained operator nothing runs backward.
    bool seen = part.input_gradient;
    for (const Operator& op : list.operators) {
      seen = seen || op.trained;
      RC_ASSERT(seen || op.input_gradient == Effort{});
    }
  }));
}

TEST_CASE("lists and sums as JSON read back as they were written") {
  CHECK(rc::check([] {
    const OperatorList list =
        list_of(any_model(), partly_trained(any_slice()), partly_trained(any_recipe()));
    for (const Json& json : {to_json(list), to_json(totals(list))}) {
      const std::string text = to_text(json);
      const auto read = parse_json(text, "work");
      RC_ASSERT(read.has_value());
      RC_ASSERT(to_text(*read) == text);
    }
  }));
}

TEST_CASE("degrees of any size that divide nothing make a list") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Recipe recipe = partly_trained(any_recipe());
    Slice slice = partly_trained(any_slice());
    slice.tp = within(1, kMostDegree);
    slice.cp = within(1, kMostDegree / slice.tp);
    slice.ep = within(1, kMostDegree);
    slice.etp = within(1, kMostDegree / slice.ep);
    slice.cp_ulysses = within(0, kMostDegree);
    slice.mbs = power(6);
    slice.seq = power(20) + within(0, 99);
    if (too_large(model, slice)) return;  // the rest is counted without overflow
    const Totals layer = totals(list_of(model, slice, recipe));
    const Totals head = totals(head_work(model, slice, recipe));
    const Totals first = totals(embedding_work(model, slice, recipe));
    const std::vector<Portion> portions = {{&first, 1}, {&layer, 1000}, {&head, 1}};
    RC_ASSERT(compose(portions).kept >= layer.kept);
    RC_ASSERT(totals(mtp_work(model, slice, recipe)).forward.bytes > Bytes(0));
  }));
}

// A model near the bounds of what a config may say (trainwright/model/build.h), with at most as
// many parameters as are counted, 2^53.
Model any_vast_model() {
  Model model = any_model();
  const auto vast = [](std::int64_t& size, std::int64_t most) {
    size = power(most) + within(0, 3);
  };
  vast(model.hidden, 24);
  vast(model.vocabulary, 31);
  LayerKind& kind = model.kinds.front();
  if (auto* of = std::get_if<SoftmaxAttention>(&kind.attention)) {
    of->kv_heads = power(20);
    of->heads = of->kv_heads * power(4);
    vast(of->head_dim, 20);
  } else if (auto* latent = std::get_if<LatentAttention>(&kind.attention)) {
    vast(latent->heads, 20);
    vast(latent->kv_rank, 24);
    vast(latent->nope_dim, 20);
  } else if (auto* delta = std::get_if<GatedDeltaNet>(&kind.attention)) {
    vast(delta->value_heads, 20);
    vast(delta->value_dim, 20);
  } else if (auto* mamba = std::get_if<Mamba2>(&kind.attention)) {
    mamba->groups = power(10);
    mamba->heads = mamba->groups * power(4);
    vast(mamba->head_dim, 20);
    vast(mamba->state, 20);
    mamba->chunk = power(16);
  }
  if (auto* of = std::get_if<MixtureOfExperts>(&kind.feed_forward)) {
    vast(of->experts, 20);
    of->experts_per_token = within(1, of->experts);
    vast(of->expert.width, 31);
  } else {
    vast(std::get<Mlp>(kind.feed_forward).width, 31);
  }
  model.layers.assign(static_cast<std::size_t>(power(16)), LayerKindId(0));
  return model;
}

double rough_parameters(const Model& model) {
  double layer = 0;
  for (const Weight& weight : layer_weights(model, model.kinds.front())) {
    layer += static_cast<double>(weight.copies) * static_cast<double>(weight.out) *
             static_cast<double>(weight.in);
  }
  return layer * static_cast<double>(model.layers.size()) +
         2 * static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
}

TEST_CASE("the largest that the guard of sizes lets through is counted, of any model") {
  CHECK(rc::check([] {
    const Model model = any_vast_model();
    if (rough_parameters(model) > 0x1.0p53) return;
    Recipe recipe = any_recipe();
    recipe.code.permutes_tokens = any_bool();
    Slice slice = any_slice();
    slice.attention = any_of(AttentionKernel::Sdpa);
    slice.tp = power(24);
    slice.cp = power(24) / slice.tp + 1;
    slice.ep = power(24);
    slice.etp = power(24) / slice.ep + 1;
    slice.mbs = power(31);
    slice.seq = power(31);
    // Down to the largest that is let through: now the one, now the other is halved.
    const std::array<std::int64_t*, 6> sizes = {&slice.mbs, &slice.seq, &slice.tp,
                                                &slice.cp,  &slice.ep,  &slice.etp};
    for (int i = 0; too_large(model, slice); ++i) {
      if (i == 1000) return;  // one token is too large
      std::int64_t& size = *sizes[static_cast<std::size_t>(within(0, 5))];
      size = std::max<std::int64_t>(1, size / 2);
    }
    RC_CLASSIFY(true, "counted");
    const Totals layer = totals(list_of(model, slice, recipe));
    const Totals head = totals(head_work(model, slice, recipe));
    const Totals first = totals(embedding_work(model, slice, recipe));
    const std::vector<Portion> portions = {
        {&first, 1}, {&layer, std::ssize(model.layers)}, {&head, 1}};
    RC_ASSERT(compose(portions).kept >= layer.kept);
    RC_ASSERT(totals(mtp_work(model, slice, recipe)).kept > Bytes(0));
    const ListOf one{ListOf::What::Layer, LayerKindId(0), slice};
    RC_ASSERT(kept_formula(model, recipe, one).bytes == layer.kept);
  }));
}

TEST_CASE("composing is adding") {
  CHECK(rc::check([] {
    const Model model = any_model();
    const Recipe recipe = any_recipe();
    const Totals a = totals(list_of(model, any_slice(), recipe));
    const Totals b = totals(list_of(model, any_slice(), recipe));
    const std::int64_t n = within(1, 9);
    const std::vector<Portion> short_form = {{&a, n}, {&b, 2}};
    std::vector<Portion> long_form(static_cast<std::size_t>(n), {&a, 1});
    long_form.push_back({&b, 1});
    long_form.push_back({&b, 1});
    const Totals x = compose(short_form);
    const Totals y = compose(long_form);
    RC_ASSERT(x.kept == y.kept);
    RC_ASSERT(x.forward.bytes == y.forward.bytes);
    RC_ASSERT(x.backward.bytes == y.backward.bytes);
    RC_ASSERT(x.traffic == y.traffic);
    RC_ASSERT(x.effort[0].read == y.effort[0].read);
    RC_ASSERT(x.kept == a.kept * n + b.kept * 2);
  }));
}

}  // namespace trainwright
