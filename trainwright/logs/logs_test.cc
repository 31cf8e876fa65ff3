#include "trainwright/logs/logs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

namespace trainwright {
namespace {

Bytes gib(double n) { return Bytes(static_cast<std::int64_t>(n * 1024 * 1024 * 1024 + 0.5)); }

// As Megatron-LM printed them for Mixtral 8x7B on 16 H100 (NVIDIA/Megatron-LM issue 756), counted
// from `first` on.
std::string megatron_lines(int first, int count,
                           const std::string& prefix = " [2024-04-06 02:59:36] ") {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    const bool odd = i % 2 == 1;
    text +=
        prefix + "iteration " + std::string(i < 10 ? 7 : 6, ' ') + std::to_string(i) +
        "/     100 | consumed samples:         5504 | elapsed time per iteration (ms): " +
        (odd ? "5444.9" : "5533.8") +
        " | throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.600000E-06 | global batch "
        "size:   128 | lm loss: 1.825991E+00 | load_balancing_loss: 1.019746E+00 | loss scale: 1.0 "
        "| grad norm: 1.426 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan "
        "iterations:   0 |\n";
  }
  return text;
}

TEST_CASE("Megatron-LM's steps are in milliseconds, and the first five are warm-up") {
  const std::string text =
      "using world size: 16, data-parallel size: 4, context-parallel size: 1, "
      "tensor-model-parallel size: 1, pipeline-model-parallel size: 4\n"
      "  seq_length ...................................... 4096\n" +
      megatron_lines(1, 2) +
      "[Rank 0] (after 2 iterations) memory (MB) | allocated: 30100.25 | max allocated: 61440.00 | "
      "reserved: 66000.00 | max reserved: 66560.00\n"
      "[Rank 12] (after 2 iterations) memory (MB) | allocated: 30100.25 | max allocated: 40960.00 "
      "| "
      "reserved: 43008.00 | max reserved: 43008.00\n" +
      megatron_lines(3, 6);
  const auto run = read_log(text, "train.log");
  REQUIRE(run.has_value());
  CHECK(run->format == LogFormat::Megatron);
  CHECK(run->steps.size() == 8);
  const StepSize size{.ranks = 16, .sequences = 128, .tokens = 128 * 4096};
  CHECK(contradictions(*run, size).empty());
  const auto summary = summarize(*run, size);
  REQUIRE(summary.has_value());
  // Steps 6, 7 and 8: 5.5338, 5.4449, 5.5338.
  CHECK(summary->median == Seconds(5.5338));
  CHECK(summary->lines == 3);
  CHECK(summary->warm_up == 5);
  CHECK(summary->first_line == 10);
  CHECK(summary->last_line == 12);
  // 524,288 tokens in 5.5338 s on 16 ranks.
  CHECK(tokens_per_second_per_rank(*summary, size) == doctest::Approx(524288 / 5.5338 / 16));
  REQUIRE(run->memory.size() == 2);
  CHECK(run->memory[0].rank == 0);
  CHECK(run->memory[0].allocated == gib(60));
  CHECK(run->memory[0].reserved == gib(65));
  CHECK(run->memory[1].rank == 12);
  CHECK(run->memory[1].reserved == gib(42));
}

TEST_CASE("a log of another cluster, batch or length is told apart, all at once") {
  const auto run = read_log(
      "using world size: 16, data-parallel size: 4\n"
      "  seq_length ...................................... 4096\n" +
          megatron_lines(1, 9),
      "train.log");
  REQUIRE(run.has_value());
  const Diagnostics found =
      contradictions(*run, {.ranks = 64, .sequences = 256, .tokens = 256 * 2048});
  REQUIRE(found.size() == 3);
  CHECK(found[0].where == "train.log:1");
  CHECK(found[0].what == "the log has 16 ranks, the question 64");
  CHECK(found[1].where == "train.log:11");
  CHECK(found[1].what == "the log has 128 sequences a step, the question 256");
  CHECK(found[2].where == "train.log:2");
  CHECK(found[2].what == "the log has 4,096 tokens a sequence, the question 2,048");
}

TEST_CASE("steps before the batch has grown to its size do not count") {
  std::string ramp = megatron_lines(1, 12);
  for (std::size_t at = ramp.find("size:   128"); at != std::string::npos;
       at = ramp.find("size:   128")) {
    ramp.replace(at, 11, "size:    64");
  }
  const auto run = read_log(ramp + megatron_lines(13, 8), "train.log");
  REQUIRE(run.has_value());
  CHECK(run->steps.size() == 8);
  CHECK(run->steps.front().number == 13);
}

// pytorch/torchtitan pull request 1287: Llama 3.1 8B on 8 H100 with 8,192 tokens.
constexpr const char* kTitan =
    "[rank0]:[titan] 2025-06-16 22:30:48,735 - root - INFO - [GC] Peforming periodical GC "
    "collection. 0.06 seconds.\n"
    "[rank0]:[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1384  memory: "
    "49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%\n"
    "[rank0]:[titan] 2025-06-16 22:30:50,758 - root - INFO - Dumping profiler traces at step 200\n"
    "[rank0]:[titan] 2025-06-16 22:31:04,970 - root - INFO - step: 210  loss:  6.0388  memory: "
    "49.66GiB(52.28%)  tps: 5,593  tflops: 323.92  mfu: 32.75%\n"
    "[rank0]:[titan] 2025-06-16 22:31:18,934 - root - INFO - step: 220  loss:  6.0348  memory: "
    "49.66GiB(52.28%)  tps: 5,868  tflops: 339.82  mfu: 34.36%\n"
    "[rank0]:[titan] 2025-06-16 22:31:32,895 - root - INFO - step: 230  loss:  5.9670  memory: "
    "49.66GiB(52.28%)  tps: 5,869  tflops: 339.88  mfu: 34.37%\n";

TEST_CASE("torchtitan prints tokens per second and rank, from which a step's time follows") {
  const auto run = read_log(kTitan, "titan.log");
  REQUIRE(run.has_value());
  CHECK(run->format == LogFormat::Torchtitan);
  const auto summary = summarize(*run, {.ranks = 8, .sequences = 8, .tokens = 8 * 8192});
  REQUIRE(summary.has_value());
  // The first line is left out, and the second, which tells of steps 201 to 210.
  // The time stamps agree: ten steps in 13.96 s.
  CHECK(summary->warm_up == 2);
  CHECK(summary->median.value() == doctest::Approx(8192 / 5868.5).epsilon(1e-4));
  CHECK(summary->median.value() == doctest::Approx(1.396).epsilon(0.001));
  REQUIRE(run->memory.size() == 1);
  CHECK(run->memory[0].rank == 0);
  CHECK(run->memory[0].reserved == gib(49.66));
}

TEST_CASE("colours, several ranks that print alike and validation change nothing") {
  std::string text;
  for (int step = 1; step <= 8; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      text +=
          "[rank" + std::to_string(rank) +
          "]:[titan] 2026-02-24 19:46:17,508 - root - INFO - \x1b[31mstep:  " +
          std::to_string(step) +
          "  \x1b[32mloss:  7.62585  \x1b[38;2;180;60;0mgrad_norm: 26.6250  \x1b[36mmemory: "
          "66.91GiB"
          "(37.51%)  \x1b[34mtps: 10,050  \x1b[36mtflops: 314.71  \x1b[35mmfu: 13.99%\x1b[39m\n";
    }
  }
  text +=
      "[rank0]:[titan] ... - root - INFO - validate step:  8  loss:  7.1  memory: 70.00GiB(39%)  "
      "tps: 90,000\n";
  const auto run = read_log(text, "titan.log");
  REQUIRE(run.has_value());
  CHECK(run->steps.size() == 8);
  CHECK(run->memory.size() == 2);
  CHECK(summarize(*run, {.ranks = 8, .sequences = 8, .tokens = 80400})->median ==
        Seconds(1));  // 10,050 tokens on each rank
}

