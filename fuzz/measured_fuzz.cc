// Whatever the bytes, reading a table ends in runs or in faults, and every run can be asked about.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/measured/measured.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

const Knowledge& known() {
  static const Knowledge knowledge = load_knowledge(TRAINWRIGHT_DATA_DIR).value();
  return knowledge;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto runs = parse_measured_runs(text, "fuzz");
  if (!runs) {
    require(!runs.error().diagnostics.empty());
    return 0;
  }
  for (const MeasuredRun& run : *runs) {
    require(!run.source.empty() && !run.origin.empty());
    require(noted(run.notes, "memory").size() <= run.notes.size());
    fold_of(run);
  }
  const Cases cases = cases_of(*runs, known());
  require(cases.cases.size() + cases.skipped.size() == runs->size());
  for (const Case& c : cases.cases) {
    violations(c.layout, c.job, cases.model_of(c), cases.cluster_of(c), cases.trainer_of(c));
    require(parse_layout(to_text(c.layout)).has_value());
  }
  for (const SkippedRun& skipped : cases.skipped) require(!skipped.reason.empty());
  return 0;
}
