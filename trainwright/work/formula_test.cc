#include "trainwright/work/formula.h"

#include <doctest/doctest.h>

#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

// 22B of arXiv:2205.05198, table 3.
const Model kGpt = gpt_model(6144, 64);

Slice slice_of(std::int64_t tp, bool sp, RecomputeKind recompute = RecomputeKind::None) {
  Slice slice{.tp = tp,
              .etp = tp,
              .mbs = 4,
              .seq = 2048,
              .sp = sp,
              .attention = AttentionKernel::FusedSoftmax};
  slice.recompute.kind = recompute;
  return slice;
}
KeptFormula formula_of(const Model& model, const Slice& slice, const Recipe& recipe) {
  const ListOf layer{ListOf::What::Layer, LayerKindId(0), slice};
  const KeptFormula formula = kept_formula(model, recipe, layer);
  // Whatever the letters say: no byte is lost.
  CHECK(formula.bytes == totals(make_list(model, recipe, layer)).kept);
  Bytes sum;
  for (const KeptTerm& term : formula.terms) sum += term.bytes;
  CHECK(sum == formula.bytes);
  return formula;
}
std::string gpt_formula(const Slice& slice) {
  const KeptFormula formula = formula_of(kGpt, slice, paper_recipe());
  CHECK(formula.smaller.empty());
  return formula.text;
}
double letter(const KeptFormula& formula, std::string_view name) {
  for (const auto& [letter, value] : formula.letters) {
    if (letter == name) return value;
  }
  return 0;
}

// Megatron-Core: of an RMS norm 4 bytes a token.
Recipe core_recipe() {
  Recipe recipe = paper_recipe();
  recipe.norm->row_bytes = 4;
  return recipe;
}

}  // namespace

TEST_CASE("the formulas of Korthikanti et al. come out of the operator list letter by letter") {
  // Equations 1, 2 and 4, and section 5.
  CHECK(gpt_formula(slice_of(1, false)) == "sbh(34 + 5as/h)");
  CHECK(gpt_formula(slice_of(8, false)) == "sbh(10 + 24/t + 5as/(ht))");
  CHECK(gpt_formula(slice_of(8, true)) == "sbh/t(34 + 5as/h)");
  CHECK(gpt_formula(slice_of(8, true, RecomputeKind::Selective)) == "34sbh/t");
  CHECK(gpt_formula(slice_of(8, false, RecomputeKind::Selective)) == "sbh(10 + 24/t)");
  CHECK(gpt_formula(slice_of(8, false, RecomputeKind::Full)) == "2sbh");
}

TEST_CASE("terms stand where the paper counts them, with its bytes") {
  // Section 4.1, in its order.
  std::string terms;
  for (const KeptTerm& term : formula_of(kGpt, slice_of(1, false), paper_recipe()).terms) {
    terms += std::string(term.saved_for) + ' ' + term.text + '\n';
  }
  CHECK(terms ==
        "before_attention 2sbh\nquery_key_value 2sbh\nscores 2sbh\nscores 2sbh\n"
        "softmax 2as^2b\nattention_dropout as^2b\ncontext 2sbh\ncontext 2as^2b\n"
        "attention_output 2sbh\nresidual sbh\nbefore_feed_forward 2sbh\nup 2sbh\n"
        "activation 8sbh\ndown 8sbh\nresidual sbh\n");
}

TEST_CASE("a Llama layer has its own ratios for letters, and statistics apart") {
  // Llama 3.1 70B: f 3.5 h, 8 heads of keys for 64 of queries. Input and output of two norms 8,
  // queries and attention's output 4, keys and values 4 k/a, gate, up and their product 6 f/h; one
  // fp32 number for each head and for each norm.
  const KeptFormula formula =
      formula_of(llama_model(8192, 64, 8, 28672),
                 {.tp = 8, .etp = 8, .mbs = 1, .seq = 8192, .sp = true}, core_recipe());
  CHECK(formula.text == "sbh/t(12 + 6f/h + 4k/a)");
  CHECK(formula.smaller == "4asb/t + 8sb/t");
  CHECK(formula.smaller_bytes == Bytes((4 * 64 + 8) * 8192 / 8));
  CHECK(letter(formula, "f/h") == 3.5);
  CHECK(letter(formula, "k/a") == 0.125);
  CHECK(letter(formula, "as/h") == 0);  // no term has it
  // As many heads for keys as for queries, and f = 4h, are numbers: 16 + 6 x 4.
  CHECK(formula_of(llama_model(4096, 32, 32, 16384), {.mbs = 1, .seq = 4096}, core_recipe()).text ==
        "40sbh");
}

TEST_CASE("heads that are no h/a wide keep letters of their own") {
  // 16 heads of 128 on 1,024 channels, 4 for keys.
  Model model = llama_model(1024, 16, 4, 3072);
  std::get<SoftmaxAttention>(model.kinds[0].attention).head_dim = 128;
  const KeptFormula formula = formula_of(model, {.mbs = 2, .seq = 4096}, core_recipe());
  CHECK(formula.text == "sbh(8 + 6f/h + 4ad/h + 4kd/h)");
  CHECK(letter(formula, "ad/h") == 2);
  CHECK(letter(formula, "kd/h") == 0.5);
}

TEST_CASE("more ranks than heads for keys hold each of them several times") {
  // 2 heads for keys over 8 ranks: 4 copies, so 4 x 4 k/a.
  const KeptFormula formula =
      formula_of(llama_model(4096, 32, 2, 14336),
                 {.tp = 8, .etp = 8, .mbs = 1, .seq = 4096, .sp = true}, core_recipe());
  CHECK(formula.text == "sbh/t(12 + 6f/h + 16k/a)");
}

TEST_CASE("context parallelism divides by c what it cuts") {
  const Slice slice{.tp = 2, .cp = 4, .etp = 2, .mbs = 1, .seq = 8192, .sp = true};
  CHECK(formula_of(llama_model(4096, 32, 32, 11008), slice, core_recipe()).text ==
        "sbh/(tc)(16 + 6f/h)");
}

TEST_CASE("what experts keep has no letter and stays in the sum, relative to h") {
  MixtureOfExperts experts;
  experts.experts = 8;
  experts.experts_per_token = 2;
  experts.expert.width = 14336;
  experts.expert.gated = true;
  const Model model = with_experts(llama_model(4096, 32, 32, 11008), experts);
  const KeptFormula formula = formula_of(model, {.mbs = 1, .seq = 4096}, core_recipe());
  // 16 as without, two experts' inputs and outputs 4 + 4, gate, up and product 2 x 6 x 3.5, and of
  // each of 8 experts whether it is chosen: 1/512.
  CHECK(formula.text == "66.002sbh");
  CHECK(formula.fixed_bytes == Bytes(0));
}

}  // namespace trainwright