TEST_CASE("torchtitan says how many ranks it has and how large a step is") {
  const std::string text =
      "[titan] 2026-02-24 19:40:00,000 - root - INFO - Building device mesh with parallelism: "
      "pp=2, "
      "dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1\n"
      "[titan] 2026-02-24 19:41:00,000 - root - INFO - Trainer is initialized with local batch "
      "size "
      "8, global batch size 32, gradient accumulation steps 1, sequence length 2048, total steps "
      "10 "
      "(warmup 2)\n" +
      std::string(kTitan);
  const auto run = read_log(text, "titan.log");
  REQUIRE(run.has_value());
  CHECK(run->ranks->value == 16);
  CHECK(run->sequences->value == 32);
  CHECK(run->sequence_length->value == 2048);
  CHECK(contradictions(*run, {.ranks = 16, .sequences = 32, .tokens = 32 * 2048}).empty());
}

// deepspeedai/DeepSpeed issue 3742.
std::string deepspeed_line(int step, const char* rate) {
  return "[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=" +
         std::to_string(step) + "/global_step=" + std::to_string(step) +
         ", RunningAvgSamplesPerSec=7.864669709950182, CurrSamplesPerSec=" + rate +
         ", MemAllocated=59.65GB, MaxMemAllocated=63.31GB\n";
}

