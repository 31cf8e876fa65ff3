#include "trainwright/trainer/trainer.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/trainer/called.h"

using namespace trainwright;

namespace {

std::string refusal(std::string_view text) {
  const auto trainer = pick_trainer(text, shipped_trainers());
  REQUIRE(!trainer.has_value());
  return to_text(trainer.error());
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ParameterBytes bytes_of(std::string_view trainer, std::string_view precision,
                        std::string_view optimizer, std::string_view gradient = {}) {
  const auto bytes =
      parameter_bytes(picked_trainer(trainer), named<PrecisionKind>(precision).value(),
                      named<OptimizerKind>(optimizer).value(), gradient);
  REQUIRE_MESSAGE(bytes.has_value(), to_text(bytes.error()));
  return *bytes;
}

double states(const ParameterBytes& bytes) { return state_bytes(bytes.states, {}); }
double whole(const ParameterBytes& bytes) {
  return bytes.weight + bytes.weight_copies + bytes.gradient + bytes.master + states(bytes) +
         bytes.gradient_at_step;
}
double shared_by_zero_1(const ParameterBytes& bytes) {
  return bytes.master + states(bytes) + bytes.gradient_at_step;
}

std::string faults_of(std::vector<TrainerFile> files) {
  const auto trainers = read_trainers(files);
  REQUIRE(!trainers.has_value());
  return to_text(trainers.error());
}

}  // namespace

TEST_CASE("Megatron's documented bytes per parameter come out of the data") {
  // Megatron-LM docs, distributed optimizer: bf16 18 or 6 + 12/d, fp16 20 or 4 + 16/d,
  // fp32 16 or 8 + 8/d.
  for (const char* version : {"megatron@0.8", "megatron@0.12", "megatron@0.16"}) {
    const auto bf16 = bytes_of(version, "bf16", "adamw");
    CHECK(whole(bf16) == 18);
    CHECK(shared_by_zero_1(bf16) == 12);
    const auto fp16 = bytes_of(version, "fp16", "adamw");
    CHECK(whole(fp16) == 20);
    CHECK(shared_by_zero_1(fp16) == 16);
    const auto fp32 = bytes_of(version, "fp32", "adamw");
    CHECK(whole(fp32) == 16);
    CHECK(shared_by_zero_1(fp32) == 8);
  }
}

TEST_CASE("a bf16 gradient buffer saves two bytes and adds an fp32 shard at the step") {
  // megatron-core 0.16.1 distrib_optimizer.py: 2 + 2 + (4 + 12)/d.
  const auto bytes = bytes_of("megatron@0.16", "bf16", "adamw", "bf16");
  CHECK(bytes.weight + bytes.gradient == 4);
  CHECK(shared_by_zero_1(bytes) == 16);
}

TEST_CASE("a trainer's variant adds gradients up in another dtype, where any precision offers it") {
  // --grad-reduce-in-bf16: 2 + 2 + (4 + 12)/d instead of 2 + 4 + 12/d.
  const Trainer variant = *trainer_named(
      R"({"based_on": "megatron-core@0.19", "gradients": "bf16"})", shipped_trainers());
  for (const PrecisionKind kind : {PrecisionKind::Bf16, PrecisionKind::Fp8Delayed}) {
    const auto bytes = *parameter_bytes(variant, kind, OptimizerKind::AdamW);
    CHECK(bytes.gradient == 2);
    CHECK(shared_by_zero_1(bytes) == 16);
  }
  const auto none =
      trainer_named(R"({"based_on": "megatron-lm-2022", "gradients": "bf16"})", shipped_trainers());
  REQUIRE(!none.has_value());
  CHECK(contains(to_text(none.error()), "has no gradients in bf16"));
}

TEST_CASE(
    "the precision-aware optimizer reads bf16 gradients as they are, but not beside fp8 weights") {
  // 0.13.1 optimizer_config.py use_precision_aware_optimizer_no_fp8_or_ds_fp8.
  const auto copied = [](const char* trainer, const char* precision) {
    return bytes_of(trainer, precision, "adamw-precision-aware", "bf16").gradient_at_step;
  };
  CHECK(copied("megatron@0.12", "fp8-tensorwise") == 0);
  for (const char* trainer : {"megatron@0.13", "megatron@0.19", "megatron-bridge"}) {
    CHECK(copied(trainer, "bf16") == 0);
    CHECK(copied(trainer, "fp8-delayed") == 0);
    CHECK(copied(trainer, "fp8-tensorwise") == 4);
  }
}

TEST_CASE("the precision-aware optimizer of Megatron keeps a 16-bit remainder from its start") {
  // bf16 states 2 + 2 with the remainder's 2 (0.11.0 optimizer/__init__.py:291).
  CHECK(shared_by_zero_1(bytes_of("megatron@0.11", "bf16", "adamw-precision-aware")) == 6);
  CHECK(shared_by_zero_1(bytes_of("megatron@0.13", "bf16", "adamw-precision-aware")) == 6);
  const auto old = parameter_bytes(picked_trainer("megatron@0.10"), PrecisionKind::Bf16,
                                   OptimizerKind::AdamWPrecisionAware);
  REQUIRE(!old.has_value());
  CHECK(contains(to_text(old.error()), "Megatron-Core has no optimizer 'adamw-precision-aware'"));
}

TEST_CASE("a trainer runs on the PyTorch that is said, whose pipelines keep less from 2.15 on") {
  const auto keeps = [](std::string_view text) {
    const Trainer trainer = picked_trainer(text);
    return std::pair(to_text(trainer.libraries.torch), trainer.pipeline.buffers_per_micro_batch);
  };
  CHECK(keeps("torchtitan@0.3") == std::pair(std::string("2.10"), true));
  CHECK(keeps("torchtitan@0.3,torch=2.14.1") == std::pair(std::string("2.14.1"), true));
  CHECK(keeps("torchtitan , torch = 2.15") == std::pair(std::string("2.15"), false));
  CHECK(keeps("pytorch@2.14") == std::pair(std::string("2.14"), true));
  CHECK(keeps("pytorch@2.15") == std::pair(std::string("2.15"), false));
  // What the layers count as in a split is torchtitan's, whatever the PyTorch.
  CHECK(picked_trainer("torchtitan@0.3,torch=2.15").pipeline.first_stage_less_layers == 1);
  // And back again.
  const auto variant = trainer_named(
      R"({"based_on": "pytorch@2.15", "libraries": {"torch": "2.13"}})", shipped_trainers());
  REQUIRE(variant.has_value());
  CHECK(variant->pipeline.buffers_per_micro_batch);
  CHECK(trainer_called("torchtitan,torch=2.15") == "torchtitan");
  CHECK(contains(refusal("torchtitan,torch=new"), "not a version of PyTorch"));
  CHECK(contains(refusal("torchtitan,cuda=13"), "torchtitan@0.3,torch=2.15"));
  CHECK(contains(refusal("pytorch@2.13,torch=2.15"), "pytorch@2.15"));
  CHECK(contains(refusal("paddleformers,torch=2.15"), "does not run on PyTorch"));
}

TEST_CASE("other trainers' bytes per parameter") {
  // Rajbhandari et al. 2020: 2 + 2 + 12, and the fp32 copy of gradients made for the step.
  const auto deepspeed = bytes_of("deepspeed", "fp16", "adamw");
  CHECK(deepspeed.weight + deepspeed.gradient + deepspeed.master + states(deepspeed) == 16);
  // FSDP2 with mixed precision: fp32 weights, gradients and two states.
  CHECK(whole(bytes_of("torchtitan", "bf16", "adamw")) == 16);
  CHECK(picked_trainer("torchtitan").precisions.front().compute == "bf16");
  // nanotron: bf16 weights, fp32 gradients, fp32 copy and two states.
  CHECK(whole(bytes_of("nanotron", "bf16", "adamw")) == 18);
  // A pure bf16 model keeps its states in bf16: 2 + 2 + 2 x 2; in fp32 4 + 4 + 2 x 4.
  CHECK(whole(bytes_of("pytorch", "bf16", "adamw")) == 8);
  CHECK(whole(bytes_of("pytorch", "fp32", "adamw")) == 16);
}

TEST_CASE("how layers are written is a fact, and a later file changes only what it names") {
  const CodeFacts old = picked_trainer("megatron@0.12").code;
  CHECK(old.joined_projections);
  CHECK(old.vocabulary_multiple == 128);
  CHECK(old.expert_scores == ExpertScores::AtCombine);
  const CodeFacts now = picked_trainer("megatron@0.13").code;
  CHECK(now.expert_scores == ExpertScores::InActivation);
  CHECK(now.vocabulary_multiple == 128);
  CHECK(!picked_trainer("torchtitan").code.joined_projections);
  CHECK(picked_trainer("pytorch").code.stops_early);
  const Trainer megatron = picked_trainer("megatron@0.12");
  const PrecisionFacts* mx = find_kind(megatron.precisions, PrecisionKind::Mxfp8);
  REQUIRE(mx != nullptr);
  CHECK(mx->input_copy == 1.03125);
}

// A value that is not the default, as a file has it.
Json turned(bool CodeFacts::* fact) { return Json::of(!(CodeFacts{}.*fact)); }
Json turned(const CodeNumber& fact) { return Json::of(fact.most); }
Json turned(ExpertScores CodeFacts::* fact) {
  REQUIRE(CodeFacts{}.*fact != ExpertScores::InActivation);
  return Json::of(name_of(ExpertScores::InActivation));
}

TEST_CASE("every code fact of a file is read and written, each by itself") {
  const auto again = [](Json code) {
    Json file = to_json(picked_trainer("nanotron"));
    for (JsonMember& member : file.members) {
      if (member.key == "code") member.value = code;
    }
    const std::vector<TrainerFile> files = {{"t.json", to_text(file)}};
    const auto trainers = read_trainers(files);
    REQUIRE_MESSAGE(trainers.has_value(), to_text(trainers.error()));
    return *to_json(trainers->front()).find("code");
  };
  const Json usual = again(Json::object().add("source", Json::of("s")));
  for (const CodeFact& fact : kCodeFacts) {
    const Json value = std::visit([](const auto& of) { return turned(of); }, fact.fact);
    Json code = usual;
    for (JsonMember& member : code.members) {
      if (member.key == fact.name) member.value = value;
    }
    CHECK(to_text(code) != to_text(usual));
    CHECK(to_text(again(code)) == to_text(code));
  }
}

TEST_CASE("what changed between versions of Megatron is where its releases put it") {
  const auto offers = [](std::string_view trainer, std::string_view module) {
    for (const Choice& choice : picked_trainer(trainer).recompute_modules) {
      if (choice.kind == module) return true;
    }
    return false;
  };
  CHECK(!offers("megatron@0.11", "mlp"));
  CHECK(offers("megatron@0.12", "mlp"));
  CHECK(!offers("megatron@0.13", "shared_experts"));
  CHECK(offers("megatron@0.14", "shared_experts"));
  CHECK(picked_trainer("megatron@0.9").cp_kinds.size() == 1);
  CHECK(picked_trainer("megatron@0.10").cp_kinds.size() == 4);
}

TEST_CASE("a name and a version pick the right file") {
  CHECK(to_text(picked_trainer("megatron@0.12").from) == "0.12");
  CHECK(to_text(picked_trainer("megatron@0.9").from) == "0.9");
  CHECK(to_text(picked_trainer("megatron@0.12.3").version) == "0.12.3");
  CHECK(to_text(picked_trainer("megatron@0.12.3").from) == "0.12");
  CHECK(to_text(picked_trainer("megatron").version) == "0.19");
  CHECK(picked_trainer("nemo").name == "megatron-bridge");
  CHECK(to_text(picked_trainer("  Megatron-LM ").version) == "0.19");
  CHECK(picked_trainer("titan").name == "torchtitan");
  CHECK(picked_trainer("paddle").name == "paddleformers");
  CHECK(picked_trainer("paddlenlp@2.8").name == "paddlenlp");
  CHECK(picked_trainer("eager").name == "pytorch");
  CHECK(picked_trainer("deepspeed@0.17.2").name == "deepspeed");
  for (const char* name : {"megatron-core", "torchtitan", "deepspeed", "nanotron", "paddlenlp",
                           "paddleformers", "pytorch"}) {
    CHECK(picked_trainer(name).name == name);
  }
}

TEST_CASE("a program has its own defaults, and rules, constants and exports of what it starts") {
  const Trainer accelerate = picked_trainer("accelerate");
  CHECK(accelerate.stack == "accelerate");
  CHECK(accelerate.defaults.recompute == RecomputeKind::None);
  for (const char* name : {"trl", "axolotl", "llama-factory", "peft"}) {
    CHECK(picked_trainer(name).name == name);
    CHECK(picked_trainer(name).stack == "accelerate");
    CHECK(has_rule(picked_trainer(name), "zero-is-deepspeed"));
  }
  CHECK(picked_trainer("trl-deepspeed").stack == "accelerate-deepspeed");
  // TRL 0.22 runs layers again by default, 0.26 no longer prepares a quantised model.
  CHECK(picked_trainer("trl@0.20").defaults.recompute == RecomputeKind::None);
  CHECK(picked_trainer("trl@0.24").defaults.recompute == RecomputeKind::Full);
  CHECK(picked_trainer("trl@0.24").adapters.prepares == Prepared::Trl);
  CHECK(picked_trainer("trl").adapters.prepares == Prepared::No);
  CHECK(picked_trainer("trl").adapters.dtype_beside_few_bits == "bf16");
  CHECK(picked_trainer("megatron").stack == "megatron-core");
}

TEST_CASE("an unknown trainer or version is answered with what is known") {
  CHECK(contains(refusal("megatorn"), "did you mean 'megatron'"));
  CHECK(contains(refusal("xyzzy"),
                 "known trainers: accelerate, accelerate-deepspeed, axolotl, "
                 "axolotl-deepspeed, deepspeed, litgpt"));
  CHECK(contains(refusal("megatron@0.7"), "Megatron-Core 0.7 is not known"));
  CHECK(contains(refusal("megatron@0.7"), "0.8, 0.9, 0.10, 0.11"));
  CHECK(contains(refusal("megatron@new"), "'new' is not a version"));
  CHECK(contains(refusal("megatron@"), "not a version"));
  CHECK(contains(refusal(""), "unknown trainer ''"));
}

TEST_CASE("a trainer that no file describes is answered with what to ask for instead") {
  for (const char* name : {"verl", "OpenRLHF", "unsloth", "torchtune", "ms-swift", "verl@0.9"}) {
    const std::string text = refusal(name);
    CHECK_MESSAGE(contains(text, "no trainer that is known here"), name);
    CHECK_MESSAGE(!contains(text, "did you mean"), name);
  }
  CHECK(contains(refusal("verl"), "trains by reinforcement learning"));
  CHECK(contains(refusal("ms-swift"), "--trainer megatron-core"));
}

TEST_CASE("no trainer that a file describes is also said to be elsewhere") {
  for (const Trainer& trainer : shipped_trainers()) {
    for (const auto& [names, instead] : trainer.elsewhere) {
      for (const std::string_view name : split(names, '|')) {
        CHECK_MESSAGE(!pick_trainer(name, shipped_trainers()), name);
        CHECK_MESSAGE(name == lower_case(name), name);
      }
    }
  }
}

TEST_CASE("a rule with since and until only stays for those versions") {
  const std::string rules = R"({"rules": [
    {"id": "old", "require": "tp > 0", "reason": "", "hint": "", "source": "s", "until": "0.12",
     "trainers": ["megatron-core"]},
    {"id": "new", "require": "tp > 0", "reason": "", "hint": "", "source": "s", "since": "0.12.1"}
  ]})";
  auto copy = to_json(picked_trainer("megatron@0.12"));
  const std::vector<TrainerFile> files = {{"rules.json", rules}, {"m.json", to_text(copy)}};
  const auto trainers = read_trainers(files);
  REQUIRE_MESSAGE(trainers.has_value(), to_text(trainers.error()));
  const auto has = [&](std::string_view version, std::string_view id) {
    const auto trainer = pick_trainer(version, *trainers);
    REQUIRE(trainer.has_value());
    for (const Rule& rule : trainer->rules) {
      if (rule.id == id) return true;
    }
    return false;
  };
  CHECK(has("megatron@0.12", "old"));
  CHECK(has("megatron@0.12.7", "old"));
  CHECK(!has("megatron@0.12", "new"));
  CHECK(has("megatron@0.12.1", "new"));
}

