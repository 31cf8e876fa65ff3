#include <doctest/doctest.h>

#include "trainwright/layout/layout.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

using Counts = std::vector<std::int64_t>;

Layout layout_of(std::string_view text) { return parse_layout(text).value().layout; }

Model layers(std::int64_t count) { return testing::gpt({.layers = count}); }

Counts counts(std::string_view text, std::int64_t count) {
  Counts list;
  const auto stages = stage_layers(layout_of(text), layers(count)).value();
  for (const Stage& stage : stages) list.push_back(stage.count);
  return list;
}

TEST_CASE("an even split gives what is over to the first stages") {
  CHECK(counts("pp=4", 8) == Counts{2, 2, 2, 2});
  CHECK(counts("pp=4", 10) == Counts{3, 3, 2, 2});
  CHECK(counts("pp=2,vpp=2", 8) == Counts{2, 2, 2, 2});
}

TEST_CASE("embedding and loss can take the place of layers") {
  // Llama 3 405B has 126 layers: with both ends counted 128 go 8 to each of 16 ranks.
  const Counts split = counts("pp=16,count_embedding,count_loss", 126);
  CHECK(split.front() == 7);
  CHECK(split[1] == 8);
  CHECK(split.back() == 7);
  // torchtitan's default for 32 layers on 8 stages: 34 / 8 is 4 and 2 over.
  CHECK(counts("pp=8,count_embedding,count_loss", 32) == Counts{4, 5, 4, 4, 4, 4, 4, 3});
}

TEST_CASE("first and last ranks can be set apart, and their chunks share") {
  // 28 - 5 - 7 leaves 16 for the two in the middle.
  CHECK(counts("pp=4,first_layers=5,last_layers=7", 28) == Counts{5, 8, 8, 7});
  CHECK(counts("pp=4,last_layers=4", 28) == Counts{8, 8, 8, 4});
  CHECK(counts("pp=2,vpp=2,first_layers=2", 10) == Counts{1, 4, 1, 4});
  CHECK(counts("pp=4,first_layers=6,count_loss", 29) == Counts{6, 8, 8, 7});
}

