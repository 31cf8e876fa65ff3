#pragma once
// A plan in a trainer's own words, and back.
//
// A trainer is told what to do by settings: options of a command line, entries of a file, variables
// of the environment. Which of them say what a layout and a job say is data (data/trainers): under
// "settings" for our keys, and as the "setting" of every offer (a precision, a way to recompute).
// A setting is a list of words:
//
//   --option [value ...]     an option
//   section.key[=value]      an entry of a file
//   NAME[=value]             a variable of the environment, in capitals
//
// and its values have placeholders:
//
//   N          the number                      a|b|c     one of them: a kind by its place,
//   ...        a list; [...] as one value                a stage of ZeRO, or no and yes
//   LETTERS    what the stages hold as Megatron writes it, Et*15|t*17L
//   MODULES    the same by the names of modules ("stage_modules"):
//   [[tok_embeddings,layers.0],[...]] PER_STAGE  layers of a stage
//
// For the way back alone: "unasked" are settings that hold where none is given (of one model:
// "unasked.NAME"), ANY for one that decides nothing. "gradients.bf16.mxfp8" says a precision,
// too. "uncounted": what is not counted, each setting with its idle value; others are refused.
// "read.ENTRIES" is another spelling of entries of a layout, "why.ENTRIES" why, if assumed.
//
// Without a value it gets the number, or true. "key.value" is about one value of a key and goes
// before all else but "key.value.alone", on one accelerator, and "key.value.ddp", under one
// sharding; "script.key" is what a script of Hugging Face's Trainer is told too; "-" says that the
// trainer does it, but not by a setting. "always", "with_pp" and "with_ep" are set on every run, on
// every pipeline and wherever experts are spread; "key.unasked" where a switch is not on. A number
// 1 is left out unless its key says otherwise ("tp.1"), being what trainers do unasked, save those
// that start from a configuration of theirs.
//
// The keys of these settings are all that is ever written (`known_keys`): most trainers take a
// misspelt one without a word.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/cluster/cluster.h"
#include "trainwright/export/orchestrators.h"
#include "trainwright/layout/layout.h"
#include "trainwright/model/model.h"
#include "trainwright/question/question.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// How a target takes its settings.
enum class SettingsForm {
  Options,    // words of a command line: --option value, --section.key value
  Overrides,  // words of a command line: section.key=value
  Toml,
  Yaml,
  Json,
};
enum class Launcher { Megatron, Bridge, Titan, Deepspeed, Accelerate, Automodel, Nanotron, Paddle };
struct Target {
  std::string_view name;     // "megatron-lm"
  std::string_view trainer;  // whose facts a plan for it rests on
  Version from;              // the first version of the trainer that takes this form
  SettingsForm form = SettingsForm::Options;
  std::string_view file;  // that holds the settings
  Launcher launcher = Launcher::Megatron;
  // Which weights are trained is decided in the user's script, not in these settings.
  bool script_chooses_weights = false;
};
std::span<const Target> targets();
std::vector<std::string> target_names();
// The trainer that a target stands for; empty for what is no target.
std::string trainer_of_target(std::string_view name);
// By its name, or the one that the trainer itself is told by if there is no name.
Result<Target> find_target(std::string_view name, const Trainer& trainer);

struct Setting {
  std::string key;                  // "--bf16", "parallelism.pipeline_parallel_degree"
  std::vector<std::string> values;  // none: it stands alone. A list is one value: [a,[b,c]]
  std::string of;                   // our key
  std::string why;                  // a few words for a comment; may be empty
  std::string where = {};           // it was read, "run.sh:12"; may be empty
  friend bool operator==(const Setting&, const Setting&) = default;
};
bool is_environment(const Setting& setting);  // a variable of it

// What is exported. The schedule is that of schedule=csv, if there is one.
struct Plan {
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Layout& layout;
  const Job& job;
  const Schedule* schedule = nullptr;
  std::optional<AttentionKernel> attention = {};  // as asked; otherwise the trainer's own
};
// What a target cannot be told, and why.
struct Unsayable {
  std::string what, why;  // "recompute=full:2"
  friend bool operator==(const Unsayable&, const Unsayable&) = default;
};
struct Translation {
  std::vector<Setting> settings;
  std::vector<Unsayable> unsayable;  // empty: the settings say all of the plan
  Layout nearest;                    // the layout without what cannot be said
  std::vector<std::string> notes;    // what the user's own script has to do
};
// A plan that is not legal may have settings that make no sense, and fewer reasons beside them.
Translation translate(const Plan& plan, const Target& target);

// Every key that the trainer's settings name, sorted.
std::vector<std::string> known_keys(const Trainer& trainer, const Target& target);

