#include "trainwright/measured/run.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "trainwright/base/csv.h"
#include "trainwright/measured/measured.h"
#include "trainwright/testing/growth.h"
#include "trainwright/testing/skip.h"

namespace trainwright {
namespace {

using namespace literals;

const std::string kHeader =
    "source,source_ref,model_name,params_b,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,vocab,"
    "seq_len,moe_experts,moe_topk,accelerator,gpus,gpus_per_node,inter_node_net,intra_node_net,"
    "precision,global_batch,micro_batch,dp,tp,pp,vpp,cp,ep,sequence_parallel,zero_stage,recompute,"
    "attention_kernel,schedule,framework,step_time_s,tokens_per_s_per_gpu,tflops_per_gpu,mfu_pct,"
    "peak_mem_gb,outcome,notes\n";
const std::string kRow =
    "mine,place,tiny,1.5,4,256,1024,4,4,64,32000,512,,,H100,8,8,,,bf16,32,1,8,1,1,1,1,1,0,1,none,"
    "flash,,trainer,0.5,,,41.5,12.5,ok,\"a, \"\"quoted\"\" note\"\n";

std::vector<std::string> whats(const Error& error) {
  std::vector<std::string> list;
  for (const Diagnostic& diagnostic : error.diagnostics) {
    list.push_back(diagnostic.where + ": " + diagnostic.what);
  }
  return list;
}

TEST_CASE("a row is read cell by cell, empty cells stay unknown") {
  const auto runs = parse_measured_runs(kHeader + kRow, "t.csv");
  REQUIRE(runs.has_value());
  REQUIRE(runs->size() == 1);
  const MeasuredRun& run = runs->front();
  CHECK(run.source == "mine");
  CHECK(run.params_b == 1.5);
  CHECK(run.layers == 4);
  CHECK(run.vocab == 32000);
  CHECK_FALSE(run.moe_experts.has_value());
  CHECK(run.step_time == Seconds(0.5));
  CHECK(run.peak_mem_gb == 12.5);
  CHECK(run.outcome == Outcome::Ok);
  CHECK(run.notes == "a, \"quoted\" note");
  CHECK(run.origin == "t.csv:2");
}

TEST_CASE("a list beside the tables sets runs of nanotron apart by their line") {
  const auto root = std::filesystem::temp_directory_path() / "trainwright_set_apart";
  std::filesystem::create_directories(root / "measurements");
  std::filesystem::create_directories(root / "reference");
  std::string row = kRow;
  row.replace(0, 4, "nanotron_playbook");
  row.replace(row.find("0.5,,"), 5, ",485,");
  std::ofstream(root / "measurements" / "nanotron_playbook.csv") << kHeader << row << row;
  const auto read_with = [&](const std::string& line) {
    std::ofstream(root / "reference" / "nanotron_set_apart.csv")
        << "line,model_name,gpus,dp,tp,pp,micro_batch,zero_stage,tokens_per_s_per_gpu,why\n"
        << line;
    return read_measured_runs((root / "measurements").string());
  };
  const auto runs = read_with("3,tiny,8,8,1,1,1,1,485.0,\"stalled, it seems\"\n");
  REQUIRE_MESSAGE(runs.has_value(), to_text(runs.error()));
  REQUIRE(runs->size() == 2);
  CHECK(runs->at(0).set_apart.empty());
  CHECK(runs->at(1).set_apart == "stalled, it seems");
  const auto other = read_with("3,tiny,8,8,1,1,1,1,486.0,stalled\n");
  REQUIRE_FALSE(other.has_value());
  CHECK(whats(other.error()) ==
        std::vector<std::string>{
            "nanotron_set_apart.csv:2: sets apart a run that is not in the tables: "
            "nanotron_playbook.csv:3"});
}

TEST_CASE("columns may stand in any order") {
  const auto runs = parse_measured_runs(
      "# a comment\ncard,schedule,max_memory_reserved_mb,max_memory_allocated_mb\n"
      "0,1F1B,20,10\n1,1F1B,40,30\n0,ZBH1,2,1\n",
      "cards.csv");
  REQUIRE(runs.has_value());
  REQUIRE(runs->size() == 2);
  CHECK(runs->at(0).schedule == "1F1B");
  CHECK(runs->at(0).ranks == std::vector<RankMemory>{{0, 10_MiB, 20_MiB}, {1, 30_MiB, 40_MiB}});
  CHECK(runs->at(1).ranks == std::vector<RankMemory>{{0, 1_MiB, 2_MiB}});
}

TEST_CASE("all faults of a table are reported at once, with line and column") {
  std::string bad = kRow;
  bad.replace(bad.find(",4,256,"), 7, ",four,-256,");
  bad.replace(bad.find(",ok,"), 4, ",oomm,");
  const auto runs = parse_measured_runs(kHeader + bad + "too,few\n" + kRow, "t.csv");
  REQUIRE_FALSE(runs.has_value());
  CHECK(whats(runs.error()) ==
        std::vector<std::string>{"t.csv:2 layers: 'four' is not a whole number from 0",
                                 "t.csv:2 hidden: '-256' is not a whole number from 0",
                                 "t.csv:2 outcome: 'oomm' is not an outcome",
                                 "t.csv:3: 2 cells under 41 columns"});
  CHECK(runs.error().diagnostics[2].hint.find("'oom'") != std::string::npos);
}

TEST_CASE("a misspelt, a repeated and a missing column are faults of the header") {
  std::string header = kHeader;
  header.replace(header.find("vocab"), 5, "vocap");
  const auto runs = parse_measured_runs(header + kRow, "t.csv");
  REQUIRE_FALSE(runs.has_value());
  CHECK(whats(runs.error()) ==
        std::vector<std::string>{"t.csv:1: unknown column 'vocap'", "t.csv:1: no column 'vocab'"});
  CHECK(runs.error().diagnostics[0].hint.find("vocab") != std::string::npos);
  CHECK_FALSE(parse_measured_runs("", "t.csv").has_value());
  CHECK_FALSE(parse_measured_runs("schedule,card,card,max_memory_allocated_mb\n", "t").has_value());
}

TEST_CASE("quoted cells may hold commas, quotes and line ends, and lines are still counted") {
  CsvRecords records("a,\"b\nc,\"\"d\"\"\",e\r\nf\n\"open");
  CHECK(records.take() == std::vector<std::string_view>{"a", "b\nc,\"d\"", "e"});
  CHECK(records.line() == 1);
  CHECK(records.take() == std::vector<std::string_view>{"f"});
  CHECK(records.line() == 3);
  CHECK(records.well_formed());
  records.take();
  CHECK_FALSE(records.well_formed());
  CHECK(records.done());
}

TEST_CASE("notes are looked up by key") {
  const std::string_view notes = "num_microbatches=24; first; pp-method: type:x (T_F=3 ms; T_B=4)";
  CHECK(noted(notes, "num_microbatches") == "24");
  CHECK(noted(notes, "T_F") == "3 ms");
  CHECK(noted(notes, "pp-method") == "type:x (T_F=3 ms");
  CHECK(noted(notes, "F") == "");
  CHECK(noted(notes, "absent") == "");
}

TEST_CASE("the published tables have the rows their description counts") {
  const auto path = testing::shared_path("measurements");
  if (!path) return;
  const auto runs = read_measured_runs(*path);
  REQUIRE_MESSAGE(runs.has_value(), to_text(runs.error()));
  std::map<std::string, int> rows;
  std::size_t ranks = 0;
  for (const MeasuredRun& run : *runs) {
    ++rows[run.source];
    if (run.source == "simumax_b200") ranks += run.ranks.size();
  }
  // README.md of the measurements, table of sources.
  CHECK(rows["aleph-alpha-2023"] == 984);
  CHECK(rows["nanotron_playbook"] == 3306);
  CHECK(rows["megatron_golden"] == 639);
  CHECK(rows["zero_bubble"] == 131);
  CHECK(rows["vocab_parallel"] == 168);
  CHECK(rows["simumax_b200"] == 44);
  CHECK(rows["bigscience_bloom_prequel"] == 144);
  CHECK(ranks == 344);
  CHECK(rows["sailor"] == 36);
  CHECK(rows["zbh1_3090"] == 2);
  CHECK(runs->size() == 8451 + 36 + 2);
}

TEST_CASE("the work of reading rows grows as their number") {
  const auto read = [](int rows) {
    std::string text = kHeader;
    for (int i = 0; i < rows; ++i) text += kRow;
    return [text = std::move(text), rows] {
      const auto runs = parse_measured_runs(text, "large.csv");
      REQUIRE(runs.has_value());
      REQUIRE(static_cast<int>(runs->size()) == rows);
    };
  };
  // Linear 4, quadratic 16.
  CHECK(testing::growth(read(5'000), read(20'000)) < 8);
}

TEST_CASE("folds are sweeps, model sizes, cases without their micro-batches, rounds") {
  const auto fold = [](std::string source, std::string ref, std::string model, std::string notes) {
    MeasuredRun run;
    run.source = std::move(source);
    run.source_ref = std::move(ref);
    run.model_name = std::move(model);
    run.notes = std::move(notes);
    return fold_of(run);
  };
  CHECK(fold("aleph-alpha-2023", "llama_13B_all_runs.xlsx#132173", "llama-13B", "") ==
        "llama_13B_all_runs.xlsx");
  CHECK(fold("simumax_b200", "SimuMax:summary.json case llama3_70b_l12_tp1_pp2_dp4_mbc32_cef", "",
             "") == "llama3_70b_l12_tp1_pp2_dp4_cef");
  CHECK(fold("nanotron_playbook", "x#3", "nanotron-8B", "") == "nanotron-8B");
  CHECK(fold("megatron_golden", "x", "gpt3_tp1", "") == "gpt3_tp1");
  CHECK(fold("mlperf_v5.0", "x", "GPT-3", "") == "mlperf_v5.0");
  CHECK(fold("dgxc_benchmarking", "NVIDIA/dgxc@35a9aec:grok1/README.md#L64", "Grok", "") ==
        "35a9aec");
  CHECK(fold("megatron_bridge", "x", "Llama", "26.08 NeMo Container; model") == "26.08");
}

}  // namespace
}  // namespace trainwright
