// What is left out together.
#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/measured/run.h"

namespace trainwright {
namespace {

// The name of a test or case without the count of micro-batches ("_mbc4").
std::string without_micro_batches(std::string_view name) {
  std::string kept;
  for (const std::string_view part : split(name, '_')) {
    if (part.starts_with("mbc") && parse_integer(part.substr(3))) continue;
    if (!kept.empty()) kept += '_';
    kept += part;
  }
  return kept;
}

// The text between two marks, or all of it behind the first when the second is missing.
std::string_view between(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + from.size());
  return text.substr(0, std::min(text.find(to), text.size()));
}

// "GPT-14.6B" and "nanotron-8B" are sizes by themselves; vTrain's models only differ in shape.
std::string model_size(const MeasuredRun& run) {
  if (run.source.starts_with("vtrain") && run.layers && run.hidden) {
    return "l" + std::to_string(*run.layers) + "-h" + std::to_string(*run.hidden);
  }
  return run.model_name;
}

std::string release(const MeasuredRun& run) {
  if (run.source.starts_with("mlperf")) return run.source;
  // Megatron Bridge prints "26.08 NeMo Container" first in its notes, dgxc names the commit.
  if (run.source == "megatron_bridge") return std::string(between(run.notes, "", " "));
  return std::string(between(run.source_ref, "@", ":"));
}

}  // namespace

std::string fold_of(const MeasuredRun& run) {
  const std::string& source = run.source;
  if (source == "aleph-alpha-2023") return std::string(between(run.source_ref, "", "#"));
  if (source == "simumax_b200") {
    return without_micro_batches(between(run.source_ref, " case ", " "));
  }
  if (source == "megatron_golden") return run.model_name;
  if (source.starts_with("mlperf") || source == "dgxc_benchmarking" ||
      source == "megatron_bridge" || source == "nemo_24_07") {
    return release(run);
  }
  return model_size(run);
}

std::string time_fold_of(const MeasuredRun& run) {
  if (run.source == "sailor") return run.source_ref;
  if (run.source == "internevo" && run.gpus) return std::to_string(*run.gpus) + " accelerators";
  const std::string fold = fold_of(run);
  return fold.empty() ? run.source_ref : fold;
}

}  // namespace trainwright