TEST_CASE("layers that do not come out even have splits that do") {
  const auto text_of = [](std::int64_t pp, std::int64_t vpp, std::int64_t layers) {
    Layout layout;
    layout.pp = pp;
    layout.vpp = vpp;
    std::vector<std::string> texts;
    for (const Layout& split : pipeline_splits(layout, layers)) {
      texts.push_back(std::to_string(split.count_embedding) + std::to_string(split.count_loss) +
                      " " + std::to_string(split.first_layers) + " " +
                      std::to_string(split.last_layers));
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(text_of(4, 1, 32) == Texts{"00 0 0"});
  CHECK(text_of(1, 1, 61) == Texts{"00 0 0"});
  // 126 + 2 = 8 x 16, the split of Llama 3.1 405B; 31 + 1 = 8 x 4.
  CHECK(text_of(16, 1, 126) == Texts{"00 0 0", "11 0 0"});
  CHECK(text_of(8, 1, 31) == Texts{"00 0 0", "01 0 0"});
  // 61 = 3 + 14 x 4 + 2; chunks of uneven ranks are not tried.
  CHECK(text_of(16, 1, 61) == Texts{"00 0 0", "00 3 2"});
  CHECK(text_of(16, 2, 61) == Texts{"00 0 0"});
  // 9 layers on 8 ranks leave none for the ends when the others hold 2.
  CHECK(text_of(8, 1, 9) == Texts{"00 0 0"});
}

TEST_CASE("explicit counts are taken as they are, and must add up") {
  CHECK(counts("pp=4,layers=0/3/3/2", 8) == Counts{0, 3, 3, 2});
  const auto wrong = stage_layers(layout_of("pp=4,layers=1/3/3/2"), layers(8));
  REQUIRE(!wrong);
  CHECK(wrong.error().diagnostics[0].what == "the stages hold 9 layers, the model has 8");
  CHECK(!stage_layers(layout_of("pp=4,layers=4/4"), layers(8)));
  CHECK(!stage_layers(layout_of("pp=1,first_layers=4"), layers(8)));
  CHECK(!stage_layers(layout_of("pp=2,first_layers=9"), layers(8)));
  CHECK(!stage_layers(layout_of("pp=8,count_loss=3"), layers(8)));
}

TEST_CASE("stages loop over the ranks or go to and fro like a V") {
  const Layout loop = layout_of("pp=3,vpp=2");
  const Layout v = layout_of("pp=3,vpp=2,schedule=zb-v");
  CHECK(v.placement == StagePlacement::V);
  Counts looped;
  Counts snaked;
  for (std::int64_t s = 0; s < 6; ++s) {
    looped.push_back(stage_rank(loop, s));
    snaked.push_back(stage_rank(v, s));
  }
  CHECK(looped == Counts{0, 1, 2, 0, 1, 2});
  CHECK(snaked == Counts{0, 1, 2, 2, 1, 0});
  CHECK(stage_chunk(v, 5) == 1);
}

TEST_CASE("a stage lists its kinds of layers in runs, and what stands at the ends") {
  // One dense layer, seven with experts, one MTP module.
  const Model model = testing::moe(8, 1024, 1, 1);
  const auto stages = stage_layers(layout_of("pp=2"), model).value();
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].runs == std::vector<LayerRun>{{LayerKindId(0), 1}, {LayerKindId(1), 3}});
  CHECK(stages[0].embedding);
  CHECK(!stages[0].head);
  CHECK(stages[0].mtp == 0);
  CHECK(stages[1].runs == std::vector<LayerRun>{{LayerKindId(1), 4}});
  CHECK(stages[1].first == 4);
  CHECK(stages[1].head);
  CHECK(stages[1].mtp == 1);
  const auto moved = stage_layers(layout_of("pp=2,mtp_stage=0"), model).value();
  CHECK(moved[0].mtp == 1);
  CHECK(moved[1].mtp == 0);
  CHECK(!stage_layers(layout_of("pp=2,mtp_stage=2"), model));
}

TEST_CASE("a spread vocabulary is on every rank once, with its first and its last stage") {
  const auto shares = [](const std::string& text) {
    std::string first, second;
    const auto stages = stage_layers(layout_of(text), layers(8)).value();
    for (const Stage& stage : stages) {
      first += stage.embedding_share ? '1' : '0';
      second += stage.head_share ? '1' : '0';
    }
    return first + " " + second;
  };
  CHECK(shares("pp=4,vocab_parallel") == "1111 1111");
  CHECK(shares("pp=4,vpp=2,schedule=v-half,vocab_parallel") == "11110000 00001111");
  CHECK(shares("pp=4") == "0000 0000");
  CHECK(shares("pp=1,vocab_parallel") == "0 0");
}

TEST_CASE("1,024 pipeline ranks of 8 chunks are dealt out") {
  const auto stages = stage_layers(layout_of("pp=1024,vpp=8"), layers(8192)).value();
  CHECK(stages.size() == 8192);
  CHECK(stages.back().first == 8191);
  CHECK(stages.back().rank == 1023);
}

TEST_CASE("numbers that follow from a layout") {
  const Layout layout = layout_of("tp=8,pp=16,vpp=3,dp=16,mbs=2,gbs=2048,seq=8192");
  CHECK(micro_batch_count(layout) == 64);  // 2048 / (2 x 16)
  CHECK(stage_count(layout) == 48);
  CHECK(tokens_per_step(layout) == Tokens(16'777'216));
  CHECK(expert_dp(layout) == 16);  // etp is tp
}