TEST_CASE("DeepSpeed prints sequences per second, and GiB as GB") {
  std::string text =
      "[2023-07-25 21:03:21,037] [INFO] [logging.py:96:log_dist] [Rank 0] step=35, "
      "skipped=0, lr=[2.17e-06, 2.17e-06], mom=[[0.9, 0.95], [0.9, 0.95]]\n";
  for (int step = 1; step <= 7; ++step) text += deepspeed_line(step, "8.00912418308922");
  const auto run = read_log(text, "ds.log");
  REQUIRE(run.has_value());
  CHECK(run->format == LogFormat::DeepSpeed);
  const auto summary = summarize(*run, {.ranks = 8, .sequences = 32, .tokens = 32 * 2048});
  CHECK(summary->median.value() == doctest::Approx(32 / 8.00912418308922));
  CHECK(summary->lines == 2);
  CHECK(run->memory[0].allocated == gib(63.31));
}

TEST_CASE("pipelines of DeepSpeed print seconds, the mean since the line before") {
  std::string text;
  for (int step = 10; step <= 30; step += 10) {
    text += "steps: " + std::to_string(step) +
            " loss: 2.1375 iter time (s): 1.250 samples/sec: 25.600\n";
  }
  const auto run = read_log(text, "ds.log");
  REQUIRE(run.has_value());
  CHECK(summarize(*run, {.ranks = 4, .sequences = 32, .tokens = 32})->median == Seconds(1.25));
}

// huggingface/nanotron issue 390.
std::string nanotron_line(int step, const char* key) {
  return "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: " + std::to_string(step) +
         " / 378950 | consumed_tokens: 85.8G | " + key +
         ": 11.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | global_batch_size: 64 "
         "| "
         "lm_loss: 2.38 | lr: 1e-05 | model_tflops_per_gpu: 38.3 | hardware_tflops_per_gpu: 38.3 | "
         "grad_norm: 1.25\n";
}

