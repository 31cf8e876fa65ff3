#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "trainwright/measured/measured.h"
#include "trainwright/measured/times.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/skip.h"

namespace trainwright {
namespace {

const Knowledge& knowledge() {
  static const Knowledge known = [] {
    auto loaded = load_knowledge(kShippedData);
    REQUIRE_MESSAGE(loaded.has_value(), to_text(loaded.error()));
    return *std::move(loaded);
  }();
  return known;
}

// With s = 6 h and V = 12 h L the three parts of Megatron's count are equal: 72 L h^2 each.
MeasuredRun run_of_eight() {
  MeasuredRun run;
  run.layers = 10;
  run.hidden = 1000;
  run.vocab = 120000;
  run.seq_len = 6000;
  run.global_batch = 4;
  run.gpus = 8;
  run.recompute = "none";
  return run;
}

TEST_CASE("a printed step time goes before all rates") {
  MeasuredRun run = run_of_eight();
  run.step_time = Seconds(2);
  run.tokens_per_s_per_gpu = 1;
  const auto took = detail::step_time_of(run, {});
  REQUIRE(took.has_value());
  CHECK(took->time == Seconds(2));
  CHECK(took->note.empty());
}

TEST_CASE("a step takes its tokens over the tokens/s of all accelerators") {
  MeasuredRun run = run_of_eight();
  run.tokens_per_s_per_gpu = 1500;
  const auto took = detail::step_time_of(run, {});
  REQUIRE(took.has_value());
  CHECK(took->time.value() == doctest::Approx(2));  // 24,000 tokens at 12,000/s
  CHECK(took->note.find("tokens/s") != std::string::npos);
  run.outcome = Outcome::Oom;
  CHECK_FALSE(detail::step_time_of(run, {}).has_value());
}

TEST_CASE("a step takes its FLOPs, as its source counts them, over the FLOP/s of all") {
  MeasuredRun run = run_of_eight();
  // 24,000 tokens x 3 x 72 x 10 x 10^6 FLOP.
  CHECK(detail::flops_of_step("megatron", run) == doctest::Approx(5.184e13));
  run.mfu_pct = 50;
  const auto took = detail::step_time_of(run, {.by = "megatron", .peak = 324});
  REQUIRE(took.has_value());
  CHECK(took->time.value() == doctest::Approx(0.04));  // 8 x 162 TFLOP/s
  CHECK(took->note.find("share of peak") != std::string::npos);
  CHECK_FALSE(detail::step_time_of(run, {.by = "megatron"}).has_value());
  run.tflops_per_gpu = 81;
  CHECK(detail::step_time_of(run, {.by = "megatron"})->time.value() == doctest::Approx(0.08));
  // Recompute adds a forward pass of the layers: 4/3 of two of the three parts.
  run.recompute = "full";
  CHECK(detail::flops_of_step("megatron", run) == doctest::Approx(5.184e13 * (8.0 / 3 + 1) / 3));
  run.vocab.reset();
  CHECK_FALSE(detail::step_time_of(run, {.by = "megatron"}).has_value());
}

TEST_CASE("the rounds of MLPerf are the folds of one source") {
  MeasuredRun run;
  run.source = "mlperf_v5.0";
  run.model_name = "llama31_405b";
  run.layers = 126;
  run.hidden = 16384;
  run.ffn_hidden = 53248;
  run.heads = 128;
  run.kv_heads = 8;
  run.vocab = 128256;
  run.seq_len = 8192;
  run.accelerator = "NVIDIA H100-SXM5-80GB";
  run.gpus = 512;
  run.precision = "fp8";
  run.global_batch = 1152;
  run.micro_batch = 1;
  run.dp = 4;
  run.tp = run.pp = run.vpp = 8;
  run.cp = 2;
  run.sequence_parallel = 1;
  run.step_time = Seconds(55.1);
  run.notes = "TP_COMM_OVERLAP=True; ASYM_PP_EMBED=True; ASYM_PP_LOSS=True; FP8_PARAMS=True; end";
  const Cases cases = cases_of(std::span(&run, 1), knowledge());
  REQUIRE_MESSAGE(cases.cases.size() == 1,
                  (cases.skipped.empty() ? "" : cases.skipped.front().reason));
  const Case& made = cases.cases.front();
  CHECK(made.source == "mlperf");
  CHECK(made.fold == "mlperf_v5.0");
  CHECK(made.pool == "vendor-dense");
  CHECK(made.layout.on.has(Switch::Graphs));
  CHECK(made.step_time == Seconds(55.1));
  CHECK_FALSE(made.no_memory.empty());
  CHECK(made.layout.on.has(Switch::OverlapTp));
  CHECK(made.layout.on.has(Switch::Fp8ParameterGather));
  // 126 layers and both ends are two to each of 64 stages.
  CHECK(made.layout.count_embedding + made.layout.count_loss == 2);
  const auto known = known_sources(knowledge()), memory = memory_sources(knowledge());
  CHECK(std::count(known.begin(), known.end(), "mlperf") == 1);
  CHECK(std::count(memory.begin(), memory.end(), "mlperf") == 0);
  CHECK(std::count(memory.begin(), memory.end(), "flagperf") == 1);
}

TEST_CASE("a pattern tells which names are rows of a source, its own name goes first") {
  const Sources sources = {{"mine", {.rows = "mine_*", .rules = {}}}, {"mine_old", {}}};
  const auto of = [&](const char* name) {
    MeasuredRun run;
    run.source = name;
    const auto found = source_of(run, sources);
    return found == sources.end() ? "" : found->first;
  };
  CHECK(of("mine") == "mine");
  CHECK(of("mine_new") == "mine");
  CHECK(of("mine_old") == "mine_old");
  CHECK(of("yours").empty());
}

TEST_CASE("faults of flops are told like those of any rule") {
  const auto data = std::filesystem::temp_directory_path() / "trainwright_time_rules";
  std::filesystem::create_directories(data / "sources");
  std::ofstream(data / "sources" / "shapes.json") << "{}";
  std::ofstream(data / "sources" / "mine.json") << R"({"source": "mine", "rules": [
    {"flops": {"by": "megatrom", "peek": 312}}]})";
  const auto sources = load_sources(data.string());
  REQUIRE_FALSE(sources.has_value());
  const std::string text = to_text(sources.error());
  for (const char* part : {"'megatrom' is not known", "peek"}) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
}

