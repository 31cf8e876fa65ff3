#include "trainwright/calibrate/case.h"

namespace trainwright {

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Allocated: return "allocated";
    case MemoryKind::Reserved: return "reserved";
    case MemoryKind::Driver: return "driver";
    case MemoryKind::Static: return "static";
    case MemoryKind::Unstated: return "unstated";
  }
  return {};
}

std::string_view name_of(ReadAt at) {
  switch (at) {
    case ReadAt::WorstRank: return "worst-rank";
    case ReadAt::Rank: return "rank";
    case ReadAt::PipelineRank: return "pipeline-rank";
  }
  return {};
}

Result<Knowledge> load_knowledge(const std::string& data_directory) {
  Knowledge knowledge;
  knowledge.hardware = TW_TRY(load_hardware(data_directory));
  knowledge.trainers = TW_TRY(load_trainers(data_directory));
  knowledge.models = TW_TRY(load_zoo(data_directory));
  return knowledge;
}

CaseOrReason case_of(const MeasuredRun& run, const Knowledge&) {
  return {.made = std::nullopt, .skipped = "no rule for the source " + run.source};
}

std::vector<std::string> known_sources() { return {}; }

}  // namespace trainwright