TEST_CASE("frozen weights are not trained, adapters are") {
  const Model model = testing::gpt(
      {.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 128, .vocabulary = 100});
  const Params total = parameters(model).total();
  const TrainedParameters all = trained_parameters({}, model);
  CHECK(all.trained == total);
  CHECK(all.frozen == Params(0));
  // Rank 4 beside query 64 x 64 and value 64 x 32, two layers: 2 x 4 x (128 + 96) = 1792.
  const TrainedParameters lora = trained_parameters(parse_job("lora=4:query+value").value(), model);
  CHECK(lora.adapters == Params(1792));
  CHECK(lora.trained == Params(1792));
  CHECK(lora.frozen == total);
  for (const char* same : {"lora=4:q_proj+v_proj", "lora=4:query+v-proj"}) {
    CHECK(trained_parameters(parse_job(same).value(), model) == lora);
  }
  // One layer of the two is frozen, adapters and all.
  const Job upper = parse_job("lora=4:query+value,frozen_layers=1").value();
  CHECK(trained_parameters(upper, model).adapters == Params(1792 / 2));
  // All seven: 4 x (2 x 128 + 2 x 96 + 3 x 192) a layer.
  const TrainedParameters every = trained_parameters(parse_job("lora=4:all-linear").value(), model);
  CHECK(every.adapters == Params(2 * 4096));
  CHECK(every == trained_parameters(parse_job("lora=4").value(), model));
  // The embedding is 100 x 64.
  const TrainedParameters part = trained_parameters(parse_job("frozen=embedding").value(), model);
  CHECK(part.frozen == Params(6400));
  CHECK(part.trained + part.frozen == total);
  const TrainedParameters half = trained_parameters(parse_job("frozen_layers=1").value(), model);
  // One layer: query and output 64 x 64, key and value 64 x 32, three of 64 x 128, two norms of 64.
  CHECK(half.frozen == Params(2 * 4096 + 2 * 2048 + 3 * 8192 + 128));
}

TEST_CASE(
    "copies that are trained beside adapters are parameters of their own, of tied tables too") {
  const Model model = testing::gpt(
      {.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 128, .vocabulary = 100});
  const TrainedParameters plain = trained_parameters(parse_job("lora=4:query").value(), model);
  const Job job = parse_job("lora=4:query,trained=embedding+head").value();
  const TrainedParameters both = trained_parameters(job, model);
  CHECK(both.trained - plain.trained == Params(2 * 6400));  // each 100 x 64
  CHECK(both.frozen == plain.frozen);
  CHECK(to_text(job) == "optimizer=adamw,lora=4:query,trained=embedding+head");
}

TEST_CASE("weights are of the dtype that a program loads them in, and under FSDP it trains fp32") {
  const auto weight = [](const char* trainer, const char* job, bool fsdp = false) {
    const Trainer of = picked_trainer(trainer);
    return std::string(
        weight_dtype(parse_job(job).value(), StoredAs(PrecisionKind::Bf16, fsdp), of));
  };
  CHECK(weight("axolotl", "") == "bf16");
  CHECK(weight("axolotl", "", true) == "fp32");
  CHECK(weight("accelerate", "") == "fp32");
  CHECK(weight("accelerate", "loaded=bf16") == "bf16");
  CHECK(weight("accelerate", "loaded=bf16", true) == "fp32");
  CHECK(weight("llama-factory", "lora=8") == "bf16");
  CHECK(weight("trl", "lora=8") == "fp32");
  CHECK(weight("trl", "lora=8,loaded=bf16") == "bf16");
  const Job whole = parse_job("").value();
  const auto bytes = trained_bytes(whole, PrecisionKind::Bf16, picked_trainer("axolotl"));
  REQUIRE(bytes.has_value());
  CHECK(bytes->model.weight == 2);
  CHECK(bytes->model.gradient == 2);
}

TEST_CASE("what has not few bits is fp32 where the program makes it so") {
  const auto prepared = [](const char* trainer, const char* job, bool fsdp = false) {
    return prepared_as(parse_job(job).value(), StoredAs(PrecisionKind::Bf16, fsdp),
                       picked_trainer(trainer));
  };
  CHECK(prepared("peft", "qlora=8") == Prepared::Peft);
  CHECK(prepared("peft", "qlora=8,prepared=no") == Prepared::No);
  CHECK(prepared("peft", "qlora=8", true) == Prepared::No);
  CHECK(prepared("peft", "lora=8") == Prepared::No);
  CHECK(prepared("trl@0.24", "qlora=8") == Prepared::Trl);
  CHECK(prepared("axolotl", "qlora=8") == Prepared::No);
  // TRL since 0.27 loads in fp32 whatever is not quantised, which is the same.
  CHECK(prepared("trl", "qlora=8") == Prepared::Peft);
  CHECK(prepared("trl", "qlora=8,loaded=bf16") == Prepared::No);
}

