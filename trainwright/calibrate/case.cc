// From runs to cases: who makes them, and what they share.
#include "trainwright/calibrate/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/calibrate/draft.h"

namespace trainwright {
namespace {

using detail::Draft;
using detail::DraftOrReason;
using detail::TrainerChoice;

using Maker = DraftOrReason (*)(const MeasuredRun&, const Knowledge&);
// Sorted by source.
constexpr std::array<std::pair<std::string_view, Maker>, 12> kMakers{{
    {"aleph-alpha-2023", detail::aleph_alpha},
    {"bigscience_bloom_prequel", detail::bloom_prequel},
    {"flagperf", detail::flagperf},
    {"korthikanti2022", detail::korthikanti},
    {"megatron_golden", detail::megatron_golden},
    {"nanotron_playbook", detail::nanotron},
    {"sailor", detail::sailor},
    {"simumax_b200", detail::simumax_b200},
    {"vocab_parallel", detail::vocabulary_parallel},
    {"vocab_parallel_artifact", detail::vocabulary_parallel},
    {"zbh1_3090", detail::zbh1_3090},
    {"zero_bubble", detail::zero_bubble},
}};

DraftOrReason draft_of(const MeasuredRun& run, const Knowledge& knowledge) {
  for (const auto& [source, maker] : kMakers) {
    if (source == run.source) return maker(run, knowledge);
  }
  return detail::skip("no case is made of this source");
}

std::string key_of(const TrainerChoice& choice) {
  std::string key = choice.name + "|" + choice.loss + (choice.made_wide ? "|wide" : "");
  for (const auto& [kind, on] : choice.kernels) {
    key += fmt::format("|{}={}", name_of(kind), on ? 1 : 0);
  }
  for (const auto& [library, bytes] : choice.workspaces) {
    key += fmt::format("|{}={}", library, bytes);
  }
  return key;
}

// The trainer with its kernels always or never used, and the chosen loss first.
Trainer switched(Trainer trainer, const TrainerChoice& choice) {
  for (const auto& [kind, on] : choice.kernels) {
    for (Kernel& kernel : trainer.kernels) {
      if (kernel.kind == kind) kernel.use = on ? Use::Always : Use::Never;
    }
  }
  for (const auto& [library, bytes] : choice.workspaces) {
    for (Workspace& workspace : trainer.workspaces) {
      if (workspace.library == library) workspace.bytes = workspace.before_hopper = bytes;
    }
  }
  trainer.code.weights_made_wide |= choice.made_wide;
  const auto loss = std::find_if(trainer.losses.begin(), trainer.losses.end(),
                                 [&](const Loss& other) { return other.name == choice.loss; });
  if (loss != trainer.losses.end()) {
    loss->use = Use::Always;
    std::rotate(trainer.losses.begin(), loss, loss + 1);
  }
  return trainer;
}

// Gives equal things one id.
class CaseBook {
 public:
  explicit CaseBook(const Knowledge& knowledge) : knowledge_(knowledge) {}

  void add(const MeasuredRun& run, std::size_t index) {
    DraftOrReason draft = draft_of(run, knowledge_);
    std::string reason = draft ? settle(*draft) : draft.error();
    if (!reason.empty()) {
      cases_.skipped.push_back({run.source, run.source_ref, std::move(reason)});
      return;
    }
    Case& made = draft->made;
    made.source = run.source;
    made.run = index;
    made.label = run.source_ref;
    made.fold = fold_of(run);
    made.capacity = cases_.cluster_of(made).groups.front().accelerator.memory_visible;
    cases_.cases.push_back(std::move(made));
  }

  Cases finish() && { return std::move(cases_); }

 private:
  // Fills in the ids; a reason where there is no such cluster.
  std::string settle(Draft& draft) {
    if (!clusters_.contains(draft.cluster)) {
      auto cluster = parse_cluster(draft.cluster, knowledge_.hardware);
      if (!cluster) return "no such cluster: " + cluster.error().diagnostics.front().what;
      clusters_.emplace(draft.cluster, static_cast<std::int32_t>(cases_.clusters.size()));
      cases_.clusters.push_back(*std::move(cluster));
    }
    draft.made.cluster = CaseClusterId(clusters_.at(draft.cluster));
    const std::string key = key_of(draft.trainer);
    if (!trainers_.contains(key)) {
      trainers_.emplace(key, static_cast<std::int32_t>(cases_.trainers.size()));
      cases_.trainers.push_back(
          switched(*detail::known_trainer(knowledge_, draft.trainer.name), draft.trainer));
    }
    draft.made.trainer = CaseTrainerId(trainers_.at(key));
    const auto same = std::find(cases_.models.begin(), cases_.models.end(), draft.model);
    draft.made.model = CaseModelId(static_cast<std::int32_t>(same - cases_.models.begin()));
    if (same == cases_.models.end()) cases_.models.push_back(std::move(draft.model));
    return {};
  }

  const Knowledge& knowledge_;
  Cases cases_;
  std::map<std::string, std::int32_t> clusters_;
  std::map<std::string, std::int32_t> trainers_;
};

}  // namespace

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Allocated: return "allocated";
    case MemoryKind::Reserved: return "reserved";
    case MemoryKind::Driver: return "driver";
    case MemoryKind::Static: return "static";
    case MemoryKind::Activations: return "activations";
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

Result<Knowledge> load_knowledge(const std::string& data_directory, Learned learned) {
  Knowledge knowledge;
  knowledge.learned = learned;
  knowledge.hardware = TW_TRY(load_hardware(data_directory));
  knowledge.trainers = TW_TRY(load_trainers(data_directory, learned));
  knowledge.models = TW_TRY(load_zoo(data_directory));
  return knowledge;
}

Cases cases_of(std::span<const MeasuredRun> runs, const Knowledge& knowledge) {
  CaseBook book(knowledge);
  for (std::size_t i = 0; i < runs.size(); ++i) book.add(runs[i], i);
  return std::move(book).finish();
}

std::vector<std::string> known_sources() {
  std::vector<std::string> sources;
  for (const auto& entry : kMakers) sources.emplace_back(entry.first);
  return sources;
}

}  // namespace trainwright
