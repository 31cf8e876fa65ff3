#pragma once
// What trainers print while they run: step times, memory, and how it ended.
//
// A log is read for lines of the forms below, wherever they stand in a line: torchrun's "[rank3]:",
// srun's "3: ", time stamps and colours go before them. All other lines are passed over.
//
//   Megatron-LM     " iteration       43/     100 | consumed samples: 5504 | elapsed time per
//                   iteration (ms): 5444.9 | ... global batch size:   128 | ...": the mean since
//                   the line before. "using world size: 64," and the arguments it lists,
//                   "[Rank 0] (after 2 iterations) memory (MB) | allocated: ... | max allocated:
//                   61234.5 | reserved: ... | max reserved: 66890.0" in MiB. From v2.6
//                   (megatron/training.py, megatron/utils.py) to d98e8a6 of 2026-08
//                   (megatron/training/training.py training_log, utils/common_utils.py
//                   report_memory, arguments.py); also forks that print more in between.
//   torchtitan      "step: 200  loss:  6.1384  grad_norm: ...  memory: 49.66GiB(52.28%)  tps: 5,856
//                   ...": tokens per second of one rank since the line before, and the peak of
//                   reserved memory; at first tps was called wps. "Trainer is initialized with ...
//                   global batch size 64, ... sequence length 8192" (to 0.2.2), "... tokens per
//                   train step" (0.3), "Building device mesh with parallelism: pp=1, ...". From
//                   2024-03 to b5bcd76 of 2026-08 (torchtitan/components/metrics.py, trainer.py,
//                   distributed/parallel_dims.py).
//   DeepSpeed       "epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=...,
//                   CurrSamplesPerSec=8.009, MemAllocated=59.65GB, MaxMemAllocated=63.31GB":
//                   sequences per second of all ranks in that step, and GiB. From 0.8.0
//                   (deepspeed/utils/timer.py ThroughputTimer); older ones print a running mean
//                   only and are not read. Its pipelines: "steps: 10 loss: 2.1 iter time (s): 1.234
//                   samples/sec: 25.9" (runtime/pipe/engine.py). To edaa722 of 2026-08.
//   nanotron        "iteration: 42 / 100 | consumed_tokens: 85.8G | elapsed_time_per_iteration_ms:
//                   11.5K | tokens_per_sec: 22.8K | ...", since 2025-03 time_per_iteration_ms;
//                   three digits, K for a thousand. "Memory usage: ...MiB. Peak allocated
//                   ...MiB. Peak reserved: ...MiB". To 2411b02 (src/nanotron/trainer.py
//                   train_step_logs, logging/base.py human_format and log_memory).
//   Hugging Face    the progress bar, "  8%|## | 1999/24128 [1:52:09<20:27:23,  3.33s/it]": its
//                   clock, in whole seconds, so that stretches of at least 20 s count as one line;
//                   without one {'train_runtime': 1234.5, 'train_samples_per_second': 25.9, ...},
//                   the mean of the whole run. "Total train batch size (w. parallel, distributed &
//                   accumulation) = 32", "Total optimization steps = 460". transformers 4 and
//                   5.22.2, whose numbers stand in quotes (trainer.py, trainer_callback.py,
//                   trainer_utils.py speed_metrics).
//
// Whichever the trainer, PyTorch says when memory runs out: "CUDA out of memory. Tried to allocate
// 2.26 GiB (GPU 0; 6.00 GiB total capacity; ...)" up to 2.0, "... Tried to allocate 3.00 GiB. GPU 0
// has a total capacity of 23.65 GiB of which 1.66 GiB is free. ..." since; HIP and XPU in the same
// words, NPUs in the old ones. Without bytes: "CUDA error: out of memory", NCCL's "Cuda failure 2
// 'out of memory'", CUBLAS_STATUS_ALLOC_FAILED. The host's memory: "DefaultCPUAllocator: can't
// allocate memory: you tried to allocate 1048576 bytes", NumPy's "Unable to allocate 7.45 GiB for
// an array", MemoryError, std::bad_alloc.
//
// The first five steps compile kernels, fill caches and open connections: lines that tell of any of
// them are warm-up, as is the first line. The time of a step is the median of the other lines.
//
// Pure functions over text, O(characters). A line that a full disk or a killed job has cut counts
// only as far as its numbers are certainly whole.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"

namespace trainwright {

enum class LogFormat : std::uint8_t { Megatron, Torchtitan, DeepSpeed, Nanotron, HuggingFace };
inline constexpr std::size_t kLogFormats = static_cast<std::size_t>(LogFormat::HuggingFace) + 1;
std::string_view name_of(LogFormat format);  // "Megatron-LM"

// A line about steps. What it prints is one of three.
struct LoggedStep {
  std::int64_t line = 0;                       // from 1
  std::int64_t number = 0;                     // of the last step that it tells of
  std::optional<Seconds> seconds = {};         // of one step
  std::optional<double> tokens_per_rank = {};  // a second
  std::optional<double> sequences = {};        // a second, all ranks
  bool whole_run = false;                      // its mean with the first steps
};

// Peaks of PyTorch's allocator on one rank, of all lines about it.
struct LoggedMemory {
  std::int64_t line = 0;  // of the highest
  std::optional<std::int64_t> rank = {};
  std::optional<Bytes> allocated = {}, reserved = {};
};

// An allocation that failed.
struct LoggedOutOfMemory {
  std::int64_t line = 0;
  std::optional<std::int64_t> rank = {};    // of the job, where the line begins with it
  std::optional<std::int64_t> device = {};  // of the node
  bool host = false;                        // of the host's memory, not of the accelerator's
  std::optional<Bytes> asked = {};
  std::optional<Bytes> capacity = {}, free = {};
  std::optional<Bytes> allocated = {}, reserved = {};  // by PyTorch
};

// A number that the trainer was started with, and where it says so.
struct LoggedFact {
  std::int64_t value = 0, line = 0;
};

struct LoggedRun {
  std::string origin;                            // the file
  std::optional<LogFormat> format = {};          // none: it never came to a step
  std::vector<LoggedStep> steps = {};            // in the order of the log
  std::vector<LoggedMemory> memory = {};         // by rank
  std::vector<LoggedOutOfMemory> failures = {};  // in the order of the log
  std::optional<LoggedFact> ranks = {}, sequences = {}, sequence_length = {},
                            tokens = {};  // a step
  bool tokens_rounded = false;            // nanotron prints three digits
};
// Diagnoses a log without a line of any of these forms, and numbers that are none, each with its
// line. Of several formats (DeepSpeed prints beside others) the one with most lines counts.
Result<LoggedRun> read_log(std::string_view text, std::string_view origin);
std::string to_text(const LoggedOutOfMemory& failure);  // "rank 3 asked for 3 GiB"

// What a step of the question beside the log amounts to.
struct StepSize {
  std::int64_t ranks = 1, sequences = 1, tokens = 1;
};
// What the log says otherwise than the question: all of it at once.
Diagnostics contradictions(const LoggedRun& run, const StepSize& size);

struct StepSummary {
  Seconds median;
  double spread = 0;  // half of what lies between the 16th and the 84th percentile, of the median
  std::int64_t lines = 0;    // that count
  std::int64_t warm_up = 0;  // lines left out
  std::int64_t first_line = 0, last_line = 0;
  bool whole_run = false;  // one mean that has the first steps in it
};
double tokens_per_second_per_rank(const StepSummary& summary, const StepSize& size);
// Diagnoses a log that has not come beyond warm-up, and says how it ended if it does.
Result<StepSummary> summarize(const LoggedRun& run, const StepSize& size);

}  // namespace trainwright