TEST_CASE("without targets adapters leave out experts that are parameters") {
  const Lora lora;
  CHECK(target_matrices(lora).has(LayerMatrix::ExpertUp));
  CHECK(!target_matrices(lora, true).has(LayerMatrix::ExpertUp));
  CHECK(target_matrices(lora, true).has(LayerMatrix::SharedUp));
  CHECK(!target_matrices(lora).has(LayerMatrix::Router));
  const Lora named{.rank = 4, .targets = {"expert_up"}};
  CHECK(target_matrices(named, true).has(LayerMatrix::ExpertUp));
}

TEST_CASE("every matrix of a layer has its word, and words of other programs mean some of them") {
  for (int i = 0; i <= static_cast<int>(LayerMatrix::MambaOut); ++i) {
    const auto matrix = static_cast<LayerMatrix>(i);
    CHECK(layer_matrix(name_of(matrix)) == matrix);
  }
  CHECK(matrices_named("q_proj") == Flags<LayerMatrix>{LayerMatrix::Query});
  CHECK(matrices_named("c_attn") == matrices_named("qkv_proj"));
  CHECK(matrices_named("linear_fc2") ==
        Flags<LayerMatrix>{LayerMatrix::Down, LayerMatrix::ExpertDown, LayerMatrix::SharedDown});
  CHECK(matrices_named("lm_head").empty());
}

TEST_CASE("a quantised matrix has its bits, its scales and their tables") {
  // 4096 x 11008 numbers, 64 a scale, 256 scales a scale: 22544384 + 704512 + 4 x 2752 + 4 + 1088.
  CHECK(stored_bytes(FrozenBase::Nf4, 4096, 11008) == Bytes(23260996));
  // A tail of 6 numbers has scales of its own: 35 + 2 + 4 + 4 + 1088.
  CHECK(stored_bytes(FrozenBase::Nf4, 7, 10) == Bytes(1133));
  // Half a byte a number and one for each 32: rows of 33 numbers have 17 and 2.
  CHECK(stored_bytes(FrozenBase::Mxfp4, 4096, 11008) == Bytes(4096 * 11008 * 17 / 32));
  CHECK(stored_bytes(FrozenBase::Mxfp4, 33, 10) == Bytes(10 * (17 + 2)));
  // One for each 16, and four for the matrix.
  CHECK(stored_bytes(FrozenBase::Nvfp4, 4096, 11008) == Bytes(4096 * 11008 * 9 / 16 + 4));
  CHECK(stored_bytes(FrozenBase::Nvfp4, 33, 10) == Bytes(10 * (17 + 3) + 4));
  CHECK(unsharded_bytes(FrozenBase::Nvfp4, 33, 10) == Bytes(0));
  CHECK(stored_bytes(FrozenBase::Int8, 4096, 11008) == Bytes(4096 * 11008 + 4 * 11008));
  CHECK(stored_bytes(FrozenBase::Fp8, 4096, 11008) == Bytes(4096 * 11008 + 4 * 32 * 86));
  // Beside the parameter: 704,512 scales, 2,752 of them in fp32, their mean and 272 fp32 of tables.
  CHECK(unsharded_bytes(FrozenBase::Nf4, 4096, 11008) == Bytes(704512 + 4 * 2752 + 4 + 1088));
  CHECK(unsharded_bytes(FrozenBase::Int8, 4096, 11008) == Bytes(4 * 11008));
  CHECK(unsharded_bytes(FrozenBase::Fp8, 4096, 11008) == Bytes(0));
}

}  // namespace
}  // namespace trainwright
