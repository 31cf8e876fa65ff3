// What an estimate says beside its table: bytes on the host, routed tokens, what rests on facts
// that nobody has read, and advice on the layout.
#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/estimate.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"
#include "trainwright/trainer/known.h"

namespace trainwright::cli {
namespace {

Bytes bytes_in(const RankClass& rank, Category category) {
  return rank.bytes[static_cast<std::size_t>(category)];
}

// Of the same question without a replay: tensors alone.
std::optional<MemoryEstimate> tensors_of(const Question& setting,
                                         const MemoryConstants& constants) {
  MemoryQuestion question = memory_question(setting, constants);
  question.slack = Slack::None;
  auto estimate = estimate_memory(question);
  if (!estimate) return std::nullopt;
  return *std::move(estimate);
}

std::string uneven_note(const UnevenLoad& uneven, const Answer& answer) {
  const std::int64_t ep = answer.setting.read.layout.ep;
  std::string text = fmt::format("Tokens go to experts as {} says: {}", uneven.load.name,
                                 busiest_text(uneven.busiest, ep));
  if (ep == 1) return text + ".";
  return text + fmt::format(
                    ", so that a step takes {} instead of {}; {} times the mean of a stage's "
                    "layers, which takes {} more.",
                    seconds_text(answer.time.step), seconds_text(uneven.step_if_even),
                    significant(uneven.busiest.over_layers, 3), to_text(uneven.more));
}

// Tokens are dealt to experts evenly; what twice as many on the fullest rank would add.
std::string routing_note(const Answer& answer, const MemoryConstants& constants) {
  if (answer.uneven) return uneven_note(*answer.uneven, answer);
  if (!has_experts(answer.setting.model)) return {};
  MemoryConstants uneven = constants;
  uneven.expert_imbalance = 2 * constants.expert_imbalance;
  const auto even = tensors_of(answer.setting, constants);
  const auto twice = tensors_of(answer.setting, uneven);
  if (!even || !twice) return {};
  const Bytes more = worst_of(*twice).allocated - worst_of(*even).allocated;
  return fmt::format(
      "Tokens are taken to spread evenly over experts; twice the share on one rank takes {} more.",
      to_text(more));
}

// "activations (kernel fused-norm, layers)": a large part of the table, and which of its facts are
// assumed or learned.
class Grounds {
 public:
  Grounds(const Trainer& trainer, const RankClass& rank) : trainer_(trainer), rank_(rank) {}

  template <class Facts>
  void add(Category category, std::string name, const Facts* facts) {
    if (facts != nullptr) add(category, std::move(name), facts->source);
  }
  void add(Category category, std::string name, const std::string& source) {
    constexpr std::int64_t kLarge = 10;  // a tenth of what tensors take
    if (!is_guess(source) || bytes_in(rank_, category) * kLarge < rank_.allocated) return;
    auto known = std::find_if(parts_.begin(), parts_.end(),
                              [&](const auto& part) { return part.first == category; });
    if (known == parts_.end()) known = parts_.insert(known, {category, {}});
    known->second.push_back(std::move(name));
  }
  std::string text() const {
    std::vector<std::string> texts;
    for (const auto& [category, facts] : parts_) {
      texts.push_back(fmt::format("{} ({})", words_of(category), join(facts, ", ")));
    }
    if (texts.empty()) return {};
    return fmt::format("Not verified against the source of {} (assumed or fitted): {}.",
                       trainer_.title, join(texts, "; "));
  }

