// Whether the trainer has what a layout asks for, by its own lists.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/layout/findings.h"
#include "trainwright/layout/kinds.h"

namespace trainwright::detail {
namespace {

template <class Entry, class Kind>
void check_kind(const Trainer& trainer, std::string_view key, Kind kind,
                const std::vector<Entry>& offered, Findings& findings) {
  if (find_kind(offered, kind) != nullptr) return;
  std::vector<std::string> kinds;
  for (const Entry& entry : offered) kinds.emplace_back(name_of(entry.kind));
  findings.forbid(fmt::format("{}-offered", key),
                  fmt::format("{} {} has no {} '{}'", trainer.title, to_text(trainer.version), key,
                              name_of(kind)),
                  kinds.empty() ? fmt::format("it has no {} at all", key)
                                : fmt::format("it has {}", enumerate(kinds)));
}

// A trainer may run one schedule with several placements.
void check_schedule(const Case& c, Findings& findings) {
  if (c.layout.pp == 1) return;
  if (c.layout.schedule == ScheduleKind::Csv) {
    // Whoever brings an order asks what it would take; running it is another matter.
    if (find_kind(c.trainer.schedules, ScheduleKind::Csv) != nullptr) return;
    findings.advise("schedule-offered",
                    fmt::format("{} {} reads no order from a file", c.trainer.title,
                                to_text(c.trainer.version)),
                    "the figures hold for a trainer that runs it");
    return;
  }
  check_kind(c.trainer, "schedule", c.layout.schedule, c.trainer.schedules, findings);
  std::vector<std::string> placements;
  for (const TrainerSchedule& schedule : c.trainer.schedules) {
    if (schedule.kind != c.layout.schedule) continue;
    if (schedule.placement == c.layout.placement) return;
    placements.emplace_back(name_of(schedule.placement));
  }
  if (placements.empty()) return;
  findings.forbid("placement-offered",
                  fmt::format("{} {} does not place the stages of {} as {}", c.trainer.title,
                              to_text(c.trainer.version), name_of(c.layout.schedule),
                              name_of(c.layout.placement)),
                  fmt::format("it places them as {}", enumerate(placements)));
}

void check_loss(const Case& c, Findings& findings) {
  if (c.layout.loss.empty()) return;
  std::vector<std::string> names;
  for (const Loss& loss : c.trainer.losses) {
    if (loss.use == Use::Never) continue;
    if (loss.name == c.layout.loss) return;
    names.push_back(loss.name);
  }
  findings.forbid("loss-offered",
                  fmt::format("{} {} has no loss '{}'", c.trainer.title, to_text(c.trainer.version),
                              c.layout.loss),
                  names.empty() ? "leave it out" : fmt::format("it has {}", enumerate(names)));
}

void check_dispatcher(const Case& c, Findings& findings) {
  const DispatcherKind kind = c.layout.dispatcher;
  if (c.layout.ep == 1 || !is_flex(kind) || kind == DispatcherKind::Flex) return;
  check_kind(c.trainer, "dispatcher", kind, c.trainer.flex_backends, findings);
}

void check_gradients(const Case& c, Findings& findings) {
  const PrecisionFacts* precision = find_kind(c.trainer.precisions, c.layout.precision);
  if (c.layout.gradients == GradientDtype::AsTrainer || precision == nullptr) return;
  const auto& offered = precision->gradients;
  const std::string_view asked = name_of(c.layout.gradients);
  if (std::find(offered.begin(), offered.end(), asked) != offered.end()) return;
  findings.forbid("gradients-offered",
                  fmt::format("{} {} has no gradients in {} under precision={}", c.trainer.title,
                              to_text(c.trainer.version), asked, name_of(c.layout.precision)),
                  fmt::format("gradients={}", enumerate(offered, "or")));
}

void check_switches(const Case& c, Findings& findings) {
  for (const Switch what : all_of<Switch>()) {
    const auto kind = overlap_of(what);
    if (!kind) continue;
    const Use use = overlap_use(c.trainer, *kind);
    const std::string trainer = fmt::format("{} {}", c.trainer.title, to_text(c.trainer.version));
    if (c.layout.on.has(what) && use == Use::Never) {
      findings.forbid("switch-offered", fmt::format("{} cannot do {}", trainer, name_of(what)),
                      "leave it out");
    }
    if (c.layout.off.has(what) && use == Use::Always) {
      findings.forbid("switch-offered", fmt::format("{} always has {} on", trainer, name_of(what)),
                      "leave it out");
    }
  }
}

}  // namespace

void check_optimizer(const Job& job, const Trainer& trainer, Findings& findings) {
  check_kind(trainer, "optimizer", job.optimizer, trainer.optimizers, findings);
}

void check_base(const Job& job, const Trainer& trainer, Findings& findings) {
  if (!job.lora || job.lora->base == FrozenBase::AsWeights) return;
  const auto& offered = trainer.adapters.bases;
  if (std::find(offered.begin(), offered.end(), job.lora->base) != offered.end()) return;
  std::vector<std::string> names;
  for (const FrozenBase base : offered) names.emplace_back(name_of(base));
  findings.forbid("base-offered",
                  fmt::format("{} {} has no adapters beside weights in {}", trainer.title,
                              to_text(trainer.version), name_of(job.lora->base)),
                  names.empty() ? fmt::format("lora={}, beside weights as they are", job.lora->rank)
                                : fmt::format("base={}", enumerate(names)));
}

void check_prepared(const Job& job, const Trainer& trainer, Findings& findings) {
  if (!job.lora || job.lora->prepared <= Prepared::No) return;
  const FrozenBase base = job.lora->base;
  if (base != FrozenBase::Nf4 && base != FrozenBase::Int8) {
    findings.forbid("prepared-for-few-bits",
                    fmt::format("models are prepared for frozen matrices in nf4 or int8, not {}",
                                name_of(base)),
                    "base=nf4, or leave prepared out");
  }
  const auto& offered = trainer.adapters.prepared;
  if (std::find(offered.begin(), offered.end(), job.lora->prepared) != offered.end()) return;
  std::vector<std::string> names;
  for (const Prepared way : offered) names.emplace_back(name_of(way));
  findings.forbid("prepared-offered",
                  fmt::format("{} {} has no adapters beside weights that {} has prepared",
                              trainer.title, to_text(trainer.version), name_of(job.lora->prepared)),
                  names.empty() ? "leave prepared out, or ask for the trainer accelerate"
                                : fmt::format("prepared={}", enumerate(names)));
}

// What the program loads, and keeps beside adapters.
void check_loaded(const Job& job, const Trainer& trainer, Findings& findings) {
  const bool exact = std::any_of(trainer.precisions.begin(), trainer.precisions.end(),
                                 [](const PrecisionFacts& of) { return of.master != "none"; });
  if (job.loaded != LoadedAs::AsTrainer && exact) {
    findings.forbid("loaded-offered",
                    fmt::format("{} {} keeps master weights beside those that it reads",
                                trainer.title, to_text(trainer.version)),
                    "leave loaded out; precision=... says what is stored");
  }
  if (!job.lora) return;
  if (job.lora->quantised_experts && !trainer.adapters.quantises_experts) {
    findings.forbid("quantised-experts-offered",
                    fmt::format("{} {} does not store experts in few bits by itself", trainer.title,
                                to_text(trainer.version)),
                    "leave quantised_experts out, or ask for the trainer axolotl");
  }
  Flags<Part> others = job.lora->trained;
  others.bits &= ~Flags<Part>{Part::Embedding, Part::Head}.bits;
  if (!others.empty()) {
    findings.forbid("trained-copies",
                    fmt::format("{} is not trained as a copy beside adapters here",
                                enumerate(names_in(others))),
                    "trained=embedding+head");
  }
}

void check_offered(const Case& c, Findings& findings) {
  const Layout& layout = c.layout;
  check_schedule(c, findings);
  check_kind(c.trainer, "precision", layout.precision, c.trainer.precisions, findings);
  check_optimizer(c.job, c.trainer, findings);
  check_base(c.job, c.trainer, findings);
  check_prepared(c.job, c.trainer, findings);
  check_loaded(c.job, c.trainer, findings);
  check_kind(c.trainer, "sharding", layout.sharding, c.trainer.shardings, findings);
  check_kind(c.trainer, "recompute", layout.recompute.kind, c.trainer.recomputes, findings);
  for (const Recompute& way : layout.recompute_by_stage) {
    check_kind(c.trainer, "recompute", way.kind, c.trainer.recomputes, findings);
  }
  if (layout.cp > 1) {
    check_kind(c.trainer, "cp_kind", layout.cp_kind, c.trainer.cp_kinds, findings);
  }
  for (const Offload what : {Offload::Optimizer, Offload::Activations, Offload::Parameters}) {
    if (layout.offload.has(what)) {
      check_kind(c.trainer, "offload", what, c.trainer.offloads, findings);
    }
  }
  if (layout.vocab_parallel && !c.trainer.pipeline.vocab_parallel) {
    findings.forbid("vocab-parallel-offered",
                    fmt::format("{} {} does not spread embedding and head over the pipeline",
                                c.trainer.title, to_text(c.trainer.version)),
                    "leave out vocab_parallel");
  }
  check_dispatcher(c, findings);
  check_gradients(c, findings);
  check_loss(c, findings);
  check_switches(c, findings);
}

}  // namespace trainwright::detail
