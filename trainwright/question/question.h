#pragma once
// What is asked: in the words of its user, and as the values that answer it.
//
// The command line, tables of measured runs and Python name a model, a cluster, a trainer, a layout
// and a job by the same words, and one reader turns them into values. A model and a trainer may be
// a name, the path of a file, or the file's own text: '{"model_type": "llama", ...}'.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/layout.h"
#include "trainwright/memory/memory.h"
#include "trainwright/model/model.h"
#include "trainwright/schedule/schedule.h"
#include "trainwright/simulate/simulate.h"
#include "trainwright/trainer/trainer.h"
#include "trainwright/work/work.h"

namespace trainwright {

// The data directory: models, accelerators and clusters, trainers.
//
// Each part is read when it is first asked for, and once, however many commands share the
// directory. Not for several threads.
class DataDirectory {
 public:
  explicit DataDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Of the names and contents of all its files, 16 digits: what an answer came from. Files that
  // cannot be read count by their names.
  std::string hash() const;
  Result<const Hardware*> hardware() const;
  Result<const std::vector<Trainer>*> trainers() const;
  Result<Trainer> trainer(std::string_view words) const;  // as trainer_named

 private:
  std::string path_;
  mutable std::optional<Result<Hardware>> hardware_;
  mutable std::optional<Result<std::vector<Trainer>>> trainers_;
  mutable std::optional<std::string> first_called_;  // the trainer asked for first, read alone
  mutable std::optional<Result<std::vector<Trainer>>> first_trainers_;
  mutable std::optional<std::string> hash_;
};

struct Words {
  std::string model;      // "llama-2-7b", a config.json, or its text
  std::string on;         // "64xH100", a known cluster or a file
  std::string trainer;    // "megatron@0.12", a file (trainer.h, read_trainer_variant) or its text
  std::string layout;     // "tp=8,pp=4,..."
  std::string job;        // "lora=16"; empty: everything is trained, with AdamW
  std::string attention;  // "flash"; empty: as the trainer does
  std::string schedule;   // a CSV's path, or a kind to make one of; empty: as the layout says
  // "yes": a vendor's own recipe on a machine set up for it, whose time constants are as_tuned.
  std::string tuned = {};
  friend bool operator==(const Words&, const Words&) = default;
};
inline constexpr const char* kUsualTrainer = "megatron-core";
// "estimate", the model, "--on", ...: what the command line takes for them.
std::vector<std::string> estimate_arguments(const Words& words);
// A model or a trainer that was given as text is named in a command by the file that it has to be
// saved under first; what that is, for people: "the model's config saved as config.json", or empty.
std::string file_word(const std::string& word, const std::string& file);  // `file` for text
Words with_file_words(Words words);
std::string to_be_saved(const Words& words);
// {"model": "llama-2-7b", "on": ..., ...} without those that are empty: what a plan says that it
// was asked, so that it can be asked about again.
Json to_json(const Words& words);
// Those of a plan: of plan.json, which `export` and `plan --export` write, or of the answer of
// `plan --json`, whose layout is the recommended one.
Result<Words> words_of_plan(const Json& document, const std::string& origin);

// What a layout is judged against. What could not be read is absent, its faults are in `faults`.
struct Surroundings {
  std::optional<Model> model;
  std::optional<Cluster> cluster;
  std::optional<Trainer> trainer;
  std::optional<Job> job;
};
Surroundings read_surroundings(const Words& words, const DataDirectory& data, Diagnostics& faults);

// What a layout's words may leave out there.
LayoutContext layout_context(const Cluster& cluster, const Trainer& trainer);

// A question that owns its values.
struct Question {
  Model model;
  Cluster cluster;
  Trainer trainer;
  ReadLayout read;
  Job job;
  std::optional<AttentionKernel>
      attention;                     // as asked or as the cluster has it; else the trainer's
  std::optional<Schedule> schedule;  // of schedule=csv
};
// All faults of all words at once, after those that the caller has found already.
Result<Question> read_question(const Words& words, const DataDirectory& data,
                               Diagnostics faults = {});
// What is wrong with the layout that is asked about, and with its order of actions.
std::vector<LayoutViolation> violations(const Question& question);
// The questions of memory and of step time; both arguments must outlive them.
MemoryQuestion memory_question(const Question& question, const MemoryConstants& constants);
StepQuestion step_question(const Question& question, const Kernels& kernels,
                           ExpertLoad expert_load);

// What "fp8" alone means: what published recipes of the trainer take for that model on such
// accelerators ("recipes.mxfp8" in its file), else the first low precision that its file lists.
std::optional<PrecisionKind> fp8_recipe(const Trainer& trainer, const Cluster& cluster,
                                        const Model& model);
// "flash", "sdpa", ...; nothing for an empty word.
Result<std::optional<AttentionKernel>> attention_named(const std::string& word);
// What runs on the cluster: as asked; unasked nothing, which is the trainer's own, or what the
// trainer falls back to where an accelerator is too old for its flash attention or the family's
// code has none by default. Diagnoses flash attention that is asked for there.
Result<std::optional<AttentionKernel>> attention_on(const Cluster& cluster, const Trainer& trainer,
                                                    const Model& model,
                                                    std::optional<AttentionKernel> asked);
// An order of actions, checked to be free of deadlock.
Result<Schedule> read_order(const std::string& path);

// The value, or nothing and its faults beside the others.
template <class T>
std::optional<T> value_or_faults(Result<T> result, Diagnostics& faults) {
  if (result) return *std::move(result);
  for (Diagnostic& fault : result.error().diagnostics) faults.push_back(std::move(fault));
  return std::nullopt;
}

}  // namespace trainwright
