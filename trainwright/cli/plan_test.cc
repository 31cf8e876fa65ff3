#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "trainwright/cli/command_line.h"
#include "trainwright/testing/folder.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright::cli {
namespace {

Reply reply_to(const std::vector<std::string>& words) {
  static const DataDirectory data(kShippedData);
  return run_command_line(words, {.data = data});
}

Json json_of(const Reply& reply) {
  auto json = parse_json(reply.output, "reply");
  REQUIRE_MESSAGE(json.has_value(), reply.output);
  return *std::move(json);
}

const std::vector<std::string> kAsked = {
    "plan", "llama-3.1-8b", "--on",       "16xH100", "--batch", "64",  "--seq",
    "4096", "--trainer",    "torchtitan", "--json",  "--fix",   "pp=4"};

TEST_CASE("a file of what is run today says its trainer and its precision") {
  const Folder folder;
  std::ofstream(folder.path + "/run.sh")
      << "torchrun pretrain_gpt.py --micro-batch-size 1 --bf16 --fp8-format hybrid "
         "--fp8-param-gather --use-distributed-optimizer --grad-reduce-in-bf16";
  std::ofstream(folder.path + "/run.toml") << "[training]\nlocal_batch_size = 8\n";
  const auto answer = [&](const std::string& from) {
    return reply_to({"plan", "llama-3.1-8b", "--on", "8xH100", "--batch", "64", "--seq", "4096",
                     "--top", "1", "--json", "--from", from});
  };
  const Json megatron = json_of(answer(folder.path + "/run.sh"));
  CHECK(megatron.find("precision")->string == "fp8-delayed");
  CHECK(megatron.find("end")->string == "found");
  CHECK(json_of(answer(folder.path + "/run.toml")).find("trainer")->string == "torchtitan@0.2");
  // Without a file, fp8 is what the trainer's recipes for Hopper have.
  const Json words = json_of(answer("tp=2,zero=1,mbs=1,precision=fp8"));
  CHECK(words.find("precision")->string == "fp8-tensorwise");
  // What it does not say stands behind it.
  std::ofstream(folder.path + "/ds.json") << R"({"zero_optimization": {"stage": 3}})";
  CHECK(answer(folder.path + "/ds.json").error.find("--from " + folder.path + "/ds.json,mbs=1") !=
        std::string::npos);
  CHECK(json_of(answer(folder.path + "/ds.json,mbs=2")).find("trainer")->string ==
        "deepspeed@0.19.8");
}

TEST_CASE("where nothing fits, a plan says what would") {
  const auto plan = [](const char* on, const char* model, const char* seq, bool loss = true) {
    std::vector<std::string> words = {"plan",  model, "--on",      on,           "--batch", "64",
                                      "--seq", seq,   "--trainer", "accelerate", "--json"};
    if (!loss) words.insert(words.end(), {"--no", "loss"});
    return json_of(reply_to(words));
  };
  // Logits of 256,000 words for 34,816 tokens take 33 GiB in fp32, several times over.
  const Json logits = plan("16xA100-80GB", "gemma-2-9b", "34k", false);
  REQUIRE(logits.find("end")->string == "nothing-fits");
  CHECK(logits.find("change")->find("layout")->string.find("loss=liger") != std::string::npos);
  CHECK(plan("16xA100-80GB", "gemma-2-9b", "32k").find("end")->string == "found");
  // 16 bytes for each of 8 billion parameters, or 2 and adapters.
  const Json weights = plan("1xH100", "llama-3.1-8b", "4096");
  CHECK(weights.find("adapters")->find("job")->string == "optimizer=adamw,lora=16");
  CHECK(weights.find("adapters")->find("trainer") == nullptr);
  // Megatron-Core has no adapters; half a byte for each of 70 billion parameters is 33 GiB of 79.
  const Json other = json_of(reply_to(
      {"plan", "llama-3.1-70b", "--on", "1xH100", "--batch", "8", "--seq", "4096", "--json"}));
  CHECK(other.find("adapters")->find("job")->string == "optimizer=adamw,lora=16,base=nf4");
  CHECK(other.find("adapters")->find("trainer")->string == "accelerate");
}

TEST_CASE("a plan tells what it puts on the host, and when putting it there is faster") {
  const auto plan = [](std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    words.emplace_back("--json");
    return json_of(reply_to(words));
  };
  const Json host = plan({"llama-3.1-8b", "--on", "2xRTX-4090", "--batch", "16", "--seq", "4096",
                          "--trainer", "torchtitan"});
  // Weights, gradients and two states in fp32: 16 bytes for each of 8.03 billion, over 2 ranks,
  // less what is on its way.
  const auto bytes = host.find("host")->find("per_rank")->integer;
  CHECK(bytes > 58e9);
  CHECK(bytes < 16 * 8.04e9 / 2);
  // Weights in fp32 leave room for small micro-batches alone, and those gather weights more often.
  const Json both = plan({"llama-3.1-8b", "--on", "8xRTX-4090", "--batch", "256", "--seq", "4096",
                          "--trainer", "torchtitan"});
  const double best = both.find("best")->items[0].find("time")->find("step")->number;
  REQUIRE(both.find("with_offload") != nullptr);
  CHECK(both.find("with_offload")->find("step")->number < 0.9 * best);
}

TEST_CASE("where memory makes a plan slow, AdamW with states in fewer bits is told, not taken") {
  const auto plan = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"plan",    "llama-3.1-8b", "--on",  "2xH100",
                                      "--batch", "16",           "--seq", "4096"};
    words.insert(words.end(), {"--trainer", "accelerate", "--json"});
    words.insert(words.end(), more.begin(), more.end());
    return json_of(reply_to(words));
  };
  // 4 + 4 + 8 bytes for each of 8.03 billion parameters over 2 ranks leave 19 of 79 GiB, two states
  // of a byte each 42: nothing has to be offloaded.
  const Json adamw = plan({});
  const Json& first = adamw.find("best")->items[0];
  CHECK(first.find("layout")->string.find("offload=") != std::string::npos);
  const Json* lean = adamw.find("with_lean_states");
  REQUIRE(lean != nullptr);
  CHECK(lean->find("job")->string == "optimizer=adamw-8bit");
  CHECK(lean->find("layout")->string.find("offload=") == std::string::npos);
  CHECK(lean->find("step")->number < 0.95 * first.find("time")->find("step")->number);
  CHECK(plan({"--job", "optimizer=sgd"}).find("with_lean_states") == nullptr);
}

