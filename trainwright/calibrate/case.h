#pragma once
// A measured run as the rest of the program speaks: model, cluster, trainer, layout, and readings
// of memory whose meaning is known. Part of calibrate.h: include that one.
//
// What a source leaves unsaid comes from its papers and launch scripts, not from the figures that
// are scored. What is known to be wrong in a source is corrected by a list of corrections, each
// with its reason (corrections.cc); nothing is dropped silently: a run that cannot become a case
// says why.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/calibrate/measured.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/layout.h"
#include "trainwright/model/model.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// Allocated, Reserved: peaks of PyTorch's (or Paddle's) caching allocator. Driver: what nvidia-smi
// shows, with context and communicators. Static: allocated between steps, so weights, gradients
// and states. Unstated: the source does not say whether allocated or reserved.
enum class MemoryKind { Allocated, Reserved, Driver, Static, Unstated };
std::string_view name_of(MemoryKind kind);  // "allocated"

// Whose memory: the largest of all ranks, one rank, or every rank of one pipeline rank.
enum class ReadAt { WorstRank, Rank, PipelineRank };
std::string_view name_of(ReadAt at);  // "worst-rank"

struct MemoryReading {
  MemoryKind kind = MemoryKind::Allocated;
  ReadAt at = ReadAt::WorstRank;
  std::int64_t index = 0;  // of the rank or pipeline rank
  Bytes size;
  Bytes rounding;  // half of the last digit printed: a difference below it means nothing
  friend bool operator==(const MemoryReading&, const MemoryReading&) = default;
};

struct Case {
  std::string source, label, fold;  // label: the place in the source
  Model model;
  Cluster cluster;
  Trainer trainer;  // as that run had switched its kernels
  Layout layout;
  Job job;
  Outcome outcome = Outcome::Ok;  // after corrections
  Bytes capacity;                 // what a program can allocate on one accelerator, context and all
  std::vector<MemoryReading> memory;
  std::optional<Seconds> step_time;
  // Broken in the words of its own source: scored apart, figures are given with and without.
  std::string broken;
  std::vector<std::string> corrections;  // what was read differently than printed, and why
  std::vector<std::string> notes;        // what was assumed
};

// What cases are made from: everything known from a data directory.
struct Knowledge {
  Hardware hardware;
  std::vector<Trainer> trainers;
  std::vector<ZooEntry> models;
};
Result<Knowledge> load_knowledge(const std::string& data_directory);

// Either a case or the reason why there is none.
struct CaseOrReason {
  std::optional<Case> made;
  std::string skipped;
};
CaseOrReason case_of(const MeasuredRun& run, const Knowledge& knowledge);
// The sources that case_of knows, as `validate` names them.
std::vector<std::string> known_sources();

}  // namespace trainwright