 private:
  const Trainer& trainer_;
  const RankClass& rank_;
  std::vector<std::pair<Category, std::vector<std::string>>> parts_;
};

std::string assumed_note(const Answer& answer) {
  const Trainer& trainer = answer.setting.trainer;
  const Layout& layout = answer.setting.read.layout;
  Grounds grounds(trainer, worst_of(answer.estimate));
  const PrecisionFacts* precision = find_kind(trainer.precisions, layout.precision);
  for (const Category of : {Category::Weights, Category::MainWeights, Category::Gradients}) {
    grounds.add(of, fmt::format("precision {}", name_of(layout.precision)), precision);
  }
  grounds.add(Category::Gradients, fmt::format("sharding {}", name_of(layout.sharding)),
              find_kind(trainer.shardings, layout.sharding));
  grounds.add(Category::OptimizerStates, std::string(name_of(answer.setting.job.optimizer)),
              find_kind(trainer.optimizers, answer.setting.job.optimizer));
  for (const Category of : {Category::Activations, Category::Transients}) {
    grounds.add(of, "how layers are written", trainer.code.source);
    for (const Kernel& kernel : trainer.kernels) {
      if (kernel.use < Use::ByDefault) continue;
      grounds.add(of, fmt::format("kernel {}", name_of(kernel.kind)), &kernel);
    }
  }
  if (!trainer.losses.empty()) {
    grounds.add(Category::Logits, "loss " + trainer.losses.front().name, &trainer.losses.front());
  }
  grounds.add(Category::PointToPoint, "pipeline", trainer.pipeline.source);
  return grounds.text();
}

// Products of fp32 are timed as TF32, which PyTorch leaves off unless asked, and attention as if it
// had kernels of 16 bits.
std::string fp32_note(const Question& question) {
  if (question.read.layout.precision != PrecisionKind::Fp32) return {};
  const Accelerator& on = question.cluster.groups.front().accelerator;
  const double times = peak_or_wider(on, ComputeType::Tf32) / peak_or_wider(on, ComputeType::Fp32);
  if (times <= 1) return {};
  return fmt::format(
      "Products of fp32 are timed as TF32, as with torch.set_float32_matmul_precision('high'); "
      "PyTorch leaves it off, and then they take up to {:.0f} times as long. Attention is timed as "
      "in 16 bits, and takes longer in fp32, too.",
      times);
}

// Beside a quantised base, what a job takes more than it would without that.
std::optional<Bytes> more_than(const Answer& answer, const Job& other,
                               const MemoryConstants& constants) {
  Question changed = answer.setting;
  changed.job = other;
  if (!is_legal(violations(changed))) return std::nullopt;
  const auto as_asked = tensors_of(answer.setting, constants);
  const auto otherwise = tensors_of(changed, constants);
  if (!as_asked || !otherwise) return std::nullopt;
  return worst_of(*otherwise).allocated - worst_of(*as_asked).allocated;
}

// Scripts differ in whether they call peft's function, and nothing else tells.
std::string prepared_note(const Answer& answer, const MemoryConstants& constants) {
  const Question& setting = answer.setting;
  const StoredAs storage(setting.read.layout);
  const bool program = setting.trainer.name != setting.trainer.stack;
  if (!setting.job.lora || program ||
      prepared_as(setting.job, storage, setting.trainer) != Prepared::No)
    return {};
  Job job = setting.job;
  job.lora->prepared = Prepared::Peft;
  const auto more = more_than(answer, job, constants);
  if (!more) return {};
  return fmt::format(
      "A script that calls prepare_model_for_kbit_training of peft takes {} more: --trainer peft, "
      "or prepared=peft in the job; TRL before 0.26 calls it, axolotl, LLaMA-Factory and later TRL "
      "do not.",
      to_text(*more));
}

// What loading leaves behind (accelerate 1.15.0 utils/dataclasses.py cpu_ram_efficient_loading: the
// first process loads the whole checkpoint) is not counted: axolotl publishes 21 GB for a 70B on
// two cards, philschmid.de 22 GB and 127 GB of RAM on four (tests/elsewhere/fine_tuning.csv).
std::string loading_note(const Question& setting) {
  const auto& lora = setting.job.lora;
  const bool few_bits = lora && lora->base == FrozenBase::Nf4;
  if (!few_bits || !setting.read.layout.offload.has(Offload::Parameters)) return {};
  return "What loading takes is not counted: published runs of 70B models with 4-bit weights on "
         "the "
         "host held 21 to 22 GB of each card of 24 GB, and 127 GB of RAM.";
}

// Programs that load in fp32 a model that has 16 bits where it was published.
std::string loaded_note(const Answer& answer, const MemoryConstants& constants) {
  const Question& setting = answer.setting;
  const StoredAs storage(setting.read.layout);
  const bool program = setting.trainer.name != setting.trainer.stack;
  if (!program || setting.job.loaded != LoadedAs::AsTrainer ||
      setting.read.layout.precision != PrecisionKind::Bf16 ||
      weight_dtype(setting.job, storage, setting.trainer) != "fp32")
    return {};
  Job job = setting.job;
  job.loaded = LoadedAs::Bf16;
  const auto more = more_than(answer, job, constants);
  if (!more || *more >= Bytes(0)) return {};
  return fmt::format(
      "{} holds weights in fp32 unless it is told otherwise: in bf16 (loaded=bf16 in "
      "the job) it takes {} less.",
      setting.trainer.title, to_text(Bytes(0) - *more));
}

std::string untaught_note(const Cluster& cluster) {
  if (!is_untaught(cluster)) return {};
  return "No run on such accelerators taught the constants of step times, so that their interval "
         "is wide: --measured with one step of your own narrows it.";
}

// Where a trainer's own code keeps the host busy, which larger micro-batches hide.
std::string hooks_note(const Answer& answer) {
  constexpr double kTold = 0.05;  // of a step
  const Trainer& trainer = answer.setting.trainer;
  const Seconds each = sharding_of(answer.setting.read.layout, trainer).host_per_module;
  const Seconds waits = answer.time.parts[static_cast<std::size_t>(TimePart::Host)];
  if (each == Seconds(0) || waits < answer.time.step * kTold) return {};
  return fmt::format(
      "The accelerators wait for the host, {} of a step: {} takes {} of it for each module in "
      "every pass to gather weights and free them. A larger micro-batch hides that; zero=2 gathers "
      "nothing.",
      seconds_text(waits), trainer.title, seconds_text(each));
}

}  // namespace

std::optional<UnevenLoad> uneven_load(const Answer& answer, const MemoryConstants& constants,
                                      Seconds step_if_even) {
  const ExpertLoad& load = constants.expert_load;
  if (load.kind == ExpertLoad::Kind::Balanced) return std::nullopt;
  MemoryConstants even = constants;
  even.expert_load = {};
  const auto as_asked = tensors_of(answer.setting, constants);
  const auto if_even = tensors_of(answer.setting, even);
  if (!as_asked || !if_even) return std::nullopt;
  const Layout& layout = answer.setting.read.layout;
  return UnevenLoad{
      load,
      busiest_rank(load, answer.setting.model, slice_of(layout, answer.setting.trainer), layout.pp),
      step_if_even, worst_of(*as_asked).allocated - worst_of(*if_even).allocated};
}

std::vector<std::string> estimate_notes(const Answer& answer, const MemoryConstants& constants,
                                        const std::vector<LayoutViolation>& advice) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) {
    if (!note.empty()) notes.push_back(std::move(note));
  };
  if (answer.host) {
    add(fmt::format("Offloaded to host memory: {}, not counting buffers.", to_text(*answer.host)));
  }
  add(routing_note(answer, constants));
  add(prepared_note(answer, constants));
  add(loaded_note(answer, constants));
  add(loading_note(answer.setting));
  add(hooks_note(answer));
  add(fp32_note(answer.setting));
  add(untaught_note(answer.setting.cluster));
  add(doubt_text(answer.estimate.ground, answer.setting.trainer));
  add(assumed_note(answer));
  for (const LayoutViolation& violation : advice) {
    add(fmt::format("Advice: {}{}.", violation.reason,
                    violation.hint.empty() ? "" : "; " + violation.hint));
  }
  return notes;
}

}  // namespace trainwright::cli