TEST_CASE("a trainer written as JSON reads back to the same trainer") {
  for (const Trainer& trainer : shipped_trainers()) {
    const std::string text = to_text(to_json(trainer));
    const std::vector<TrainerFile> files = {{"again.json", text}};
    const auto again = read_trainers(files);
    REQUIRE_MESSAGE(again.has_value(), to_text(again.error()));
    CHECK(to_text(to_json(again->front())) == text);
  }
}

TEST_CASE("all faults of a file are reported at once, each with its place") {
  const std::string faults = faults_of({{"bad.json", R"({
  "name": "x", "title": "X",
  "versions": {"from": "0.2", "to": "zero"},
  "rank_order": {"order": "tp-xx", "source": "s"},
  "precisions": {"bf17": {}, "bf16": {"weight": "bf61", "master": "fp32", "gradients": [], "source": "s"}},
  "optimizers": {"adamw": {"states": ["fp32"], "source": " "}},
  "kernels": {"fused-rop": {"use": "by-default", "source": "s"}},
  "losses": {"a": {"use": "sometimes", "kept": -4, "split_by_tp": true, "source": "s"}},
  "settings": {"tpp": "--tp"},
  "kernals": {},
  "rules": [{"id": "r", "require": "tpp > 1", "reason": "{xx}", "hint": "", "source": "s"},
            {"id": "r", "require": "tp > ", "reason": "", "hint": "", "source": "s"}]
})"}});
  for (const char* part : {"'zero' is not a version",
                           "unknown name 'xx'",
                           "unknown name 'bf17'",
                           "unknown name 'bf61'",
                           "at least one gradient dtype",
                           "a fact needs a source",
                           "unknown name 'fused-rop'",
                           "did you mean 'fused-rope'",
                           "unknown name 'sometimes'",
                           "not a plausible number of bytes",
                           "unknown name 'tpp'",
                           "unknown field 'kernals'",
                           "unknown variable tpp",
                           "'{xx}' is not a variable",
                           "expected a number",
                           "a second rule 'r'",
                           "no schedules",
                           "no pipeline",
                           "bad.json:5 /precisions/bf16/weight",
                           "bad.json:12 /rules/1/require"}) {
    CHECK_MESSAGE(contains(faults, part), part << "\n" << faults);
  }
}

TEST_CASE("what only rows could tell can be read without them") {
  const std::string path = kShippedData + "/trainers/pytorch-2.json";
  std::vector<TrainerFile> files = {{path, read_file(path).value()}};
  std::string& text = files.back().text;
  const std::string before = "\"expandable_segments\": false";
  REQUIRE(contains(text, before));
  text.replace(text.find(before), before.size(),
               before + ", \"unlearned\": {\"expandable_segments\": true}");
  const auto taken = read_trainers(files), left = read_trainers(files, Learned::Left);
  REQUIRE_MESSAGE(taken.has_value(), to_text(taken.error()));
  REQUIRE(left.has_value());
  CHECK(!taken->front().allocator.expandable_segments);
  CHECK(left->front().allocator.expandable_segments);
  // Of the shipped files both readings are whole.
  CHECK(load_trainers(kShippedData, Learned::Left).has_value());
}

TEST_CASE("files that build on each other must exist and must not go in circles") {
  const std::string head = R"("name": "x", "versions": {"from": "1", "to": "1"})";
  CHECK(contains(faults_of({{"a.json", R"({"based_on": "b", )" + head + "}"}}),
                 "no file 'b.json' beside this one"));
  CHECK(contains(faults_of({{"a.json", R"({"based_on": "b", )" + head + "}"},
                            {"b.json", R"({"based_on": "a", )" + head + "}"}}),
                 "builds on itself"));
  CHECK(
      contains(faults_of({{"a.json", R"({"based_on": "a", )" + head + "}"}}), "builds on itself"));
}

TEST_CASE("two files must not hold for the same version, nor rules name unknown trainers") {
  const std::string text = to_text(to_json(picked_trainer("nanotron@0.4")));
  CHECK(
      contains(faults_of({{"a.json", text}, {"b.json", text}}), "two files hold for version 0.4"));
  const std::string rules = R"({"rules": [{"id": "r", "require": "1", "reason": "", "hint": "",
    "source": "s", "trainers": ["nanotrom"]}]})";
  CHECK(contains(faults_of({{"rules.json", rules}, {"a.json", text}}), "did you mean 'nanotron'"));
}