TEST_CASE("nanotron prints three digits with a letter for thousands") {
  for (const char* key : {"elapsed_time_per_iteration_ms", "time_per_iteration_ms"}) {
    std::string text;
    for (int step = 327281; step < 327290; ++step) text += nanotron_line(step, key);
    text +=
        "10/17/2025 16:33:00 [INFO|DP=0|PP=0|TP=0]: \n Memory usage: 1234.00MiB. Peak allocated "
        "20480.00MiB. Peak reserved: 30720.00MiB\n";
    const auto run = read_log(text, "nano.log");
    REQUIRE(run.has_value());
    CHECK(run->format == LogFormat::Nanotron);
    // 22.8 K x 11.5 s = 262,200, printed of 64 x 4,096 = 262,144.
    const StepSize size{.ranks = 2, .sequences = 64, .tokens = 64 * 4096};
    CHECK(contradictions(*run, size).empty());
    CHECK(contradictions(*run, {.ranks = 2, .sequences = 64, .tokens = 64 * 2048}).size() == 1);
    CHECK(summarize(*run, size)->median == Seconds(11.5));
    CHECK(run->memory[0].allocated == gib(20));
    CHECK(run->memory[0].reserved == gib(30));
  }
}

TEST_CASE("progress bars are read by their clock in stretches of at least 20 seconds") {
  // huggingface/transformers issue 14531 has such lines; drawn over each other by carriage returns.
  std::string text =
      "  Total optimization steps = 24,128\n"
      "Loading checkpoint shards: 100%|##########| 2/2 [00:10<00:00,  5.20s/it]\n";
  for (int step = 0; step <= 60; ++step) {
    const int clock = step * 10 / 3;
    text += "\r  0%|          | " + std::to_string(step) + "/24128 [" + std::to_string(clock / 60) +
            ":" + (clock % 60 < 10 ? "0" : "") + std::to_string(clock % 60) +
            "<20:27:23,  3.33s/it]";
  }
  text +=
      "\n{'loss': 6.2645, 'learning_rate': 0.001, 'epoch': 0.02}\n"
      "\r 50%|#####     | 4/8 [00:03<00:03,  1.00it/s]\n"
      "{'train_runtime': 999.9, 'train_samples_per_second': 9.5, 'train_steps_per_second': 0.3}\n";
  const auto run = read_log(text, "hf.log");
  REQUIRE(run.has_value());
  CHECK(run->format == LogFormat::HuggingFace);
  const auto summary = summarize(*run, {.ranks = 8, .sequences = 32, .tokens = 32});
  // From the sixth step on: 20 s each for six steps.
  CHECK(summary->median.value() == doctest::Approx(10.0 / 3).epsilon(0.01));
  CHECK(summary->lines == 9);
  CHECK_FALSE(summary->whole_run);
}

TEST_CASE("without a bar the Hugging Face Trainer's last line gives the mean of the run") {
  // transformers 5 prints numbers as text, 4 as numbers.
  for (const char* line :
       {"{'train_runtime': '138', 'train_samples_per_second': '1.739', 'train_steps_per_second': "
        "'0.435', 'train_loss': '5.6', 'epoch': '0.6'}\n",
        "{'train_runtime': 138.0, 'train_samples_per_second': 1.739, 'train_steps_per_second': "
        "0.435, 'train_loss': 5.6, 'epoch': 0.6}\n"}) {
    const auto alone = read_log(line, "hf.log");
    REQUIRE(alone.has_value());
    const StepSize size{.ranks = 1, .sequences = 4, .tokens = 128};
    CHECK(summarize(*alone, size)->median.value() == doctest::Approx(4 / 1.739));
    CHECK(summarize(*alone, size)->whole_run);
    const auto counted =
        read_log(std::string("  Total optimization steps = 60\n") + line, "hf.log");
    CHECK(summarize(*counted, size)->median == Seconds(138.0 / 60));
  }
}