const File& file_of(const Reply& reply, std::string_view ending) {
  const auto found = std::find_if(reply.files.begin(), reply.files.end(),
                                  [&](const File& file) { return file.path.ends_with(ending); });
  REQUIRE(found != reply.files.end());
  return *found;
}

TEST_CASE(
    "fused kernels that a trainer runs only if asked are told, with a trainer that runs them") {
  const auto plan = [](const std::string& trainer, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"plan",   "llama-13b", "--on", "8xA100-80GB", "--batch",
                                      "256",    "--seq",     "2048", "--top",       "1",
                                      "--json", "--trainer", trainer};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(reply_to(words));
  };
  const auto names = [](const Json& answer) {
    std::string all;
    for (const Json& name : answer.find("with_kernels")->find("kernels")->items) {
      all += name.string + ' ';
    }
    return all;
  };
  // PaddleNLP 2.x has these behind flags of its own; its recipes have that of flash attention.
  const Json plain = plan("paddlenlp");
  CHECK(names(plain) == "fused-rope fused-norm fused-gradient-accumulation ");
  const Json* told = plain.find("with_kernels");
  CHECK(told->find("step")->number <
        plain.find("best")->items[0].find("time")->find("step")->number);
  const Json asked = plan(told->find("trainer")->string);
  CHECK(asked.find("best")->items[0].find("layout")->string == told->find("layout")->string);
  CHECK(asked.find("best")->items[0].find("time")->find("step")->number ==
        told->find("step")->number);
  CHECK(asked.find("with_kernels") == nullptr);
  // What the question has settled is not told again.
  CHECK(names(plan("paddlenlp", {"--attention", "flash"})).starts_with("fused-rope "));
  // Megatron-Core runs all of them unasked.
  CHECK(plan("megatron").find("with_kernels") == nullptr);
}

