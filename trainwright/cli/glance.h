#pragma once
// Private: what short answers share. The rest of an answer is behind --verbose.
#include <string>

#include "trainwright/cli/setting.h"
#include "trainwright/memory/memory.h"
#include "trainwright/simulate/simulate.h"

namespace trainwright::cli {

// "llama-2-7b on 8xH100-SXM with Megatron-Core 0.19, bf16; 64 sequences of 4,096 tokens per step"
struct AskedStep {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  PrecisionKind precision = PrecisionKind::Bf16;
  std::int64_t gbs = 0, seq = 0;
};
std::string asked_text(const AskedStep& asked, int width);

// "2.96 s/step (90 % interval 2.56 to 4.01 s), 11,085 tokens/s/device, MFU 48.0 %"
std::string speed_text(const StepTime& time, PrecisionKind precision);

// Parts of the step, or of a rank's peak by what it is taken for: largest first, in one unit, with
// a character of a bar for ten percent. What is below 2 % of the whole is one row.
std::string breakdown_text(const StepTime& time);
std::string breakdown_text(const RankClass& rank);

// Prose in lines that begin with two blanks.
std::string indented(const std::string& prose, int width);

Argument verbose_argument(const std::string& adds);  // "--verbose", what it adds

}  // namespace trainwright::cli
