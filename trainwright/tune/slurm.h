#pragma once
// Private: a trial as a job of Slurm, from the watcher's side. Asked are sbatch, squeue, scontrol
// and scancel, as of 22.05; and sacct of a job that is purged, which needs accounting: many
// clusters have none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainwright/tune/process.h"

namespace trainwright::detail {

// What `scontrol --oneliner show job` says of one.
struct JobState {
  std::string name;
  std::string state;   // "RUNNING"
  std::string reason;  // "NodeDown"
  int code = 0, signal = 0;
  std::int64_t restarts = 0;
  Seconds ran;  // since its last start
};
std::optional<JobState> job_state(std::string_view line);
// What `sacct --parsable2 --format=JobName,State,ExitCode,ElapsedRaw` says of one, long after
// scontrol has forgotten it.
std::optional<JobState> accounted_state(std::string_view line);
// Nothing while it waits, runs or is about to end.
std::optional<CommandEnd> end_of_job(const std::string& id, const JobState& state);

// Submits and follows the job of a launch, or goes on with the one that its folder names.
CommandEnd run_job(const Launch& launch);

}  // namespace trainwright::detail