TEST_CASE("the order that a plan exports has the time and memory that the plan tells of it") {
  const Folder folder;
  // With 32 sequences and two stages an order of its own gains 0.2 %; with four none does.
  std::vector<std::string> words = {"plan",   "llama-3.1-8b", "--on", "16xH100",   "--batch",
                                    "32",     "--seq",        "4096", "--trainer", "torchtitan",
                                    "--json", "--fix",        "pp=2"};
  words.insert(words.end(), {"--auto-order", "--export", folder.path});
  const Reply reply = reply_to(words);
  REQUIRE(reply.exit == Exit::Ok);
  const Json plan = json_of(reply);
  const auto& orders = plan.find("auto")->items;
  REQUIRE_FALSE(orders.empty());
  CHECK(orders.size() <= 3);
  // The fastest of those that beat their layout's fixed schedule is written.
  const Json* fastest = nullptr;
  for (const Json& one : orders) {
    CHECK(one.find("oom")->number <= plan.find("risk")->number);
    CHECK(one.find("bound")->number <= one.find("step")->number);
    const bool less = one.find("step")->number < one.find("fixed_step")->number;
    CHECK(less == (one.find("gain")->number > 0));
    const std::size_t of = static_cast<std::size_t>(one.find("of")->integer);
    const double proven = plan.find("best")->items[of].find("time")->find("step")->number;
    CHECK(one.find("fixed_step")->number <= proven);
    if (less && (fastest == nullptr || one.find("step")->number < fastest->find("step")->number)) {
      fastest = &one;
    }
  }
  REQUIRE(fastest != nullptr);
  const File& order = file_of(reply, "/schedule.csv");
  std::ofstream(order.path) << order.content;
  const Json estimate = json_of(
      reply_to({"estimate", "llama-3.1-8b", "--on", "16xH100", "--trainer", "torchtitan",
                "--layout", fastest->find("layout")->string, "--schedule", order.path, "--json"}));
  CHECK(estimate.find("time")->find("step")->number == fastest->find("step")->number);
  const Json& memory = *estimate.find("memory");
  const auto worst = static_cast<std::size_t>(memory.find("worst")->integer);
  CHECK(memory.find("classes")->items[worst].find("driver")->integer ==
        fastest->find("driver")->integer);
  CHECK(memory.find("oom")->number == doctest::Approx(fastest->find("oom")->number).epsilon(1e-4));
  CHECK(file_of(reply, "/settings.sh").content.find("schedule_csv") != std::string::npos);
}

TEST_CASE("a plan of a model given as text names it, and the file that its commands ask for") {
  const std::string model =
      R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
          "num_hidden_layers": 32, "num_attention_heads": 32})";
  const Reply reply =
      reply_to({"plan", model, "--on", "16xH100", "--batch", "64", "--seq", "4096", "--top", "1",
                "--fix", "pp=1", "--fix", "cp=1", "--export", "nowhere", "--json", "--details"});
  REQUIRE_MESSAGE(reply.exit == Exit::Ok, reply.error);
  const Json plan = json_of(reply);
  const std::string name = "llama of 6.738 B parameters";
  CHECK(plan.find("model")->string == name);
  CHECK(plan.find("details")->find("title")->string.starts_with(name + " on 16xH100"));
  REQUIRE(plan.find("details")->find("commands")->items.size() == 3);
  for (const Json& one : plan.find("details")->find("commands")->items) {
    CHECK(one.find("does")->string.ends_with("with the model's config saved as config.json"));
    CHECK(one.find("command")->string.find(" config.json --on 16xH100") != std::string::npos);
  }
  const std::string settings = file_of(reply, "/settings.sh").content;
  CHECK(settings.find(name + " on 16xH100") != std::string::npos);
  CHECK(settings.find("with the model's config saved as config.json:\n#   trainwright estimate "
                      "config.json --on") != std::string::npos);
  CHECK(settings.find("what is known of " + name) != std::string::npos);
  CHECK(file_of(reply, "/sbatch.sh").content.find("--job-name=llama-of-6.738-B-parameters\n") !=
        std::string::npos);
}

TEST_CASE("without being asked a plan exports the recommended layout and no order") {
  std::vector<std::string> words = kAsked;
  words.insert(words.end(), {"--export", "nowhere"});
  const Reply reply = reply_to(words);
  CHECK(reply.exit == Exit::Ok);
  for (const File& file : reply.files) CHECK_FALSE(file.path.ends_with("schedule.csv"));
  words = kAsked;
  words.emplace_back("--auto-order");
  CHECK(reply_to(words).exit == Exit::BadInput);  // of no export
}

