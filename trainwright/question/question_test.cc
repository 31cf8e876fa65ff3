#include "trainwright/question/question.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

const Words kWords{.model = "llama-2-7b",
                   .on = "8xA100-80GB",
                   .trainer = "megatron@0.12",
                   .layout = "tp=2,pp=4,mbs=1,gbs=8,seq=4096",
                   .job = {},
                   .attention = {},
                   .schedule = {}};

std::string written(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("trainwright_question_" + name);
  std::ofstream(path) << text;
  return path.string();
}

MemoryEstimate asked(const Words& words) {
  const auto question = read_question(words, DataDirectory(kShippedData));
  REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
  const auto constants = load_memory_constants(kShippedData);
  const auto estimate = estimate_memory(memory_question(*question, *constants));
  REQUIRE_MESSAGE(estimate.has_value(), to_text(estimate.error()));
  return *estimate;
}

TEST_CASE("a directory answers for one trainer after another, and for all of them") {
  const DataDirectory data(kShippedData);
  CHECK(data.trainer("nanotron@0.4")->title == "nanotron");
  CHECK(data.trainer("nanotron")->version > parse_version("0.4"));
  CHECK(data.trainer("paddlenlp")->title == "PaddleNLP");
  CHECK(data.trainer("nanotron@0.4")->title == "nanotron");
  CHECK((*data.trainers())->size() == load_trainers(kShippedData)->size());
  CHECK(!data.trainer("nanotrom").has_value());
}

TEST_CASE("the questions of memory and of time hold what was read") {
  Words words = kWords;
  words.attention = "eager";
  const auto question = read_question(words, DataDirectory(kShippedData));
  REQUIRE(question.has_value());
  const auto time = load_time_constants(kShippedData);
  REQUIRE(time.has_value());
  const auto constants = load_memory_constants(kShippedData);
  const auto load = parse_expert_load("zipf:0.5");
  const StepQuestion step = step_question(*question, time->kernels, **load);
  const MemoryQuestion memory = memory_question(*question, *constants);
  CHECK(&step.layout == &memory.layout);
  CHECK(step.attention == AttentionKernel::Eager);
  CHECK(memory.attention == AttentionKernel::Eager);
  CHECK(step.schedule == nullptr);
  CHECK(step.expert_load.kind == ExpertLoad::Kind::Zipf);
}

// Transformer Engine disables FlashAttention and FusedAttention below compute capability 8.0.
TEST_CASE("an accelerator too old for flash attention has what the trainer falls back to") {
  const auto of = [](const char* on, const char* trainer, const char* attention) {
    Words words = kWords;
    words.on = on;
    words.trainer = trainer;
    words.attention = attention;
    return read_question(words, DataDirectory(kShippedData));
  };
  CHECK(of("8xV100-SXM2-32GB", "megatron@0.12", "")->attention == AttentionKernel::FusedSoftmax);
  CHECK(of("8xV100-SXM2-32GB", "megatron@0.12", "eager")->attention == AttentionKernel::Eager);
  CHECK(of("8xA100-80GB", "megatron@0.12", "")->attention == std::nullopt);
  const auto flash = of("8xV100-SXM2-32GB", "megatron@0.12", "flash");
  REQUIRE(!flash.has_value());
  CHECK(to_text(flash.error()).find("compute capability is 7.0") != std::string::npos);
  // SDPA has a memory-efficient kernel there.
  CHECK(of("8xV100-SXM2-32GB", "pytorch", "")->attention == std::nullopt);
}

TEST_CASE("fp8 alone is what the trainer's recipes take there, else its first low precision") {
  const Hardware hardware = *load_hardware(kShippedData);
  const auto of = [&](const char* trainer, const char* on, const char* model = "llama-3.1-70b") {
    return fp8_recipe(*find_trainer(trainer, kShippedData), *parse_cluster(on, hardware),
                      *find_model(model, kShippedData));
  };
  for (const char* trainer : {"megatron-core", "megatron-bridge"}) {
    CHECK(of(trainer, "8xH100") == PrecisionKind::Fp8Tensorwise);
    CHECK(of(trainer, "8xH100", "deepseek-v3") == PrecisionKind::Fp8Blockwise);
    CHECK(of(trainer, "8xGB200") == PrecisionKind::Mxfp8);
    CHECK(of(trainer, "8xGB200", "deepseek-v3") == PrecisionKind::Mxfp8);
  }
  CHECK(of("megatron-core@0.12", "8xH100", "deepseek-v3") == PrecisionKind::Fp8Tensorwise);
  CHECK(of("megatron-core", "8xMI300X") == PrecisionKind::Fp8Delayed);
  CHECK(of("nanotron", "8xH100") == std::nullopt);
}