TEST_CASE("an allocation that failed says which rank asked for how much, in old words and in new") {
  const auto run = read_log(
      "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 3 has "
      "a "
      "total capacity of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this "
      "process has 20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by "
      "PyTorch, and 4.84 GiB is reserved by PyTorch but unallocated.\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 2.00 GiB total "
      "capacity; 788.51 MiB already allocated; 145.93 MiB free; 1.02 GiB reserved in total by "
      "PyTorch)\n",
      "oom.log");
  REQUIRE(run.has_value());
  CHECK_FALSE(run->format.has_value());
  REQUIRE(run->failures.size() == 2);
  CHECK(run->failures[0].rank == 3);
  CHECK(run->failures[0].asked == gib(3));
  CHECK(run->failures[0].capacity == gib(23.65));
  CHECK(run->failures[0].free == gib(1.66));
  CHECK(run->failures[0].allocated == gib(12.09));
  CHECK(run->failures[0].reserved == gib(12.09) + gib(4.84));
  CHECK_FALSE(run->failures[1].rank.has_value());
  CHECK(run->failures[1].device == 0);
  CHECK(run->failures[1].asked == gib(264.0 / 1024));
  CHECK(run->failures[1].capacity == gib(2));
  CHECK(run->failures[1].free == gib(145.93 / 1024));
  CHECK(run->failures[1].reserved == gib(1.02));
  const auto summary = summarize(*run, {});
  REQUIRE_FALSE(summary.has_value());
  CHECK(summary.error().diagnostics[0].where == "oom.log:1");
  CHECK(summary.error().diagnostics[0].what ==
        "no step to take the time of: out of memory, rank 3 asked for 3 GiB");
}

TEST_CASE("NPUs say it in the words of PyTorch before 2.1") {
  const auto run = read_log(
      "RuntimeError: NPU out of memory. Tried to allocate 260.00 MiB (NPU 5; 28.50 GiB total "
      "capacity; 10.24 GiB already allocated; 10.24 GiB current active; 149.57 MiB free; 10.28 GiB "
      "reserved in total by PyTorch)\n",
      "npu.log");
  REQUIRE(run.has_value());
  REQUIRE(run->failures.size() == 1);
  CHECK(run->failures[0].device == 5);
  CHECK(run->failures[0].asked == gib(260.0 / 1024));
  CHECK(run->failures[0].capacity == gib(28.5));
  CHECK(run->failures[0].free == gib(149.57 / 1024));
  CHECK(run->failures[0].reserved == gib(10.28));
  CHECK_FALSE(run->failures[0].host);
}

TEST_CASE("the host's memory runs out in words of PyTorch, NumPy, Python and C++") {
  // As PyTorch 2.13.0 on Linux and NumPy 2 print them.
  const std::pair<std::string, std::optional<Bytes>> cases[] = {
      {"[rank1]: RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: "
       "can't allocate memory: you tried to allocate 4000000000000 bytes. Error code 12 (Cannot "
       "allocate memory)",
       Bytes(4'000'000'000'000)},
      {"[rank1]: RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not "
       "enough memory: you tried to allocate 911360 bytes.",
       Bytes(911360)},
      {"[rank1]: numpy._core._exceptions._ArrayMemoryError: Unable to allocate 3.64 TiB for an "
       "array with shape (1000000, 1000000) and data type float32",
       gib(3.64 * 1024)},
      {"[rank1]: MemoryError", std::nullopt},
      {"[rank1]:   what():  std::bad_alloc", std::nullopt}};
  for (const auto& [line, asked] : cases) {
    CAPTURE(line);
    const auto run = read_log(line + '\n', "host.log");
    REQUIRE(run.has_value());
    REQUIRE(run->failures.size() == 1);
    CHECK(run->failures[0].host);
    CHECK(run->failures[0].rank == 1);
    CHECK(run->failures[0].asked == asked);
  }
  // A source line of a traceback that handles it is none.
  CHECK_FALSE(read_log("    except MemoryError:\n", "host.log").has_value());
  CHECK_FALSE(read_log("torch.OutOfMemoryErrors: 0\n", "host.log").has_value());
}

TEST_CASE("accelerators run out of memory without telling bytes") {
  for (const std::string line :
       {"RuntimeError: CUDA error: out of memory", "RuntimeError: HIP error: out of memory",
        "node1:77:91 [3] NCCL WARN Cuda failure 2 'out of memory'",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
        "`cublasCreate(handle)`"}) {
    CAPTURE(line);
    const auto run = read_log(line + '\n', "oom.log");
    REQUIRE(run.has_value());
    REQUIRE(run->failures.size() == 1);
    CHECK_FALSE(run->failures[0].host);
    CHECK_FALSE(run->failures[0].asked.has_value());
    CHECK(to_text(run->failures[0]) == "a rank asked for more than there is");
  }
}