TEST_CASE("what a plan exports expects the time and memory that the plan was judged by") {
  const Reply reply = reply_to(
      {"plan", "mixtral-8x7b", "--on", "16xH100", "--batch", "64", "--seq", "4096", "--fix", "ep=8",
       "--fix", "pp=2", "--expert-load", "zipf:0.8", "--measured",
       "tp=1,pp=2,ep=8,zero=1,mbs=1,recompute=full:step=9s", "--export", "nowhere", "--json"});
  REQUIRE_MESSAGE(reply.exit == Exit::Ok, reply.error);
  const Json plan = json_of(reply);
  const auto chosen = static_cast<std::size_t>(plan.find("recommended")->integer);
  const Json& best = plan.find("best")->items[chosen];
  const auto written = parse_json(file_of(reply, "/plan.json").content, "plan.json");
  REQUIRE(written.has_value());
  const Json& expected = *written->find("expected");
  CHECK(expected.find("step_seconds")->number == best.find("time")->find("step")->number);
  CHECK(expected.find("oom")->number ==
        doctest::Approx(best.find("memory")->find("oom")->number).epsilon(1e-3));  // rounded there
  const std::string& again = written->find("command")->string;
  CHECK_MESSAGE(again.find("--expert-load zipf:0.8") != std::string::npos, again);
  CHECK_MESSAGE(again.find(":step=9s") != std::string::npos, again);
}

TEST_CASE("a run of one's own narrows the interval on accelerators whose vendor taught nothing") {
  const auto width = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"estimate",  "llama-3.1-8b", "--on",
                                      "8xMI300X",  "--layout",     "fsdp,mbs=1,gbs=64,seq=8192",
                                      "--trainer", "torchtitan",   "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Reply reply = reply_to(words);
    const Json json = json_of(reply);
    const Json& time = *json.find("time");
    return time.find("high")->number / time.find("low")->number;
  };
  CHECK(width({"--measured", "fsdp,mbs=1:step=12s"}) < 0.8 * width({}));
}

TEST_CASE("a plan tells in its JSON, too, what export would refuse") {
  std::vector<std::string> words = kAsked;
  CHECK(json_of(reply_to(words)).find("cannot_be_said") == nullptr);
  // torchtitan 0.3 has float8 in Python alone.
  words.insert(words.end(), {"--precision", "fp8"});
  const Json plan = json_of(reply_to(words));
  REQUIRE(plan.find("cannot_be_said") != nullptr);
  CHECK(plan.find("cannot_be_said")->items.front().find("what")->string == "precision=fp8-rowwise");
}

TEST_CASE("where an odd factor of the accelerators does not divide the batch, others are told") {
  const Reply reply = reply_to(
      {"plan", "llama-3.1-8b", "--on", "40xH100", "--batch", "64", "--seq", "4096", "--json"});
  const Json plan = json_of(reply);
  CHECK(plan.find("end")->string == "found");  // the factor of 5 as pipeline ranks
  REQUIRE(plan.find("nearby_batches") != nullptr);
  for (const Json& other : plan.find("nearby_batches")->items) {
    CHECK(other.find("batch")->integer % 5 == 0);
  }
}

TEST_CASE("a batch that grows is planned with one layout that each of its stages can run") {
  const Json plan =
      json_of(reply_to({"plan", "llama-3.1-8b", "--on", "16xH100", "--batch", "24-96", "--seq",
                        "4096", "--tokens", "100B", "--ramp-tokens", "20B", "--json"}));
  CHECK(plan.find("batch")->integer == 96);
  const std::vector<Json>& stages = plan.find("ramp")->items;
  REQUIRE(stages.size() == 3);  // 24, 48, 96
  CHECK(stages[0].find("batch")->integer == 24);
  // 10B tokens at the rate of each of the first two, 80B at that of the last.
  for (const auto& [stage, tokens] : {std::pair(0, 10e9), std::pair(1, 10e9), std::pair(2, 80e9)}) {
    const Json& of = stages[static_cast<std::size_t>(stage)];
    CHECK(of.find("days")->number ==
          doctest::Approx(tokens / of.find("tokens_per_second")->number / 86400));
  }
  for (const Json& row : plan.find("best")->items) {
    CHECK(row.find("layout")->string.find("gbs=96") != std::string::npos);
  }
  CHECK(reply_to({"plan", "llama-3.1-8b", "--on", "16xH100", "--batch", "96", "--seq", "4096",
                  "--ramp-tokens", "20B"})
            .exit == Exit::BadInput);
}

TEST_CASE("a limit that no layout meets is answered with the values that there are") {
  const Reply reply = reply_to({"plan", "llama-3.1-8b", "--on", "16xH100", "--batch", "64", "--seq",
                                "4096", "--fix", "tp=3"});
  CHECK(reply.output.find("tp may be 1, 2, 4 or 8.") != std::string::npos);
}

}  // namespace
}  // namespace trainwright::cli
