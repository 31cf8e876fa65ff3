// A directory of tables. This file alone touches the file system.
#include <algorithm>
#include <filesystem>
#include <map>

#include "trainwright/base/json.h"
#include "trainwright/measured/run.h"

namespace trainwright {
namespace {

namespace fs = std::filesystem;

// The tables of a directory, sorted; faults are left to whoever reads them.
std::vector<fs::path> tables(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  if (fs::is_regular_file(directory, ignored)) return {directory};
  for (fs::directory_iterator at(directory, ignored), end; at != end; at.increment(ignored)) {
    if (at->path().extension() == ".csv") found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  for (const char* beside :
       {"../fixtures/published/zbh1_1f1b_memory_3090.csv", "../reference/nanotron_set_apart.csv"}) {
    if (fs::exists(directory / beside, ignored)) found.push_back(directory / beside);
  }
  return found;
}

// Moves the memory of each rank to the run of the same case.
void join_ranks(std::vector<MeasuredRun>& runs, Diagnostics& diagnostics) {
  std::map<std::string, std::size_t> by_case;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].source == "simumax_b200") by_case.emplace(runs[i].source_ref, i);
  }
  for (MeasuredRun& run : runs) {
    if (run.source != "simumax_b200_ranks") continue;
    const auto at = by_case.find(run.source_ref);
    if (at == by_case.end()) {
      diagnostics.push_back({run.origin, "ranks of a case that no run has: " + run.source_ref,
                             "the runs of simumax_b200 belong beside this table"});
      continue;
    }
    std::vector<RankMemory>& ranks = runs[at->second].ranks;
    ranks.insert(ranks.end(), run.ranks.begin(), run.ranks.end());
  }
  std::erase_if(runs, [](const MeasuredRun& run) { return run.source == "simumax_b200_ranks"; });
}

// Gives the runs that are set apart their reasons.
void join_apart(std::vector<MeasuredRun>& runs, Diagnostics& diagnostics) {
  std::map<std::string, std::size_t> by_line;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].source == "nanotron_playbook") by_line.emplace(runs[i].origin, i);
  }
  for (const MeasuredRun& run : runs) {
    if (run.source != "nanotron_set_apart") continue;
    const auto at = by_line.find(run.source_ref);
    if (at == by_line.end() || runs[at->second].tokens_per_s_per_gpu != run.tokens_per_s_per_gpu) {
      diagnostics.push_back({run.origin,
                             "sets apart a run that is not in the tables: " + run.source_ref,
                             "its lines and tokens/s are those of nanotron_playbook.csv"});
      continue;
    }
    runs[at->second].set_apart = run.set_apart;
  }
  std::erase_if(runs, [](const MeasuredRun& run) { return run.source == "nanotron_set_apart"; });
}

}  // namespace

Result<std::vector<MeasuredRun>> read_measured_runs(const std::string& path) {
  const std::vector<fs::path> paths = tables(path);
  if (paths.empty()) {
    return fail(path, "there is no table of measured runs (*.csv)",
                "give a file or a directory of them");
  }
  std::vector<MeasuredRun> runs;
  Diagnostics diagnostics;
  for (const fs::path& table : paths) {
    const auto text = read_file(table.string());
    auto read = text ? parse_measured_runs(*text, table.filename().string())
                     : Result<std::vector<MeasuredRun>>(tl::unexpected(text.error()));
    if (read) {
      runs.insert(runs.end(), std::make_move_iterator(read->begin()),
                  std::make_move_iterator(read->end()));
    } else {
      const Diagnostics& found = read.error().diagnostics;
      diagnostics.insert(diagnostics.end(), found.begin(), found.end());
    }
  }
  if (diagnostics.empty()) join_ranks(runs, diagnostics);
  if (diagnostics.empty()) join_apart(runs, diagnostics);
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return runs;
}

}  // namespace trainwright