TEST_CASE("flex is the backend that runs there") {
  const auto of = [](const char* trainer, const char* on, const char* layout) {
    Words words;
    words.model = "qwen3-30b-a3b";
    words.on = on;
    words.trainer = trainer;
    words.layout = layout;
    return read_question(words, DataDirectory(kShippedData))->read.layout.dispatcher;
  };
  const char* flex = "ep=8,zero=1,gbs=64,dispatcher=flex";
  CHECK(of("megatron@0.19", "8xH100", flex) == DispatcherKind::DeepEp);
  CHECK(of("megatron@0.19", "8xGB200", flex) == DispatcherKind::HybridEp);
  CHECK(of("megatron-bridge", "8xH100", flex) == DispatcherKind::HybridEp);
  CHECK(of("torchtitan@0.3", "8xH100", "ep=8,fsdp,gbs=64,dispatcher=flex") == DispatcherKind::Flex);
  CHECK(of("megatron@0.19", "8xH100", "ep=8,zero=1,gbs=64") == DispatcherKind::AllToAll);
}

TEST_CASE("the words of a question are the arguments of estimate") {
  Words words = kWords;
  words.job = "lora=8";
  CHECK(estimate_arguments(words) ==
        std::vector<std::string>{"estimate", "llama-2-7b", "--on", "8xA100-80GB", "--trainer",
                                 "megatron@0.12", "--layout", "tp=2,pp=4,mbs=1,gbs=8,seq=4096",
                                 "--job", "lora=8"});
}

TEST_CASE("a plan says its question in the words that it was asked") {
  Words words = kWords;
  words.attention = "eager";
  const Json exported = Json::object().add("question", to_json(words));
  const Json planned = Json::object().add("schema", Json::of(2)).add("words", to_json(words));
  CHECK(*words_of_plan(exported, "plan.json") == words);
  CHECK(*words_of_plan(planned, "plan.json") == words);
  words.on = "";
  const auto without = words_of_plan(Json::object().add("words", to_json(words)), "plan.json");
  REQUIRE_FALSE(without.has_value());
  CHECK(without.error().diagnostics.front().what == "the field 'on' is missing");
  const Json nothing = Json::object().add("best", Json::array());
  CHECK(words_of_plan(nothing, "plan.json").error().diagnostics.front().what ==
        "no layout of this plan fits");
}

TEST_CASE("a kind in place of a file makes an order of the layout's shape") {
  Words words = kWords;
  words.trainer = "torchtitan@0.3";
  words.layout = "pp=4,vpp=2,sharding=fsdp,zero=2,mbs=1,gbs=16,seq=4096,loss=loss-parallel";
  words.schedule = "v-half";
  const auto question = read_question(words, DataDirectory(kShippedData));
  REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
  // 8 accelerators / 4 pipeline ranks = 2 replicas, 16 / 2 = 8 micro-batches each.
  CHECK(question->schedule == *make(ScheduleKind::VHalf, {4, 8, 2}));
  CHECK(question->read.layout.schedule == ScheduleKind::Csv);
  CHECK(question->read.layout.placement == StagePlacement::V);
  CHECK(is_legal(violations(*question)));
  words.layout = "pp=4,vpp=3,mbs=1,gbs=16,seq=4096";  // V-Half has two chunks
  CHECK_FALSE(read_question(words, DataDirectory(kShippedData)).has_value());
}

TEST_CASE("faults of all words come at once") {
  Words words = kWords;
  words.model = "lama-2-7b";
  words.trainer = "megatorn";
  words.layout = "tp=0";
  words.attention = "fast";
  words.schedule = "nowhere.csv";
  const auto question = read_question(words, DataDirectory(kShippedData));
  REQUIRE_FALSE(question.has_value());
  CHECK(question.error().diagnostics.size() >= 5);
}

TEST_CASE("a model and a trainer may be given by their own text") {
  Words words = kWords;
  words.model =
      R"({"_name_or_path": "seven", "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
          "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
          "max_position_embeddings": 4096})";
  words.trainer = R"({"based_on": "megatron@0.12"})";
  CHECK(read_question(words, DataDirectory(kShippedData))->model.name == "seven");
  CHECK(asked(words).classes.front().driver == asked(kWords).classes.front().driver);
}

TEST_CASE(
    "a model without a name is called by its family and size, and has a file to be saved as") {
  Words words = kWords;
  // Llama-2-7B: 6,738,415,616 parameters.
  for (const char* name : {"", R"("_name_or_path": "", )", R"("_name_or_path": null, )"}) {
    words.model = fmt::format(
        R"({{{}"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
             "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32}})",
        name);
    CHECK(read_question(words, DataDirectory(kShippedData))->model.name ==
          "llama of 6.738 B parameters");
  }
  words.trainer = R"({"based_on": "megatron@0.12"})";
  const Words saved = with_file_words(words);
  CHECK(saved.model == "config.json");
  CHECK(saved.trainer == "trainer.json");
  CHECK(saved.on == words.on);
  CHECK(to_be_saved(words) ==
        "the model's config saved as config.json and the trainer saved as trainer.json");
  CHECK(with_file_words(kWords) == kWords);
  CHECK(to_be_saved(kWords).empty());
}

