#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "trainwright/base/text.h"
#include "trainwright/measured/measured.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/skip.h"

namespace trainwright {
namespace {

using namespace literals;

const Knowledge& knowledge() {
  static const Knowledge known = [] {
    auto loaded = load_knowledge(kShippedData);
    REQUIRE_MESSAGE(loaded.has_value(), to_text(loaded.error()));
    return *std::move(loaded);
  }();
  return known;
}

Cases one(const MeasuredRun& run) { return cases_of(std::span(&run, 1), knowledge()); }
Case only(const Cases& cases) {
  REQUIRE_MESSAGE(cases.cases.size() == 1,
                  (cases.skipped.empty() ? "" : cases.skipped.front().reason));
  return cases.cases.front();
}

MeasuredRun aleph_alpha_run() {
  MeasuredRun run;
  run.source = "aleph-alpha-2023";
  run.source_ref = "llama_65B_bfloat16_64_GPUs_sequence_parallelism.xlsx#1";
  run.model_name = "llama-65B";
  run.layers = 80;
  run.hidden = 8192;
  run.ffn_hidden = 22016;
  run.heads = run.kv_heads = 64;
  run.head_dim = 128;
  run.vocab = 128000;
  run.seq_len = 2048;
  run.gpus = 64;
  run.precision = "bf16";
  run.global_batch = 2048;
  run.micro_batch = 4;
  run.dp = 4;
  run.tp = 8;
  run.pp = 2;
  run.sequence_parallel = 0;
  run.zero_stage = 1;
  run.recompute = "full";
  run.attention_kernel = "flash2";
  run.notes = "fused RMSNorm kernel";
  return run;
}

TEST_CASE("a row of Aleph Alpha's sweep becomes a model, a cluster, a trainer and a layout") {
  const Cases cases = one(aleph_alpha_run());
  const Case made = only(cases);
  CHECK(to_text(made.layout) ==
        "tp=8,pp=2,dp=4,sp,zero=1,mbs=4,gbs=2048,seq=2048,recompute=full,count_embedding=1,"
        "count_loss=2");
  CHECK(accelerator_count(cases.cluster_of(made)) == 64);
  CHECK(made.fold == "llama_65B_bfloat16_64_GPUs_sequence_parallelism.xlsx");
  CHECK(made.capacity == cases.cluster_of(made).groups[0].accelerator.memory_visible);
  const Trainer& trainer = cases.trainer_of(made);
  CHECK(trainer.name == "aa-scaling");
  CHECK(find_kernel(trainer, KernelKind::FlashAttention)->use == Use::Always);
  CHECK(find_kernel(trainer, KernelKind::FusedNorm)->use == Use::Always);
  CHECK(find_kernel(trainer, KernelKind::FusedSoftmax)->use == Use::Never);
}

TEST_CASE("the three mislabelled rows are read with sequence parallelism, and say so") {
  MeasuredRun run = aleph_alpha_run();
  const Case corrected = only(one(run));
  CHECK(corrected.layout.sp);
  CHECK(corrected.corrections.size() == 1);
  run.micro_batch = 2;
  const Case plain = only(one(run));
  CHECK_FALSE(plain.layout.sp);
  CHECK(plain.corrections.empty());
}

TEST_CASE("a row that never ran is skipped with its reason") {
  MeasuredRun run = aleph_alpha_run();
  run.outcome = Outcome::KernelUnavailable;
  CHECK(one(run).skipped.at(0).reason.find("never ran") != std::string::npos);
  run.outcome = Outcome::Oom;
  run.tp = 0;
  CHECK(one(run).skipped.at(0).reason == "tp 0 is out of bounds");
  run.tp = 8;
  run.vocab.reset();
  CHECK(one(run).skipped.at(0).reason == "the source does not say: vocab");
  run.source = "my-cluster";
  CHECK(one(run).skipped.at(0).reason == "no case is made of this source");
}

MeasuredRun nanotron_run(std::int64_t pp) {
  MeasuredRun run;
  run.source = "nanotron_playbook";
  run.model_name = "llama-8B";
  run.layers = 32;
  run.hidden = 4096;
  run.ffn_hidden = 14336;
  run.heads = run.kv_heads = 32;
  run.vocab = 131072;
  run.seq_len = 4096;
  run.gpus = 8 * pp;
  run.global_batch = 256;
  run.micro_batch = run.dp = 1;
  run.tp = 8;
  run.pp = pp;
  run.sequence_parallel = 1;
  run.precision = "bf16";
  run.peak_mem_gb = 22.5;
  return run;
}

TEST_CASE("nanotron cuts by cost, so the first rank holds more than its share of layers") {
  // A layer costs 4 h^2 + 3 h f = 243.3M, the head V h = 536.9M = 2.21 layers. Of 34.21 the first
  // of two ranks takes layers until it has more than 17.10: 18.
  const Case two = only(one(nanotron_run(2)));
  CHECK(two.layout.layers == std::vector<std::int64_t>{18, 14});
  // Of four: 8.55, 17.10, 25.66 are exceeded after 9, 18 and 26 layers.
  CHECK(only(one(nanotron_run(4))).layout.layers == std::vector<std::int64_t>{9, 9, 8, 6});
  CHECK(only(one(nanotron_run(1))).layout.layers.empty());
  CHECK(two.memory == std::vector<MemoryReading>{{MemoryKind::Reserved, ReadAt::Rank, 0,
                                                  Bytes(24159191040), Bytes(53687091)}});
  // The head of the 1B model costs as much as four of its 16 layers: half of it is 10 layers, which
  // with the embedding are the 940M parameters that the sweep's table gives its first rank.
  MeasuredRun small = nanotron_run(2);
  small.layers = 16;
  small.hidden = 2048;
  small.ffn_hidden = 8192;
  CHECK(only(one(small)).layout.layers == std::vector<std::int64_t>{10, 6});
}

TEST_CASE("a failure of nanotron with a rank that holds nothing is read as a crash") {
  // 64 ranks take 0.53 layers each, so 32 layers and the last blocks fill 36 of them.
  MeasuredRun run = nanotron_run(64);
  run.outcome = Outcome::OomOrCrash;
  const Case crashed = only(one(run));
  CHECK(crashed.outcome == Outcome::CrashLikely);
  CHECK(crashed.corrections.size() == 1);
  run = nanotron_run(8);
  run.outcome = Outcome::OomOrCrash;
  CHECK(only(one(run)).outcome == Outcome::OomOrCrash);
}

MeasuredRun vocabulary_run(std::int64_t vocabulary) {
  MeasuredRun run;
  run.source = "vocab_parallel";
  run.model_name = "GPT-~4B";
  run.layers = 32;
  run.hidden = 3072;
  run.ffn_hidden = 12288;
  run.heads = 24;
  run.vocab = vocabulary;
  run.seq_len = 2048;
  run.gpus = run.pp = 8;
  run.global_batch = 128;
  run.micro_batch = 1;
  run.schedule = "1f1b+redis";
  run.peak_mem_gb = 25.64;
  return run;
}

TEST_CASE("redistributed layers are those of the artifact of Vocabulary Parallelism") {
  // artifact/exp_one_host.csv: forward FLOPs of the eight stages over 65.97 TFLOP a layer.
  using Counts = std::vector<std::int64_t>;
  CHECK(only(one(vocabulary_run(256000))).layout.layers == Counts{4, 4, 4, 5, 5, 5, 5, 0});
  CHECK(only(one(vocabulary_run(128000))).layout.layers == Counts{4, 4, 4, 4, 4, 5, 5, 2});
  CHECK(only(one(vocabulary_run(64000))).layout.layers == Counts{4, 4, 4, 4, 4, 4, 5, 3});
  const Case made = only(one(vocabulary_run(256000)));
  // 26256.83 MiB in the artifact; printed to 0.01 GiB.
  REQUIRE(made.memory.size() == 1);
  CHECK(made.memory[0].kind == MemoryKind::Allocated);
  const double miss = 26256.83 * (1 << 20) - static_cast<double>(made.memory[0].size.value());
  CHECK(std::abs(miss) <= static_cast<double>(made.memory[0].rounding.value()));
}

TEST_CASE("the stages of a Paddle row have one reading each") {
  MeasuredRun run;
  run.source = "flagperf";
  run.framework = "PaddleNLP (paddle 2.5.1)";
  run.model_name = "LLaMA-7B";
  run.layers = 32;
  run.hidden = 4096;
  run.ffn_hidden = 11008;
  run.heads = 32;
  run.vocab = 32000;
  run.seq_len = 2048;
  run.accelerator = "A100-40GB-SXM";
  run.gpus = 8;
  run.tp = 2;
  run.pp = 4;
  run.micro_batch = 2;
  run.global_batch = 2048;
  run.notes =
      "accumulate=1024; printed memory per GPU group: 20.41\\*2 + 19.80\\*2 + 19.41\\*2 + "
      "20.12\\*2 GB; printed throughput: 8";
  const Cases cases = one(run);
  const Case made = only(cases);
  REQUIRE(made.memory.size() == 4);
  CHECK(made.memory[3].at == ReadAt::PipelineRank);
  CHECK(made.memory[3].index == 3);
  CHECK(made.memory[3].size / 1_GiB == doctest::Approx(20.12));
  CHECK(find_kernel(cases.trainer_of(made), KernelKind::FusedNorm)->use == Use::Never);
  run.framework = "Megatron-LM";
  const Case other = only(one(run));
  CHECK(other.memory.empty());
  CHECK(other.no_memory == "only the Paddle rows are scored");
}

// What follows needs the published tables.
struct Published {
  std::vector<MeasuredRun> runs;
  Cases cases;
};
const Published* published() {
  const auto path = testing::shared_path("measurements");
  if (!path) return nullptr;
  static const Published all = [&] {
    auto runs = read_measured_runs(*path);
    REQUIRE_MESSAGE(runs.has_value(), to_text(runs.error()));
    Cases cases = cases_of(*runs, knowledge());
    return Published{*std::move(runs), std::move(cases)};
  }();
  return &all;
}

TEST_CASE("every run of a scored source becomes a case or says why not") {
  const Published* all = published();
  if (all == nullptr) return;
  std::map<std::string, std::map<std::string, int>> skipped;
  std::map<std::string, int> made;
  for (const Case& c : all->cases.cases) ++made[c.source];
  for (const SkippedRun& run : all->cases.skipped) ++skipped[run.source][run.reason];
  CHECK(all->cases.cases.size() + all->cases.skipped.size() == all->runs.size());
  // accuracy.md, section 2: 964 verdicts.
  CHECK(made["aleph-alpha-2023"] == 964);
  CHECK(made["nanotron_playbook"] == 3306);
  CHECK(made["simumax_b200"] == 44);
  CHECK(made["zero_bubble"] == 131);
  CHECK(made["vocab_parallel"] == 168);
  CHECK(made["vocab_parallel_artifact"] == 40);
  CHECK(made["korthikanti2022"] == 9);
  CHECK(made["flagperf"] == 47);  // 20 with Paddle, whose memory is scored
  CHECK(made["zbh1_3090"] == 2);
  CHECK(made["sailor"] == 27);  // 15 of OPT, 12 of GPT-Neo; nine mix accelerators
  CHECK(made["bigscience_bloom_prequel"] == 120);
  CHECK(skipped["bigscience_bloom_prequel"]["the source does not say: layers"] == 13);
  CHECK(made["megatron_golden"] == 492);
  CHECK(skipped["megatron_golden"]["the number of GPUs is not public"] == 115);
  for (const SkippedRun& run : all->cases.skipped) CHECK_FALSE(run.reason.empty());
}

TEST_CASE("what really ran is legal, except rows that are broken in their source") {
  const Published* all = published();
  if (all == nullptr) return;
  std::map<std::string, int> ran;
  std::set<std::string> forbidden;
  for (const Case& c : all->cases.cases) {
    if (c.outcome != Outcome::Ok) continue;
    ++ran[c.source];
    for (const LayoutViolation& violation :
         violations(c.layout, c.job, all->cases.model_of(c), all->cases.cluster_of(c),
                    all->cases.trainer_of(c))) {
      if (violation.severity == Severity::Advice) continue;
      forbidden.insert(c.source + " " + violation.id + (c.broken.empty() ? "" : " broken"));
    }
  }
  CAPTURE(join(std::vector(forbidden.begin(), forbidden.end()), "; "));
  CHECK(forbidden == std::set<std::string>{"bigscience_bloom_prequel world-splits broken",
                                           "megatron_bridge expert-ranks-split broken",
                                           "megatron_bridge expert-world-splits broken",
                                           "megatron_golden batch-splits broken"});
  CHECK(ran["aleph-alpha-2023"] == 401);
  CHECK(ran["nanotron_playbook"] == 1758);
}

TEST_CASE("known faults of the sources are listed with the rows they touch") {
  const Published* all = published();
  if (all == nullptr) return;
  std::map<std::string, int> corrected;
  std::map<std::string, int> broken;
  for (const Case& c : all->cases.cases) {
    corrected[c.source] += c.corrections.empty() ? 0 : 1;
    broken[c.source] += c.broken.empty() ? 0 : 1;
  }
  CHECK(corrected["aleph-alpha-2023"] == 3);
  CHECK(corrected["nanotron_playbook"] == 175);
  CHECK(broken["nanotron_playbook"] == 26);
  CHECK(broken["bigscience_bloom_prequel"] == 1);
  CHECK(broken["sailor"] == 2);
}

TEST_CASE("the readings are those the bars speak of") {
  const Published* all = published();
  if (all == nullptr) return;
  std::map<std::string, std::map<std::string_view, int>> readings;
  for (const Case& c : all->cases.cases) {
    for (const MemoryReading& reading : c.memory) {
      ++readings[c.source][name_of(reading.kind)];
      CHECK(reading.size.value() > 0);
      // A reading of a rank that ran lies below what the accelerator has.
      CHECK(reading.size < c.capacity + reading.rounding + 1_GiB);
    }
  }
  CHECK(readings["simumax_b200"]["allocated"] == 344);
  CHECK(readings["simumax_b200"]["reserved"] == 344);
  CHECK(readings["nanotron_playbook"]["reserved"] == 1758);
  CHECK(readings["vocab_parallel"]["allocated"] == 162);
  CHECK(readings["zero_bubble"]["allocated"] == 118);
  CHECK(readings["flagperf"]["driver"] == 35);
  CHECK(readings["sailor"]["driver"] == 27);
  CHECK(readings["zbh1_3090"]["allocated"] == 8);
}

TEST_CASE("models from columns have the parameters of the zoo") {
  const Published* all = published();
  if (all == nullptr) return;
  const auto zoo = [&](const std::string& name) {
    const auto model = find_model(name, kShippedData);
    REQUIRE_MESSAGE(model.has_value(), name);
    return parameters(*model);
  };
  const auto from_rows = [&](std::string_view source, std::string_view name) {
    for (const Case& c : all->cases.cases) {
      const Model& model = all->cases.model_of(c);
      if (c.source == source && model.name == name) return parameters(model);
    }
    FAIL("no case of " << name);
    return Parameters{};
  };
  CHECK(from_rows("aleph-alpha-2023", "llama-13B") == zoo("aleph-alpha-13b"));
  CHECK(from_rows("aleph-alpha-2023", "llama-65B") == zoo("aleph-alpha-65b"));
  CHECK(from_rows("nanotron_playbook", "llama-1B") == zoo("nanotron-1b"));
  CHECK(from_rows("nanotron_playbook", "llama-8B") == zoo("nanotron-8b"));
  CHECK(from_rows("zero_bubble", "GPT-6.2B") == zoo("zero-bubble-6.2b"));
  CHECK(from_rows("korthikanti2022", "GPT-22B") == zoo("megatron-22b"));
  CHECK(from_rows("flagperf", "LLaMA-7B") == zoo("llama-7b"));
}

TEST_CASE("cases share what is equal") {
  const Published* all = published();
  if (all == nullptr) return;
  CHECK(all->cases.trainers.size() < 50);
  CHECK(all->cases.clusters.size() < 150);
  CHECK(all->cases.models.size() < 500);
}

}  // namespace
}  // namespace trainwright