// What follows needs the published tables.
const std::pair<std::vector<MeasuredRun>, Cases>* published() {
  const auto path = testing::shared_path("measurements");
  if (!path) return nullptr;
  static const std::pair<std::vector<MeasuredRun>, Cases> all = [&] {
    auto runs = read_measured_runs(*path);
    REQUIRE_MESSAGE(runs.has_value(), to_text(runs.error()));
    Cases cases = cases_of(*runs, knowledge());
    return std::pair(*std::move(runs), std::move(cases));
  }();
  return &all;
}

TEST_CASE("every published step time becomes a case or says why not") {
  const auto* all = published();
  if (all == nullptr) return;
  std::map<std::string, int> timed, apart;
  for (const Case& c : all->second.cases) {
    if (!c.step_time) continue;
    CHECK(c.step_time->value() > 0);
    CHECK_FALSE(c.time_fold.empty());
    CHECK_FALSE(c.pool.empty());
    CHECK(parse_layout(c.words.layout).has_value());
    ++timed[c.source];
    apart[c.source] += c.broken.empty() && c.time_broken.empty() ? 0 : 1;
  }
  CHECK(timed == std::map<std::string, int>{
                     {"aleph-alpha-2023", 401},
                     {"bigscience_bloom_prequel", 114},  // 24 lack layers or heads
                     {"dgxc_benchmarking", 272},         // 7 hybrids, 8 of Llama 4
                     {"flagperf", 46},                   // 7 of models without dimensions
                     {"internevo", 54},
                     {"korthikanti2022", 8},
                     {"llm_foundry", 300},
                     {"megatron_bridge", 227},  // 53 hybrids, 2 without dimensions
                     {"megatron_golden", 489},
                     {"mlperf", 72},  // one without trainer and precision
                     {"nanotron_playbook", 1758},
                     {"nemo_24_07", 15},
                     {"sailor", 27},
                     {"simumax_b200", 44},
                     {"torchtitan", 43},
                     {"vocab_parallel", 162},
                     {"vocab_parallel_artifact", 40},
                     {"vtrain_multi", 109},
                     {"vtrain_single", 1440},
                     {"zero_bubble", 131},
                 });
  CHECK(apart["nanotron_playbook"] == 453);  // the list of runs set apart
  CHECK(apart["vtrain_single"] == 116);      // of four cells that are not monotone
  CHECK(apart["vtrain_multi"] == 6);
}

TEST_CASE("vendors' rows are 384 dense ones whose precision is known, and 189 with experts") {
  const auto* all = published();
  if (all == nullptr) return;
  std::map<std::string, int> rows, guessed;
  for (const Case& c : all->second.cases) {
    ++rows[c.pool];
    guessed[c.pool] += c.undetermined == "precision" ? 1 : 0;
  }
  CHECK(rows["vendor-dense"] - guessed["vendor-dense"] == 384);
  CHECK(rows["vendor-moe"] == 189);
  CHECK(guessed["vendor-moe"] == 0);
}

TEST_CASE("a source's rates and times agree where it prints both") {
  const auto* all = published();
  if (all == nullptr) return;
  int both = 0;
  for (const MeasuredRun& run : all->first) {
    if (run.source != "dgxc_benchmarking" || run.notes.find("WARNING") != std::string::npos) {
      continue;
    }
    MeasuredRun rate = run;
    rate.step_time.reset();
    const auto took = detail::step_time_of(rate, {});
    if (!took || !run.step_time) continue;
    ++both;
    // Times are printed to three digits.
    CHECK(took->time.value() == doctest::Approx(run.step_time->value()).epsilon(0.02));
  }
  CHECK(both > 200);
}

}  // namespace
}  // namespace trainwright