// The model as arguments of that version of Megatron-LM, for sequences of so many tokens; model.h
// reads them back as the same model. Diagnoses what they cannot describe.
Result<std::vector<Setting>> megatron_model(const Model& model, std::int64_t sequence,
                                            const Version& version);
// What they leave at Megatron-LM's own values, as sentences for the user.
std::vector<std::string> megatron_model_notes(const Model& model);

// As the target reads them: words of a command line, or a file without what is not its own.
std::string settings_text(const std::vector<Setting>& settings, const Target& target);
// A word quoted for a shell where it has to be.
std::string shell_word(const std::string& word);
// As words of a command line, quoted for a shell; subcommands come last.
std::string settings_line(const std::vector<Setting>& settings, const Target& target);
// The same as a list of words, without the environment.
std::vector<std::string> settings_words(const std::vector<Setting>& settings, const Target& target);
Json settings_json(const std::vector<Setting>& settings);

// A user's own file with these settings in it: of TOML and YAML only the lines of their keys
// change, JSON is written anew. Diagnoses what could not be put into it.
Result<std::string> put_into(std::string_view text, std::string_view origin,
                             const std::vector<Setting>& settings, const Target& target);
// What changed, as `diff -u` prints it; empty if nothing did.
std::string line_diff(std::string_view before, std::string_view after, std::string_view name);

// The way back: settings as they stand in a user's own file.
// By its ending; what has none of .toml, .yaml, .json is a command line or a script with one, whose
// own variables are filled in.
SettingsForm form_of(std::string_view path);
Result<std::vector<Setting>> read_settings(std::string_view text, std::string_view origin,
                                           SettingsForm form);
// What a script may do beyond its settings: branches not taken, files not read.
std::vector<std::string> script_notes(std::string_view text, std::string_view origin,
                                      SettingsForm form);
// Whose they are, as far as they show it: "torchtitan@0.3".
std::string trainer_of_settings(const std::vector<Setting>& settings, SettingsForm form);
// What they say in our words. A layout is read back as it was exported but for what the target does
// not carry: translate(understand(translate(plan))) is translate(plan).
struct Unreadable {
  std::string key;           // ours, "tp"
  std::string where, value;  // "run.sh:12 --tensor-model-parallel-size", "$TP"
  friend bool operator==(const Unreadable&, const Unreadable&) = default;
};
struct Understood {
  std::string layout, job, attention;  // "tp=8,...", "lora=8", "eager"
  std::string model, schedule;  // a name of the zoo, or Megatron-LM's arguments as JSON; a path
  std::int64_t ranks = 0;       // of the whole run, if they say so
  std::vector<std::string> not_said;            // what the question still needs: "seq", "gbs"
  std::vector<Unreadable> unreadable;           // numbers that are none: what comes from elsewhere
  std::vector<std::string> notes, not_counted;  // what was assumed; what the answer leaves out
  std::vector<std::string> not_heeded;  // keys that we do not know and that sound of memory or time
  std::int64_t ignored = 0;             // keys that we do not know, the others
};
// On so many ranks and of a model of so many layers, as far as they are known; `beside` are entries
// of a layout that go before what the settings say. Diagnoses batches that contradict each other.
Result<Understood> understand(const std::vector<Setting>& settings, const Trainer& trainer,
                              const Target& target, std::optional<std::int64_t> world,
                              std::optional<std::int64_t> layers = {},
                              std::string_view beside = {});

// A file of an export.
struct Artefact {
  std::string path;  // inside the folder
  std::string text;
};
// What the files say beside the settings.
struct Occasion {
  Words words;                        // the question, for plan.json
  std::vector<std::string> options;   // of `estimate` beside them: "--measured", ...
  std::vector<std::string> expected;  // lines on memory and time
  std::string version;                // of this program
  Json answer = Json::object();       // figures, for plan.json
  Orchestration orchestration = {};   // that starts it, beside a shell and Slurm
};
std::vector<Artefact> write_files(const Plan& plan, const Target& target,
                                  const Translation& translation, const Occasion& occasion);

// For PaddlePaddle's own tuner (3.3.1): auto_tuner.csv, the layouts in their order, but for those
// that it has no words for; auto_tuner.json, which makes it try these and no others, or with
// search_algo "grid" what their values span. None if it can say none. `folder`: where they will be.
std::vector<Artefact> paddle_tuner_files(const Model& model, std::span<const Layout> layouts,
                                         const std::string& folder);

}  // namespace trainwright
#include "trainwright/export/fine_tuning.h"  // parts of the public face; include this header only
#include "trainwright/export/imports.h"