TEST_CASE("of a trainer's name only its own files are read to the end") {
  const std::string whole = to_text(to_json(picked_trainer("nanotron@0.4")));
  const std::string named = R"("name": "x", "title": "X", "versions": {"from": "1", "to": "1"})";
  const std::vector<TrainerFile> files = {{"a.json", whole}, {"b.json", "{" + named + "}"}};
  CHECK(!read_trainers(files).has_value());
  const auto called = read_trainers_called("Nanotron", files);
  REQUIRE(called.has_value());
  CHECK(called->size() == 1);
  CHECK(called->front().name == "nanotron");
  // Nobody is called so: whoever picks says which there are, and all must be whole.
  CHECK(!read_trainers_called("nobody", files).has_value());
  CHECK(!read_trainers_called("x", files).has_value());
  // Any file may hold the name, so that what is no JSON is a fault for all.
  const std::vector<TrainerFile> broken = {{"a.json", whole}, {"b.json", "{"}};
  CHECK(!read_trainers_called("nanotron", broken).has_value());
}

TEST_CASE("a trainer read alone is the one read with all others") {
  // By an alias, and built on files of other names.
  for (const std::string name : {"megatron", "sailor", "accelerate-deepspeed"}) {
    const auto alone = load_trainers_called(name, kShippedData);
    REQUIRE(alone.has_value());
    CHECK(alone->size() < shipped_trainers().size());
    for (const Trainer& trainer : *alone) {
      const std::string words = fmt::format("{}@{}", name, to_text(trainer.to));
      const auto picked = pick_trainer(words, *alone);
      CHECK(to_text(to_json(picked.value())) == to_text(to_json(picked_trainer(words))));
    }
  }
}

TEST_CASE("words tell which trainer they are about") {
  CHECK(trainer_called(" megatron@0.12") == "megatron");
  CHECK(trainer_called("megatron") == "megatron");
  CHECK(trainer_called(R"({"based_on": "nanotron @0.4", "flash": 2})") == "nanotron");
  CHECK(trainer_called(R"({"based_on": 4})").empty());
  CHECK(trainer_called("{").empty());
  CHECK(trainer_called("/nonexistent.json").empty());
}

TEST_CASE("a folder without trainers is a diagnostic") {
  const auto trainers = load_trainers("/nonexistent");
  REQUIRE(!trainers.has_value());
  CHECK(contains(to_text(trainers.error()), "no trainer files here"));
  CHECK(!find_trainer("megatron", "/nonexistent").has_value());
  CHECK(find_trainer("megatron", kShippedData).has_value());
}