TEST_CASE(
    "a trainer's variant always or never uses a kernel, and has the loss that was asked for") {
  Words words = kWords;
  words.trainer = R"({"based_on": "megatron-core@0.16", "kernels": {"flash-attention": false},
                      "loss": "te-fused", "workspaces": {"cublas": 1048576},
                      "code": {"weights_made_wide": true}})";
  const Trainer trainer = read_question(words, DataDirectory(kShippedData))->trainer;
  CHECK(find_kernel(trainer, KernelKind::FlashAttention)->use == Use::Never);
  CHECK(trainer.losses.front().name == "te-fused");
  CHECK(trainer.losses.front().use == Use::Always);
  CHECK(trainer.code.weights_made_wide);
  for (const Workspace& workspace : trainer.workspaces) {
    if (workspace.library == "cublas") CHECK(workspace.bytes == 1 << 20);
  }
  words.trainer = R"({"based_on": "pytorch@2.4", "loss": "compiled",
                      "code": {"joined_projections": true}})";
  const Trainer compiled = read_question(words, DataDirectory(kShippedData))->trainer;
  CHECK(compiled.losses.front().name == "compiled");
}

TEST_CASE("what a variant cannot switch is named with its place") {
  const auto trainers = load_trainers(kShippedData);
  REQUIRE(trainers.has_value());
  const auto variant = trainer_named(
      R"({"based_on": "megatron@0.12", "kernels": {"flash": true}, "loss": "none", "speed": 2})",
      *trainers);
  REQUIRE_FALSE(variant.has_value());
  const std::string text = to_text(variant.error());
  CHECK(text.find("/kernels/flash") != std::string::npos);
  CHECK(text.find("no loss 'none'") != std::string::npos);
  CHECK(text.find("/speed") != std::string::npos);
}

TEST_CASE("an order from a file takes the place of the layout's") {
  const auto made = make(ScheduleKind::GPipe, {.ranks = 4, .microbatches = 8, .chunks = 1});
  REQUIRE(made.has_value());
  Words words = kWords;
  words.schedule = written("gpipe.csv", to_csv(*made));
  // All eight micro-batches of GPipe are in flight, four of 1F1B's.
  CHECK(asked(words).classes.front().moment.in_flight == 8);
  CHECK(asked(kWords).classes.front().moment.in_flight == 4);
  Words same = kWords;
  same.layout += ",schedule=gpipe";
  CHECK(asked(words).classes.front().allocated == asked(same).classes.front().allocated);
}

// docs/trainers.md: with resharded weights ten steps end at a loss of 3.30921 instead of 2.95261.
TEST_CASE("what holds for kinds that split the backward holds for an order from a file that does") {
  const auto refusals = [](ScheduleKind kind, const std::string& layout) {
    const auto made = make(kind, {.ranks = 2, .microbatches = 4});
    REQUIRE(made.has_value());
    Words words = kWords;
    words.on = "4xH100";
    words.trainer = "torchtitan@0.3";
    words.layout = "pp=2,fsdp,mbs=1,gbs=8,seq=4096,schedule=csv,loss=loss-parallel" + layout;
    words.schedule = written("split.csv", to_csv(*made));
    const auto question = read_question(words, DataDirectory(kShippedData));
    REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
    std::string ids;
    for (const LayoutViolation& one : violations(*question)) {
      if (one.severity == Severity::Forbidden) ids += one.id + ' ';
    }
    return ids;
  };
  CHECK(refusals(ScheduleKind::ZbH1, ",zero=3") == "zero-bubble-resharded ");
  CHECK(refusals(ScheduleKind::ZbH1, ",zero=2") == "");
  CHECK(refusals(ScheduleKind::ZbH1, ",zero=2,recompute=op-selective") ==
        "zero-bubble-op-recompute ");
  CHECK(refusals(ScheduleKind::ZbH1, ",zero=2,recompute=full") == "");
  CHECK(refusals(ScheduleKind::OneFOneB, ",zero=3,recompute=op-selective") == "");
}

TEST_CASE("torchtitan's chunked loss is refused under a split backward, and only where it runs") {
  const auto refused = [](const std::string& loss) {
    Words words = kWords;
    words.on = "4xH100";
    words.trainer = "torchtitan@0.3";
    words.layout = "pp=2,vpp=2,placement=v,fsdp,zero=2,mbs=1,gbs=8,seq=4096,schedule=zb-v" + loss;
    const auto question = read_question(words, DataDirectory(kShippedData));
    REQUIRE_MESSAGE(question.has_value(), to_text(question.error()));
    const auto found = violations(*question);
    return std::any_of(found.begin(), found.end(), [](const LayoutViolation& one) {
      return one.id == "zero-bubble-chunked-loss" && one.severity == Severity::Forbidden;
    });
  };
  CHECK(refused(""));
  CHECK_FALSE(refused(",loss=loss-parallel"));
}

TEST_CASE("schedule=csv needs a file") {
  Words words = kWords;
  words.layout += ",schedule=csv";
  const auto question = read_question(words, DataDirectory(kShippedData));
  REQUIRE_FALSE(question.has_value());
  CHECK(question.error().diagnostics.front().hint.find("--schedule") != std::string::npos);
}

}  // namespace
}  // namespace trainwright
