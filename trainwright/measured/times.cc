#include "trainwright/measured/times.h"

#include <fmt/format.h>

#include <cmath>

namespace trainwright::detail {
namespace {

constexpr double kTera = 1e12;

double real(const std::optional<std::int64_t>& count) { return static_cast<double>(*count); }

std::optional<double> megatron_flops(const MeasuredRun& row) {
  if (!row.layers || !row.hidden || !row.vocab) return std::nullopt;
  const double tokens = real(row.global_batch) * real(row.seq_len);
  const double h = real(row.hidden), s = real(row.seq_len);
  const double passes = row.recompute == "full" ? 4 : 3;
  return tokens *
         (24 * passes * real(row.layers) * h * h * (1 + s / (6 * h)) + 6 * h * real(row.vocab));
}

// FLOP/s of one accelerator, as the source counts them.
std::optional<double> flops_per_second(const MeasuredRun& row, const FlopsRule& rule) {
  if (row.tflops_per_gpu) return *row.tflops_per_gpu * kTera;
  if (row.mfu_pct && rule.peak > 0) return *row.mfu_pct / 100 * rule.peak * kTera;
  return std::nullopt;
}

}  // namespace

std::optional<double> flops_of_step(const std::string& name, const MeasuredRun& row) {
  if (name == "megatron" && row.global_batch && row.seq_len) return megatron_flops(row);
  return std::nullopt;
}

std::vector<std::string> flops_names() { return {"megatron"}; }

std::optional<StepTime> step_time_of(const MeasuredRun& row, const FlopsRule& rule) {
  if (row.outcome != Outcome::Ok) return std::nullopt;
  if (row.step_time && row.step_time->value() > 0) return StepTime{*row.step_time, {}};
  if (!row.gpus || *row.gpus < 1 || !row.global_batch || !row.seq_len) return std::nullopt;
  const auto of = [&](double work, double rate, std::string note) -> std::optional<StepTime> {
    const double seconds = work / (rate * real(row.gpus));
    if (!std::isfinite(seconds) || seconds <= 0) return std::nullopt;
    return StepTime{Seconds(seconds), std::move(note)};
  };
  if (row.tokens_per_s_per_gpu) {
    return of(real(row.global_batch) * real(row.seq_len), *row.tokens_per_s_per_gpu,
              "step time from the printed tokens/s of one accelerator");
  }
  const auto rate = flops_per_second(row, rule);
  const auto flops = flops_of_step(rule.by, row);
  if (!rate || !flops) return std::nullopt;
  return of(*flops, *rate,
            fmt::format("step time from the printed {} and {}'s count of FLOPs",
                        row.tflops_per_gpu ? "TFLOP/s" : "share of peak", rule.by));
}

}  // namespace trainwright::detail
