// Steps under uneven loads of experts.
#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/simulate/simulate.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

struct Setting {
  Model model;
  Cluster cluster;
  Trainer trainer;
  Layout layout;
  TimeConstants constants = *load_time_constants(kShippedData);

  Setting(const char* name, const char* on, const char* by, const char* text)
      : model(name[0] == '{' ? *parse_model(name, "test", kShippedData)
                             : *find_model(name, kShippedData)),
        cluster(*parse_cluster(on, *load_hardware(kShippedData))),
        trainer(*find_trainer(by, kShippedData)),
        layout(parse_layout(text, {accelerator_count(cluster), usual_layout(trainer)})->layout) {}
  StepPieces pieces(const ExpertLoad& load) const {
    return *step_pieces({.model = model,
                         .cluster = cluster,
                         .trainer = trainer,
                         .layout = layout,
                         .job = {},
                         .kernels = constants.kernels,
                         .expert_load = load});
  }
  double seconds(const ExpertLoad& load) const {
    return step_time(pieces(load), stack_of(constants.stacks, trainer).constants).step.value();
  }
};

// Counts of which the first of `ranks` equal ranks receives so many times the mean.
ExpertLoad first_receives(double times, std::size_t experts, std::size_t ranks) {
  const double others = (static_cast<double>(ranks) - times) / static_cast<double>(ranks - 1);
  std::vector<double> counts(experts, others);
  std::fill_n(counts.begin(), experts / ranks, times);
  return {ExpertLoad::Kind::Counted, 0, {counts}, "counts"};
}

TEST_CASE("a busier rank of experts prolongs their kernels and their traffic, and nothing else") {
  const Setting eight("mixtral-8x7b", "8xH100", "megatron-core@0.12",
                      "ep=2,dp=8,zero=1,mbs=1,gbs=64,seq=4096");
  const auto of = [](const StepPieces& step, Piece piece) {
    return step.kinds.front().forward.at(piece).value();
  };
  const StepPieces even = eight.pieces({}), same = eight.pieces(first_receives(1, 8, 2));
  const StepPieces quarter = eight.pieces(first_receives(1.25, 8, 2));
  const StepPieces half = eight.pieces(first_receives(1.5, 8, 2));
  CHECK(same.kinds.front().forward == even.kinds.front().forward);
  for (const Piece piece : {Piece::Products, Piece::Streams}) {
    const double more = of(quarter, piece) - of(even, piece);
    CHECK(more > 0);
    CHECK(of(half, piece) - of(even, piece) == doctest::Approx(2 * more));
  }
  CHECK(of(half, Piece::Expert) > of(even, Piece::Expert));
  CHECK(of(half, Piece::AttentionCores) == of(even, Piece::AttentionCores));
  CHECK(half.kinds.front().forward.kernels == even.kinds.front().forward.kernels);
  // Of a layer's weights that a token meets, 2 x 3 x 4096 x 14336 = 352 M are of experts, 42 M of
  // attention: half as much again on the first is 1.45 times both.
  CHECK(of(half, Piece::Products) / of(even, Piece::Products) ==
        doctest::Approx(1.45).epsilon(0.03));
}

TEST_CASE("where every rank holds all experts, none is busier") {
  const Setting eight("mixtral-8x7b", "8xH100", "megatron-core@0.12",
                      "tp=8,etp=8,dp=1,mbs=1,gbs=8,seq=4096");
  CHECK(eight.seconds(first_receives(1.5, 8, 2)) == eight.seconds({}));
}

// github.com/marin-community/marin issue 7668, 64 GB200: 48 layers of 256 experts, 8 for a token,
// and a shared one, one sequence of 4,096 tokens on each rank. With forced balance a step took
// 8.70 s, MFU 31.1 % (32.4 % in a longer run). The learned router began with 1.34 times the mean on
// the busiest rank of a layer on average and 1.97 on the worst: 11.17 s. Later it took 18.39 s,
// 14.7 %. A compiler made one program of the step, which is asked as CUDA graphs. What attention is
// made of is not told; heads of 128, eight of them for keys, are taken.
TEST_CASE("a published learned router slows a step as its loads say") {
  const Setting rack(
      R"({"model_type": "qwen2_moe", "hidden_size": 5120, "num_hidden_layers": 48,
          "num_attention_heads": 40, "num_key_value_heads": 8, "intermediate_size": 5120,
          "moe_intermediate_size": 1280, "shared_expert_intermediate_size": 5120,
          "num_experts": 256, "num_experts_per_tok": 8, "vocab_size": 128256,
          "max_position_embeddings": 4096, "hidden_act": "silu", "decoder_sparse_step": 1,
          "mlp_only_layers": [], "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
          "norm_topk_prob": true, "rope_theta": 10000.0})",
      "64xGB200", "megatron-core@0.19",
      "ep=64,zero=1,mbs=1,gbs=1024,seq=4096,dispatcher=flex,on=graphs+grouped-gemm");
  const double even = rack.seconds({});
  CHECK(even == doctest::Approx(8.70).epsilon(0.3));  // as shipped, nothing measured
  const double first = 11.17 / 8.70, later = 18.39 / 8.70;
  CHECK(rack.seconds(first_receives(1.34, 256, 64)) / even < first);
  CHECK(rack.seconds(first_receives(1.97, 256, 64)) / even > first);
  // A router whose fourth expert by popularity has half the load of its first: 4^-0.5.
  const double zipf = rack.seconds({ExpertLoad::Kind::Zipf, 0.5, {}, "zipf:0.5"}) / even;
  CHECK(zipf == doctest::Approx(later).epsilon(0.15));
}

}  // namespace
}  // namespace trainwright
