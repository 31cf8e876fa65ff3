#pragma once
// A training run as somebody measured and published it. Part of measured.h: include that one.
//
// Most sources come as tables of 41 columns, a cell empty where the source is silent. Four tables
// have columns of their own: memory by rank of SimuMax's B200 cases (joined to the runs by the
// case's name), Sailor's plans, the cards of one published comparison of two schedules, and a list
// of nanotron's runs whose time is set apart (joined by their line). Nothing is corrected here: a
// run says what its source printed.
//
// A table of one's own runs holds the words of `trainwright estimate` and what was measured:
//
//   model,on,trainer,layout,kind,measured
//   llama-2-7b,8xA100-80GB,megatron@0.12,"tp=2,pp=4,mbs=1,gbs=64,seq=4096",reserved,41.2 GiB
//
// Also: job, attention, schedule, source, label, pipeline_rank (else the fullest counts), outcome
// (ok or oom). Kinds are driver (where the column is empty), reserved, allocated, static, and step:
// the seconds of a step ("14.2 s").
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/measured/reading.h"
#include "trainwright/question/question.h"

namespace trainwright {

// OomOrCrash: the source does not tell which. CrashLikely: a larger run of the same kind fitted.
enum class Outcome { Ok, Oom, OomOrCrash, CrashLikely, KernelUnavailable, Other };
std::string_view name_of(Outcome outcome);  // "oom_or_crash", as in the tables

// Peaks of one rank as PyTorch's allocator counts them.
struct RankMemory {
  std::int64_t rank = 0;
  Bytes allocated;
  Bytes reserved;
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

struct MeasuredRun {
  std::string source;      // "aleph-alpha-2023"
  std::string source_ref;  // the place in it: file, line, table, case
  std::string model_name;
  std::optional<double> params_b;  // billions, as printed
  std::optional<std::int64_t> layers, hidden, ffn_hidden, heads, kv_heads, head_dim, vocab;
  std::optional<std::int64_t> seq_len, moe_experts, moe_topk;
  std::string accelerator;
  std::optional<std::int64_t> gpus, gpus_per_node;
  std::string inter_node_net, intra_node_net, precision;
  std::optional<std::int64_t> global_batch, micro_batch;  // sequences
  std::optional<std::int64_t> dp, tp, pp, vpp, cp, ep;
  std::optional<std::int64_t> sequence_parallel, zero_stage;
  std::string recompute, attention_kernel, schedule, framework;
  std::optional<Seconds> step_time;
  std::optional<double> tokens_per_s_per_gpu, tflops_per_gpu, mfu_pct;
  std::optional<double> peak_mem_gb;  // as printed; what it means and its unit hang on the source
  Outcome outcome = Outcome::Ok;
  std::string notes;
  std::vector<std::int64_t>
      stage_items;                // Sailor: layers of each stage, embedding and head counted
  std::vector<RankMemory> ranks;  // where memory was read rank by rank
  std::string origin;             // "runs.csv:17", where it was read
  std::string set_apart;          // why its time says nothing about its layout
  // Of a table of one's own.
  std::optional<Words> asked;
  std::vector<MemoryReading> readings;
};

// One table. The header line says which of the six kinds it is; its columns may stand in any
// order, but all of them must be there (but for those of one's own table) and no others. Cells may
// be quoted as in RFC 4180; lines that begin with # before the header are comments. All faults at
// once, at most 50.
Result<std::vector<MeasuredRun>> parse_measured_runs(std::string_view text,
                                                     std::string_view origin);
// A file, or every *.csv of a directory in the order of names, and of its neighbours the cards of
// the 3090 runs (../fixtures/published) and the list of runs set apart (../reference) where there
// are such files. Ranks and reasons are joined to their runs.
Result<std::vector<MeasuredRun>> read_measured_runs(const std::string& path);

// What is left out together with this run: its sweep, model size, test case, round or release.
std::string fold_of(const MeasuredRun& run);
// The same where times are scored: of Sailor a plan, since two models cannot tell a product's time
// from attention's, and of InternEvo, which ran one model, a number of accelerators; a row
// without a fold is left out alone.
std::string time_fold_of(const MeasuredRun& run);

// A cell by the name of its column, as text: "layers", "outcome", or "notes.key" of the notes.
// Empty where the source is silent; nullopt where there is no such column.
std::optional<std::string> column_text(const MeasuredRun& run, std::string_view column);
std::vector<std::string> column_names();
// Puts a text into a column; false where there is none or the text does not go into it.
bool fill_column(MeasuredRun& run, std::string_view column, std::string_view text);

// How many rows are read at most: a row takes up to 4 KB of memory, short as it may be.
inline constexpr std::size_t kMostMeasuredRuns = 100'000;

// The text after `key` in notes of the form "key=value; other=value", up to the next semicolon;
// empty when the key is not there. A key only counts at the start or after a separator.
std::string_view noted(std::string_view notes, std::string_view key);

}  // namespace trainwright