TEST_CASE("a line that was cut counts only as far as its numbers are whole") {
  const std::string lines = megatron_lines(1, 8);
  const std::size_t cut = lines.rfind("5533.8");
  CHECK(read_log(lines.substr(0, cut + 2), "cut.log")->steps.size() == 7);  // "55"
  CHECK(read_log(lines.substr(0, cut + 8), "cut.log")->steps.size() == 8);  // "5533.8 |"
  CHECK(read_log(lines.substr(0, lines.size() - 1), "cut.log")->steps.size() == 8);
}

TEST_CASE("a log that ends within warm-up has no time to tell") {
  const auto summary = summarize(*read_log(megatron_lines(1, 5), "short.log"), {});
  REQUIRE_FALSE(summary.has_value());
  CHECK(summary.error().diagnostics[0].what ==
        "5 lines of steps, none beyond the first 5 steps, which are warm-up");
}

TEST_CASE("of lines every ten steps the second is beyond warm-up") {
  const std::string bars =
      " 10%|#         | 10/100 [00:25<03:45,  2.50s/it]\n"
      " 20%|##        | 20/100 [00:45<03:00,  2.00s/it]\n";
  const std::string end = "{'train_runtime': 45.1, 'train_samples_per_second': 4.0}\n";
  const auto summary = summarize(*read_log(bars + end, "bars.log"), {});
  REQUIRE_MESSAGE(summary.has_value(), to_text(summary.error()));
  CHECK(summary->lines == 1);
  CHECK(summary->median.value() == doctest::Approx(2.0));
  // Steps 1 to 10 are one line, with warm-up among them.
  const auto one = summarize(*read_log(megatron_lines(10, 1), "ten.log"), {});
  REQUIRE_FALSE(one.has_value());
  CHECK(one.error().diagnostics[0].what ==
        "1 line of steps, none without the first 5 steps, which are warm-up");
  // A run that goes on at step 1,001 warms up again.
  const auto on = summarize(*read_log(megatron_lines(1001, 7), "on.log"), {});
  REQUIRE(on.has_value());
  CHECK(on->lines == 2);
}

TEST_CASE("what is no log, and figures that are none, are diagnosed with their line") {
  const auto other = read_log("epoch 1: 3 it/s\n", "other.txt");
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().diagnostics[0].where == "other.txt");
  CHECK_FALSE(read_log("", "empty.log").has_value());
  std::string text = megatron_lines(1, 8);
  text.replace(text.find("5533.8"), 6, "nan   ");
  text.replace(text.rfind("5444.9"), 6, "0.0   ");
  const auto broken = read_log(text, "train.log");
  REQUIRE_FALSE(broken.has_value());
  REQUIRE(broken.error().diagnostics.size() == 2);
  CHECK(broken.error().diagnostics[0].where == "train.log:2");
  CHECK(broken.error().diagnostics[0].what ==
        "'nan' after 'elapsed time per iteration (ms):' is not a number above 0");
  CHECK(broken.error().diagnostics[1].where == "train.log:7");
}

TEST_CASE("peaks of ranks come in the order of ranks, whatever the order of their lines") {
  std::string text;
  for (const int rank : {3, 1, 2, 1})
    text += fmt::format("[Rank {}] memory (MB) | max allocated: {}.0\n", rank, 10 - rank);
  const auto run = read_log(text + " memory (MB) | max allocated: 7\n", "x");
  REQUIRE(run.has_value());
  REQUIRE(run->memory.size() == 4);
  CHECK(!run->memory[0].rank);
  CHECK(run->memory[1].rank == 1);
  CHECK(run->memory[3].rank == 3);
  CHECK(run->memory[1].line == 2);
}

}  // namespace
}  // namespace trainwright
