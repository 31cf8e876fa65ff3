#include <doctest/doctest.h>

#include "trainwright/testing/memory_cases.h"

// Closed formulas of papers and of other programs: where they are right we say the same, and where
// they are not the test says why.

namespace trainwright {
namespace {

using namespace testing;

// GPT of arXiv:2205.05198: h hidden, a heads, s tokens, b sequences, t ways of tensor parallelism.
constexpr std::int64_t kHidden = 4096, kHeads = 32, kSequence = 2048, kBatch = 2;
constexpr std::int64_t kSbh = kSequence * kBatch * kHidden;
constexpr std::int64_t kScores = kHeads * kSequence * kSequence * kBatch;

Case paper_case(std::size_t layers, const std::string& layout) {
  return {.model = deeper(gpt_model(kHidden, kHeads), layers),
          .trainer = paper_megatron(),
          .layout = layout_of(layout + ",mbs=2,seq=2048"),
          .attention = AttentionKernel::FusedSoftmax};
}

std::int64_t layer_bytes(std::int64_t t) { return (34 * kSbh + 5 * kScores) / t; }

TEST_CASE("the first stage of 1F1B keeps L layers, whatever the pipeline") {
  // arXiv:2205.05198 section 4.2.3: p micro-batches of L/p layers, sbhL/t (34 + 5as/h), and the
  // mask of the embedding's dropout p times, sbhp/t. Token ids are left out there: 8 bytes a token,
  // which every stage 0 holds p times.
  for (const std::int64_t p : {2, 4, 8}) {
    const auto c = paper_case(16, "tp=8,dp=1,sp,gbs=64,pp=" + std::to_string(p));
    const RankClass first = c.estimate().classes.front();
    const Bytes papers(16 * layer_bytes(8) + kSbh * p / 8);
    const Bytes ids(8 * kSequence * kBatch * p);
    CHECK(bytes_of(first, Category::Activations) >= papers);
    CHECK(bytes_of(first, Category::Activations) <= papers + ids);
    CHECK(first.moment.in_flight == p);
  }
}

TEST_CASE("interleaving keeps L(1 + (p - 1)/(pv)) layers on the first stage") {
  // Same section; 16 layers, p = 4, v = 2: 16 (1 + 3/8) = 22 layers.
  const auto c = paper_case(16, "tp=8,dp=1,sp,gbs=64,pp=4,vpp=2");
  const RankClass first = c.estimate().classes.front();
  const double layers = bytes_of(first, Category::Activations) / Bytes(layer_bytes(8));
  CHECK(layers == doctest::Approx(22).epsilon(0.005));
  CHECK(first.moment.in_flight == 11);
}

TEST_CASE("with fewer micro-batches than stages all of them are kept, and no more") {
  const auto c = paper_case(16, "tp=8,dp=1,sp,gbs=4,pp=8");
  const RankClass first = c.estimate().classes.front();
  CHECK(first.moment.in_flight == 2);
  const double layers = bytes_of(first, Category::Activations) / Bytes(layer_bytes(8));
  CHECK(layers == doctest::Approx(2 * 16 / 8.0).epsilon(0.005));
}

Bytes model_states(const RankClass& of) {
  return bytes_of(of, Category::Weights) + bytes_of(of, Category::MainWeights) +
         bytes_of(of, Category::Gradients) + bytes_of(of, Category::OptimizerStates);
}

TEST_CASE("ZeRO: 16 bytes a parameter, 4 + 12/N, 2 + 14/N, 16/N") {
  // Rajbhandari et al. 2020, figure 1: fp16 weights and gradients, K = 12.
  const Model model = deeper(gpt_model(1024, 16), 4);
  const double psi = static_cast<double>(parameters(model).total().value());
  const double n = 64;
  const double expected[] = {16, 4 + 12 / n, 2 + 14 / n, 16 / n};
  for (const int zero : {0, 1, 2, 3}) {
    Case c{.model = model,
           .trainer = picked_trainer("deepspeed@0.16"),
           .cluster = h100s(64),
           .layout =
               layout_of("dp=64,mbs=1,gbs=64,seq=128,precision=fp16,zero=" + std::to_string(zero))};
    const double bytes = static_cast<double>(model_states(c.estimate().classes[0]).value());
    CHECK(bytes / psi == doctest::Approx(expected[zero]).epsilon(1e-6));
  }
}

TEST_CASE("Megatron, bf16: 18 bytes a parameter, or 6 + 12 / (dp cp)") {
  // Megatron-LM docs, dist_optimizer; the group spans cp too.
  const Model model = deeper(llama_model(1024, 16, 16, 4096), 4);
  const double psi = static_cast<double>(parameters(model).total().value());
  const auto bytes_per_parameter = [&](const std::string& layout) {
    Case c{.model = model,
           .trainer = picked_trainer("megatron@0.12"),
           .cluster = h100s(8),
           .layout = layout_of(layout + ",mbs=1,gbs=8,seq=128")};
    return static_cast<double>(model_states(c.estimate().classes[0]).value()) / psi;
  };
  CHECK(bytes_per_parameter("dp=8") == doctest::Approx(18));
  CHECK(bytes_per_parameter("dp=8,zero=1") == doctest::Approx(6 + 12 / 8.0).epsilon(1e-6));
  CHECK(bytes_per_parameter("dp=4,cp=2,zero=1") == doctest::Approx(6 + 12 / 8.0).epsilon(1e-6));
}

TEST_CASE("experts share their states with other ranks than the dense weights do") {
  // tp 1, ep 4, dp 8: dense states over 8, experts (a quarter on each rank) over edp = 8 / 4 = 2.
  const Model model = moe(8, 512);
  Case c{.model = model,
         .trainer = picked_trainer("megatron@0.12"),
         .cluster = h100s(8),
         .layout = layout_of("dp=8,ep=4,zero=1,mbs=1,gbs=8,seq=128")};
  const RankClass of = c.estimate().classes[0];
  const Parameters parts = parameters(model);
  const double experts = static_cast<double>(parts.routed_experts.value()) / 4;
  const double dense = static_cast<double>((parts.total() - parts.routed_experts).value());
  const double expected = 8 * (dense / 8 + experts / 2);
  CHECK(static_cast<double>(bytes_of(of, Category::OptimizerStates).value()) ==
        doctest::Approx(expected).epsilon(1e-6));
}

// Megatron-LM's theoretical_memory_usage.py for an untied Llama-like model, bf16, distributed
// optimizer: the layers over pp and, on the most loaded shard, one embedding (both at pp 1), all
// over tp; 6 + 12 / dp bytes.
double megatron_formula(const Model& model, std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  const double embedding = static_cast<double>(model.vocabulary * model.hidden);
  const double all = static_cast<double>(parameters(model).total().value());
  const double block = all - 2 * embedding;
  const double shard =
      (block / static_cast<double>(pp) + embedding * (pp == 1 ? 2 : 1)) / static_cast<double>(tp);
  return shard * (6 + 12.0 / static_cast<double>(dp));
}

Case megatron_case(const std::string& layout) {
  return {.model = deeper(llama_model(4096, 32, 32, 11008), 32),
          .trainer = picked_trainer("megatron@0.12"),
          .cluster = h100s(64),
          .layout = layout_of(layout)};
}

TEST_CASE("Megatron's own formula is right for the states of even pipelines") {
  const auto c = megatron_case("tp=4,pp=4,dp=4,zero=1,mbs=1,gbs=64,seq=2048");
  const auto bytes = static_cast<double>(model_states(c.estimate().classes[0]).value());
  // It cuts norms over tp, which every rank holds: 2 of 4096 a layer.
  CHECK(bytes == doctest::Approx(megatron_formula(c.model, 4, 4, 4)).epsilon(1e-3));
}

TEST_CASE("and wrong for uneven ones, whose fullest rank need not be the first") {
  const auto c =
      megatron_case("tp=4,pp=4,dp=4,zero=1,mbs=1,gbs=64,seq=2048,first_layers=5,last_layers=9");
  const MemoryEstimate estimate = c.estimate();
  const auto last = static_cast<double>(model_states(estimate.classes[3]).value());
  // 9 layers instead of 8: more than the formula's most loaded shard by about an eighth.
  CHECK(last > 1.1 * megatron_formula(c.model, 4, 4, 4));
  CHECK(model_states(estimate.classes[3]) > model_states(estimate.classes[0]));
}

TEST_CASE(
    "the last stage of a model with a large vocabulary decides, which no first-stage formula "
    "sees") {
  // One micro-batch in flight everywhere and 256k logits of 4 tokens bytes on the last stage.
  auto c = megatron_case("tp=1,pp=4,dp=1,mbs=4,gbs=4,seq=4096,recompute=full");
  c.model.vocabulary = 256000;
  const MemoryEstimate estimate = c.estimate();
  CHECK(estimate.worst == 3);
  CHECK(bytes_of(estimate.classes[3], Category::Logits) > Bytes(0));
  CHECK(estimate.classes[3].moment.operator_name != "");
}

TEST_CASE("DeepSpeed's ZeRO-2 estimator does not shard gradients, and so is too high") {
  // deepspeed.runtime.zero.stage_1_and_2 estimate_zero2_model_states_mem_needs: 4 P + 16 P / N.
  const Model model = deeper(gpt_model(1024, 16), 4);
  const double psi = static_cast<double>(parameters(model).total().value());
  Case c{.model = model,
         .trainer = picked_trainer("deepspeed@0.16"),
         .cluster = h100s(64),
         .layout = layout_of("dp=64,mbs=1,gbs=64,seq=128,precision=fp16,zero=2")};
  const double ours = static_cast<double>(model_states(c.estimate().classes[0]).value());
  CHECK(ours < (4 + 16 / 64.0) * psi);
  // At one rank nothing is sharded, and both count 16 bytes and its fp32 gradients of the step.
  c.cluster = h100s(1);
  c.layout = layout_of("dp=1,mbs=1,gbs=1,seq=128,precision=fp16,zero=2");
  const double alone = static_cast<double>(model_states(c.estimate().classes[0]).value());
  CHECK(alone + 4 * psi == doctest::Approx((4 + 16) * psi));
}

TEST_CASE("a tied head on another stage than the embedding is a second copy") {
  auto c = paper_case(16, "tp=8,dp=1,sp,gbs=64,pp=4");
  const MemoryEstimate tied = c.estimate();
  c.model.tied = false;
  const MemoryEstimate untied = c.estimate();
  CHECK(bytes_of(tied.classes[3], Category::Weights) ==
        bytes_of(untied.classes[3], Category::Weights));
  // One stage: once or twice.
  c = paper_case(16, "tp=8,dp=1,sp,gbs=64,pp=1");
  const Bytes once = bytes_of(c.estimate().classes[0], Category::Weights);
  c.model.tied = false;
  CHECK(bytes_of(c.estimate().classes[0], Category::Weights) - once ==
        Bytes(2 * 51200 * kHidden / 8));
}

TEST_CASE("frozen weights have neither gradients nor states, and adapters have little of both") {
  Case c{.model = deeper(llama_model(1024, 16, 16, 4096), 4),
         .trainer = picked_trainer("megatron@0.12"),
         .cluster = h100s(1),
         .layout = layout_of("dp=1,mbs=1,gbs=1,seq=128")};
  c.job.frozen_layers = 2;
  const TrainedParameters half = trained_parameters(c.job, c.model);
  RankClass of = c.estimate().classes[0];
  CHECK(bytes_of(of, Category::OptimizerStates) == Bytes(8 * half.trained.value()));
  CHECK(bytes_of(of, Category::Weights) == Bytes(2 * (half.trained + half.frozen).value()));
  c.job = {};
  c.job.lora = Lora{.rank = 16, .targets = {"query", "value"}};
  const TrainedParameters lora = trained_parameters(c.job, c.model);
  of = c.estimate().classes[0];
  CHECK(bytes_of(of, Category::OptimizerStates) == Bytes(8 * lora.adapters.value()));
  CHECK(bytes_of(of, Category::Weights) == Bytes(2 * (lora.frozen + lora.adapters).value()));
}

TEST_CASE("scales of 4-bit weights stay on the accelerator where the weights move to the host") {
  Case c{.model = deeper(llama_model(1024, 16, 16, 4096), 4),
         .trainer = picked_trainer("pytorch"),
         .cluster = h100s(1),
         .layout = layout_of("dp=2,fsdp,mbs=1,gbs=2,seq=128,offload=optimizer+parameters")};
  c.job.lora = Lora{.rank = 16, .targets = {"query", "value"}, .base = FrozenBase::Nf4};
  // A byte for 64 numbers, 4 for 256 such bytes, 1,092 of tables: 4 matrices of 1024 x 1024 and 3
  // of 1024 x 4096 in each of 4 layers, whole on both ranks.
  constexpr std::int64_t kSquare = 16384 + 4 * 64 + 1092, kWide = 65536 + 4 * 256 + 1092;
  CHECK(bytes_of(c.estimate().classes[0], Category::Weights) ==
        Bytes(4 * (4 * kSquare + 3 * kWide)));
}

}  // namespace
}  // namespace trainwright
