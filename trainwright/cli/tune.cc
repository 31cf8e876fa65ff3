// trainwright tune: the few real trials that are worth running.
#include "trainwright/cli/tune.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "trainwright/base/text.h"
#include "trainwright/cli/export.h"

namespace trainwright::cli {
namespace {

// What measured steps hang on, and not what is known of it: a corrected figure of an accelerator,
// or a new name of it, keeps the history.
std::string identity_of(const Model& model) {
  return fmt::format("{} parameters, {} of them active", parameters(model).total().value(),
                     active_parameters(model).total().value());
}
std::string identity_of(const Cluster& cluster) {
  std::vector<std::string> groups;
  for (const trainwright::Group& group : cluster.groups) {
    groups.push_back(
        fmt::format("{}x{} in nodes of {}", group.count, group.accelerator.name, group.per_node));
  }
  return join(groups, ", ");
}

HistoryKey key_of(const TuneQuestion& of) {
  const Wanted& wanted = of.wanted;
  HistoryKey key = {
      {"model", identity_of(wanted.model)},
      {"cluster", identity_of(wanted.cluster)},
      {"trainer", fmt::format("{}@{}", wanted.trainer.name, to_text(wanted.trainer.version))},
      {"job", to_text(wanted.job)},
      {"step", same_step(wanted.gbs, wanted.seq, wanted.precision)},
      {"command", join(of.job.command, "\n")},
      {"software", of.invocation.text("software").value_or("")}};
  if (of.job.sbatch) key["slurm"] = join(*of.job.sbatch, " ");
  return key;
}

void read_terms(const Invocation& invocation, TuneJob& job, Diagnostics& faults) {
  const auto positive = [&](const char* name, auto& into, double scale = 1) {
    const auto value = invocation.number(name);
    if (value && !(*value > 0))
      faults.push_back({fmt::format("--{}", name), "it is not above 0", ""});
    if (value) into = Seconds(*value * scale);
  };
  positive("minutes", job.terms.most_time, 60);
  std::optional<Seconds> ignored;  // The nodes are not known yet.
  positive("node-hours", ignored);
  positive("start-up", job.terms.start_up);
  positive("trial-limit", job.time_limit);
  positive("silence", job.silence);
  for (const char* name : {"trials", "candidates"}) {
    if (invocation.integer(name).value_or(1) < 1) {
      faults.push_back({fmt::format("--{}", name), "it is not above 0", ""});
    }
  }
  job.terms.most_trials = invocation.integer("trials");
  job.terms.steps = invocation.integer("steps").value_or(job.terms.steps);
  if (job.terms.steps < 6) {
    faults.push_back({"--steps", "the first five steps are warm-up", "for instance 20"});
  }
  job.reading.pattern = invocation.text("step-pattern").value_or("");
  if (const auto fault = step_pattern_fault(job.reading.pattern);
      fault && !job.reading.pattern.empty()) {
    faults.push_back({"--step-pattern", *fault, "for instance 'step time: ([0-9.]+) s'"});
  }
  if (const auto options = invocation.text("slurm")) {
    job.sbatch = value_or_faults(sbatch_options(*options), faults);
  }
  job.command = invocation.texts("command");
  if (job.command.empty()) {
    faults.push_back({"trainwright tune", "it does not say what to run",
                      "the command of a trial comes last: -- torchrun train.py {settings}"});
  }
}

Result<Output> run_on(const Invocation& invocation, const std::vector<std::string>& renewed) {
  const auto question = TW_TRY(tune_question(invocation));
  question->job.trials = TW_TRY(candidates(*question));
  // Only the program itself, which can say what it does meanwhile, starts anything.
  if (invocation.tell == nullptr) {
    return fail("trainwright tune", "no trial can be started from here",
                "run the program `trainwright tune` instead");
  }
  History history = TW_TRY(
      History::begin(*invocation.text("history"), question->key, asked_text(invocation), renewed));
  question->job.program = invocation.program;
  question->job.host_is_gone = invocation.flag("host-is-gone");
  TuneHooks hooks;
  hooks.tell = invocation.tell;
  if (invocation.interrupted != nullptr) hooks.interrupted = invocation.interrupted;
  if (invocation.progress != nullptr) {
    hooks.watching = [&](const TrialUnderWay& now) {
      if (const auto records = history.records()) {
        invocation.progress(under_way_text(now, *records, question->job.terms, invocation.width));
      }
    };
  }
  hooks.tell(fmt::format("{} layouts that could be tried", question->job.trials.size()));
  const auto tuned = run_trials(history, question->job, hooks);
  if (invocation.progress != nullptr) invocation.progress("");
  if (!tuned) return tl::unexpected(tuned.error());
  return tuned_output(invocation, history, *tuned);
}

Result<Output> run_tune(const Invocation& invocation) { return run_on(invocation, {}); }

std::string in_shell_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

// What a history would start, which only its own writer knows without looking.
std::string started_by(const TuneJob& job) {
  const std::string command = in_shell_words(job.command);
  return job.sbatch ? fmt::format("sbatch {}: {}", in_shell_words(*job.sbatch), command) : command;
}

// Of the folder or of the database in it, where that is somebody else.
std::optional<uid_t> other_owner(const std::string& folder) {
  for (const std::string& path : {folder, folder + "/history.sqlite"}) {
    struct stat found = {};
    if (stat(path.c_str(), &found) == 0 && found.st_uid != geteuid()) return found.st_uid;
  }
  return std::nullopt;
}

// Nothing if what is stored may be started: given anew, or known to be one's own.
std::optional<Diagnostic> doubt_about(const Invocation& invocation, const TuneJob& job,
                                      const std::string& folder) {
  const bool own_words =
      !invocation.texts("command").empty() && (!job.sbatch || invocation.text("slurm"));
  const auto owner = other_owner(folder);
  if (!owner || own_words || invocation.flag("yes")) return std::nullopt;
  return Diagnostic{
      folder,
      fmt::format("belongs to another user (uid {}), and going on with it starts, as you: {}",
                  *owner, started_by(job)),
      fmt::format("--yes if that is what you want, or the command anew after --{}",
                  job.sbatch ? ", and --slurm" : "")};
}

// What of a question may be said anew: how far to go, and how a trial is started.
constexpr std::array kRenewable = {"trials",      "minutes", "node-hours", "slurm",
                                   "trial-limit", "silence", "command"};

Result<Output> run_resume(const Invocation& invocation) {
  const std::string folder = *invocation.text("history");
  std::unique_ptr<TuneQuestion> question;
  {
    const History looked = TW_TRY(History::look(folder));
    question = TW_TRY(tune_question(invocation, looked));
  }
  if (auto doubt = doubt_about(invocation, question->job, folder)) {
    return fail(Diagnostics{*std::move(doubt)});
  }
  if (invocation.tell != nullptr) invocation.tell("starts: " + started_by(question->job));
  Invocation again = question->invocation;
  again.values["history"] = {folder};
  return run_on(again, {"command", "slurm"});
}

std::vector<Argument> budget_arguments() {
  using Kind = Argument::Kind;
  return {{"--trials", Kind::Integer, "at most so many trials", false, "N"},
          {"--minutes", Kind::Number, "at most so long, all trials together", false, "MINUTES"},
          {"--node-hours", Kind::Number,
           "at most so many hours, all trials together, times the nodes of --on", false, "HOURS"},
          {"--host-is-gone", Kind::Flag,
           "the host that a trial was started on is down, or was started anew"}};
}

std::vector<Argument> run_arguments() {
  using Kind = Argument::Kind;
  return {
      {"command", Kind::Texts,
       "after --, the command of a trial as words: {settings} stands for the trainer's settings, "
       "{folder} for the folder with its files, {layout} and {steps} for these",
       false, "-- COMMAND"},
      {"--slurm", Kind::Text,
       "submit each trial with sbatch and these options, and follow it by its job id (default: run "
       "the command here)",
       false, "OPTIONS"},
      {"--among", Kind::Texts,
       "only these layouts (default: what `plan` finds); repeatable. schedule=FILE.csv runs the "
       "order of a file, and a kind that the trainer has not is written for it as one, if it reads "
       "files",
       false, "LAYOUT"},
      {"--candidates", Kind::Integer, "families of layouts of `plan` (default: 40)", false, "N"},
      {"--steps", Kind::Integer, "steps of a trial, five of them warm-up (default: 20)", false,
       "N"},
      {"--tokens", Kind::Text, "tokens of the whole run, such as 15T: tells what a trial is worth",
       false, "TOKENS"},
      {"--trial-limit", Kind::Number, "seconds after which a trial is ended (default: 3,600)",
       false, "SECONDS"},
      {"--silence", Kind::Number, "seconds of a silent log that are a hang (default: 600)", false,
       "SECONDS"},
      {"--start-up", Kind::Number,
       "seconds until the first step, for what a trial costs (default: 120)", false, "SECONDS"},
      {"--step-pattern", Kind::Text,
       "regular expression whose group is the seconds of a step, for logs of no known trainer",
       false, "REGEX"},
      {"--software", Kind::Text,
       "versions that measured steps hang on, such as 'torch 2.13, NCCL 2.27'", false, "TEXT"}};
}

Command run_command() {
  return {
      .name = "run",
      .summary = "run the trials that can still change the decision, and learn from each",
      .details =
          "Starts with the candidates of `plan`. Each trial is the one with the most to gain for "
          "its "
          "cost; its end, good or bad, moves the predictions of all others. Stops when no other "
          "can be "
          "faster, when another trial is not worth its time, or at the budget. The history "
          "survives a "
          "kill at any moment: `resume` goes on. Only what was started here is ended.",
      .examples = {"trainwright tune run llama-3.1-8b --on 8xH100 --batch 128 --seq 8192 --trainer "
                   "torchtitan --history tuning --trials 6 -- torchrun --nproc-per-node 8 -m "
                   "torchtitan.train {settings} --training.steps {steps}",
                   "trainwright tune run llama-3.1-70b --on 64xH100 --batch 512 --seq 8192 "
                   "--trainer megatron-lm --history tuning --node-hours 40 --slurm='--nodes 8 "
                   "--ntasks-per-node 8 --gpus-per-node 8 --time 60' -- srun python "
                   "pretrain_gpt.py {settings} --mock-data --train-iters {steps}"},
      .topics = {"job"},
      .arguments = joined(
          {surroundings_arguments(),
           {{"--batch", Argument::Kind::Batch, "sequences in a step, or tokens: 4M-tokens", true,
             "N"},
            {"--seq", Argument::Kind::Integer, "tokens in a sequence; 4k is 4,096", true, "TOKENS"},
            history_argument()},
           run_arguments(),
           budget_arguments(),
           training_arguments(),
           verdict_arguments(),
           limit_arguments()}),
      .run = run_tune};
}

Command resume_command() {
  return {
      .name = "resume",
      .summary = "go on with a history: after a kill, or with a larger budget",
      .details =
          "Model, cluster and batch are those that the history was begun with; the command and the "
          "options of sbatch too, unless they are given anew. The "
          "command is printed before it is started; in a history that belongs to "
          "another user it is started only with --yes, or given anew after --.",
      .examples =
          {"trainwright tune resume --history tuning --trials 10",
           "trainwright tune resume --history tuning --slurm='--nodes 8 --partition other'"},
      .arguments =
          joined({{history_argument(),
                   {"command", Argument::Kind::Texts, "after --, the command of a trial anew",
                    false, "-- COMMAND"},
                   {"--slurm", Argument::Kind::Text, "options of sbatch anew", false, "OPTIONS"},
                   {"--trial-limit", Argument::Kind::Number,
                    "seconds after which a trial is ended, anew", false, "SECONDS"},
                   {"--silence", Argument::Kind::Number,
                    "seconds of a silent log that are a hang, anew", false, "SECONDS"},
                   {"--yes", Argument::Kind::Flag,
                    "start the command of a history that belongs to another user"}},
                  budget_arguments()}),
      .run = run_resume};
}

}  // namespace

Argument history_argument() {
  return {"--history", Argument::Kind::Text, "the folder of trials and what was learned", true,
          "DIR"};
}

std::string asked_text(const Invocation& invocation) {
  Json values = Json::object();
  for (const auto& [name, words] : invocation.values) {
    Json list = Json::array();
    for (const std::string& word : words) list.push(Json::of(word));
    if (name != "json" && name != "width" && name != "history") values.add(name, std::move(list));
  }
  return to_line(values);
}

Result<std::unique_ptr<TuneQuestion>> tune_question(const Invocation& invocation) {
  auto made = std::make_unique<TuneQuestion>(TuneQuestion{.invocation = invocation});
  TuneQuestion& of = *made;
  Diagnostics faults;
  read_terms(invocation, of.job, faults);
  auto wanted = value_or_faults(read_wanted(invocation), faults);
  if (!wanted) return fail(std::move(faults));
  of.wanted = *std::move(wanted);
  for (const std::string& text : invocation.texts("among")) {
    if (auto one = value_or_faults(tune_layout(text, of.wanted, "--among"), faults)) {
      of.among.push_back(*std::move(one));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  if (of.wanted.tokens) {
    of.job.terms.run_steps = *of.wanted.tokens / static_cast<double>(of.wanted.gbs * of.wanted.seq);
  }
  if (const auto hours = of.invocation.number("node-hours")) {
    const Seconds most(3600 * *hours / static_cast<double>(node_count(of.wanted.cluster)));
    of.job.terms.most_time = std::min(of.job.terms.most_time.value_or(most), most);
  }
  of.job.reading.size = {.ranks = accelerator_count(of.wanted.cluster),
                         .sequences = of.wanted.gbs,
                         .tokens = of.wanted.gbs * of.wanted.seq};
  of.job.reading.steps = of.job.terms.steps;
  of.job.reading.endings = TW_TRY(load_endings(of.invocation.data.path()));
  of.steps.emplace(step_model(question_of(of.wanted)));
  of.key = key_of(of);
  if (const std::string orders = TW_TRY(orders_in(of)); !orders.empty()) of.key["orders"] = orders;
  of.job.trial_of = [&of](const std::string& text) { return trial_for(of, text); };
  of.job.files = [&of](const std::string& text) -> Result<TrialFiles> {
    return trial_files(of.invocation, TW_TRY(words_for(of, text)));
  };
  return made;
}

Result<std::unique_ptr<TuneQuestion>> tune_question(const Invocation& invocation,
                                                    const History& history) {
  Invocation asked = invocation;
  asked.values.clear();
  const std::string text = TW_TRY(history.asked());
  const Json values = TW_TRY(parse_json(text, history.folder()));
  for (const JsonMember& member : values.members) {
    std::vector<std::string>& words = asked.values[member.key];
    for (const Json& word : member.value.items) words.push_back(word.string);
  }
  for (const char* name : kRenewable) {
    const auto given = invocation.values.find(name);
    if (given != invocation.values.end() && !given->second.empty())
      asked.values[name] = given->second;
  }
  return tune_question(asked);
}

Command tune_command() {
  return {.name = "tune",
          .summary = "the few real trials worth running, learned from, never lost",
          .examples = {"trainwright tune run llama-3.1-8b --on 8xH100 --batch 128 --seq 8192 "
                       "--trainer torchtitan --history tuning -- torchrun --nproc-per-node 8 -m "
                       "torchtitan.train {settings} --training.steps {steps}",
                       "trainwright tune status --history tuning"},
          .commands = {run_command(), resume_command(), tune_status_command(), tune_show_command(),
                       tune_export_command()}};
}

}  // namespace trainwright::cli
