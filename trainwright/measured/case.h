#pragma once
// A measured run as the rest of the program speaks: model, cluster, trainer, layout, readings of
// memory whose meaning is known, and how long a step took. Part of measured.h: include that one.
//
// What a source leaves unsaid comes from its papers and launch scripts. Where only the scored
// figures could tell (which counter a figure was read from, which failures of nanotron are crashes)
// a note or correction begins with "learned:", so that scores can be given with and without.
// Nothing is dropped silently: a run that cannot become a case says why.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/ids.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/layout.h"
#include "trainwright/measured/reading.h"
#include "trainwright/measured/run.h"
#include "trainwright/measured/source.h"
#include "trainwright/model/model.h"
#include "trainwright/question/question.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

using CaseModelId = Id<struct CaseModelTag>;  // indices into Cases
using CaseClusterId = Id<struct CaseClusterTag>;
using CaseTrainerId = Id<struct CaseTrainerTag>;

struct Case {
  std::string source, label, fold;  // label: the place in the source
  std::string time_fold;            // what is left out together when times are scored
  std::string pool;                 // whose times are scored together: its source, or several
  std::string stack;                // the software stack where it is not that of the trainer
  bool tuned = false;               // a vendor's own recipe, tuned for its machine
  std::size_t run = 0;              // its index among the runs
  CaseModelId model;
  CaseClusterId cluster;
  CaseTrainerId trainer;  // with its kernels and loss as that run had switched them
  Layout layout;
  Job job;
  Outcome outcome = Outcome::Ok;
  Bytes capacity;  // what a program can allocate on one accelerator, context and all
  std::vector<MemoryReading> memory;
  std::optional<Seconds> step_time;  // of what ran; a note says if it follows from a rate
  // The same in the words of `trainwright estimate`, but for the order.
  Words words;
  std::optional<Schedule> order;  // where it is not the layout's
  // The kind whose memory a source's `order` stands for. Its clock is that of the kind.
  std::optional<ScheduleKind> stands_for;
  // Broken in the words of its own source, or by its own figures: scored with and without.
  std::string broken;
  // Likewise where only its time contradicts itself or its neighbours.
  std::string time_broken;
  // Why memory is not scored on it.
  std::string no_memory;
  // What had to be guessed although memory or time hangs on it: reported apart.
  std::string undetermined;
  std::vector<std::string> corrections;  // what was read differently than printed, and why
  std::vector<std::string> notes;        // what was assumed, and from where
};

struct SkippedRun {
  std::string source, label, reason;
  std::string no_memory = {};  // as of a case
};

// Cases with what they share: the cases of one sweep have few models, clusters and trainers.
struct Cases {
  std::vector<Model> models;
  std::vector<Cluster> clusters;
  std::vector<Trainer> trainers;
  std::vector<Case> cases;  // in the order of the runs
  std::vector<SkippedRun> skipped;

  const Model& model_of(const Case& c) const { return models[c.model.at()]; }
  const Cluster& cluster_of(const Case& c) const { return clusters[c.cluster.at()]; }
  const Trainer& trainer_of(const Case& c) const { return trainers[c.trainer.at()]; }
};

// What cases are made from: everything known from a data directory.
struct Knowledge {
  std::string data;
  Hardware hardware;
  std::vector<Trainer> trainers;
  Sources sources;
  Learned learned = Learned::Taken;  // whether facts that only rows could tell are used
};
Result<Knowledge> load_knowledge(const std::string& data_directory,
                                 Learned learned = Learned::Taken);

// Every run of a known source becomes a case or is skipped with a reason; runs of other sources are
// skipped likewise. Whatever a run holds, degrees and batches of a case are within the bounds of
// layout.h.
Cases cases_of(std::span<const MeasuredRun> runs, const Knowledge& knowledge);
// The source whose rules a row goes through: of its name, or the one whose rows it is among.
Sources::const_iterator source_of(const MeasuredRun& run, const Sources& sources);
// The sources that become cases, sorted.
std::vector<std::string> known_sources(const Knowledge& knowledge);
// Those of them that memory is scored on.
std::vector<std::string> memory_sources(const Knowledge& knowledge);

}  // namespace trainwright
