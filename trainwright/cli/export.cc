// trainwright export: a plan as the trainer's own files.
#include "trainwright/export/export.h"

#include <fmt/format.h>

#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/estimate.h"
#include "trainwright/cli/export.h"
#include "trainwright/cli/export_check.h"
#include "trainwright/cli/exported_folder.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

trainwright::Plan plan_of(const Question& setting) {
  return {.model = setting.model,
          .cluster = setting.cluster,
          .trainer = setting.trainer,
          .layout = setting.read.layout,
          .job = setting.job,
          .schedule = setting.schedule ? &*setting.schedule : nullptr,
          .attention = setting.attention};
}

std::vector<std::string> expectations(const MemoryEstimate& memory, const StepTime& time,
                                      PrecisionKind precision) {
  return {fmt::format("expected: {:.3g} s/step (90 % interval {:.3g} to {:.3g} s), MFU {}",
                      time.step.value(), time.low.value(), time.high.value(),
                      mfu_text(time, precision)),
          fmt::format("peak memory: {} of {} (total device memory); OOM probability {}",
                      to_text(worst_of(memory).driver), to_text(memory.capacity),
                      chance_text(memory.oom))};
}

// What the files say beside the settings: memory and time as `estimate` has them.
Result<Occasion> occasion_of(const Invocation& invocation, const Words& words,
                             const Question& setting) {
  const MemoryConstants constants = TW_TRY(memory_constants_in(invocation));
  const Layout& layout = setting.read.layout;
  const TimeConstants times =
      TW_TRY(known_times(invocation, words, same_step(layout.gbs, layout.seq, layout.precision)))
          .constants;
  const MemoryEstimate memory = TW_TRY(estimate_memory(memory_question(setting, constants)));
  const StepPieces pieces =
      TW_TRY(step_pieces(step_question(setting, times.kernels, constants.expert_load)));
  const StepTime time = step_time(pieces, stack_of(times.stacks, setting.trainer).constants);
  Occasion occasion{.words = words,
                    .options = verdict_words(invocation),
                    .expected = expectations(memory, time, layout.precision),
                    .version = TRAINWRIGHT_VERSION};
  occasion.words.layout = to_text(layout);
  // What is one's own says more than the name it is based on.
  if (!is_file(words.trainer) && !words.trainer.starts_with('{')) {
    occasion.words.trainer =
        fmt::format("{}@{}", setting.trainer.name, to_text(setting.trainer.version));
  }
  occasion.answer.add("step_seconds", Json::of(time.step.value()))
      .add("driver_bytes", Json::of(worst_of(memory).driver.value()))
      .add("capacity_bytes", Json::of(memory.capacity.value()))
      .add("oom", Json::of(memory.oom));
  occasion.answer = in_nine_digits(std::move(occasion.answer));
  return occasion;
}

// --launch: whose files there are beside launch.sh.
Result<std::vector<Orchestrator>> orchestrators_in(const Invocation& invocation) {
  std::vector<Orchestrator> asked;
  for (const std::string& name : invocation.texts("launch")) {
    const Orchestrator one = TW_TRY(find_orchestrator(name));
    if (std::find(asked.begin(), asked.end(), one) == asked.end()) asked.push_back(one);
  }
  return asked;
}

// What is written all the same, but would run out of memory.
std::string fit_warning(const Occasion& occasion, double risk, int width) {
  const Json& answer = occasion.answer;
  const double oom = answer.find("oom")->number;
  if (oom <= risk) return "";
  const auto bytes = [&](const char* key) { return to_text(Bytes(answer.find(key)->integer)); };
  const bool fits = answer.find("driver_bytes")->integer <= answer.find("capacity_bytes")->integer;
  return wrapped_lines(
      fmt::format("warning: {}: peak memory {} of {}, an OOM probability of {}",
                  fits ? "this is tight" : "this does not fit", bytes("driver_bytes"),
                  bytes("capacity_bytes"), chance_text(oom)),
      width);
}

// The nearest layout that is legal and can be said, if there is one.
std::optional<Layout> nearest_layout(const Question& setting, const Target& target,
                                     const Translation& translation) {
  const Layout& near = translation.nearest;
  trainwright::Plan plan{.model = setting.model,
                         .cluster = setting.cluster,
                         .trainer = setting.trainer,
                         .layout = near,
                         .job = setting.job};
  if (near == setting.read.layout || near.schedule == ScheduleKind::Csv) return std::nullopt;
  if (!is_legal(violations(near, plan.job, plan.model, plan.cluster, plan.trainer))) {
    return std::nullopt;
  }
  if (!translate(plan, target).unsayable.empty()) return std::nullopt;
  return near;
}

// Whether that version of the trainer runs the plan and has settings for all of it.
bool can_say(const Question& setting, const Trainer& trainer, std::string_view to) {
  const auto target = find_target(to, trainer);
  if (!target) return false;
  trainwright::Plan plan{.model = setting.model,
                         .cluster = setting.cluster,
                         .trainer = trainer,
                         .layout = setting.read.layout,
                         .job = setting.job,
                         .schedule = setting.schedule ? &*setting.schedule : nullptr,
                         .attention = setting.attention};
  return is_legal(violations(plan.layout, plan.job, plan.model, plan.cluster, trainer)) &&
         translate(plan, *target).unsayable.empty();
}

// "torchtitan@0.2", the newest other version that can.
std::string version_that_can(const Question& setting, const Target& target,
                             const Invocation& invocation) {
  const auto known = invocation.data.trainers();
  std::string best;
  Version newest;
  for (std::size_t i = 0; known && i < (*known)->size(); ++i) {
    const Trainer& other = (**known)[i];
    if (other.name != setting.trainer.name || other.to == setting.trainer.to) continue;
    if (!best.empty() && other.to < newest) continue;
    const std::string words = fmt::format("{}@{}", other.name, to_text(other.to));
    const auto trainer = invocation.data.trainer(words);
    if (!trainer || !can_say(setting, *trainer, target.name)) continue;
    best = words;
    newest = other.to;
  }
  return best;
}

Output refused(const Question& setting, const Target& target, const Translation& translation,
               const Invocation& invocation) {
  const auto near = nearest_layout(setting, target, translation);
  const std::string other = version_that_can(setting, target, invocation);
  if (invocation.json) {
    Json document = Json::object();
    document.add("legal", Json::of(true))
        .add("target", Json::of(target.name))
        .add("cannot_be_said", to_json(translation.unsayable));
    if (near) document.add("nearest", Json::of(to_text(*near)));
    if (!other.empty()) document.add("version", Json::of(other));
    return {document_text(invocation.data, document), Exit::DoesNotFit};
  }
  std::string text = fmt::format("{} has no settings for part of this plan:\n", target.name);
  for (const Unsayable& one : translation.unsayable) {
    text += wrapped_lines(fmt::format("- {}: {}", one.what, one.why), invocation.width);
  }
  if (near) {
    text += wrapped_lines(
        fmt::format("the nearest layout that it has settings for: {}", to_text(*near)),
        invocation.width);
  }
  if (!other.empty()) {
    text += wrapped_lines(
        fmt::format("another version has settings for all of it: --trainer {}", other),
        invocation.width);
  }
  return {text, Exit::DoesNotFit};
}

Json notes_json(const Translation& translation) {
  Json notes = Json::array();
  for (const std::string& note : translation.notes) notes.push(Json::of(note));
  return notes;
}

Json files_json(const Target& target, const Translation& translation,
                const std::vector<Artefact>& files) {
  Json list = Json::array();
  for (const Artefact& file : files) {
    Json entry = Json::object();
    entry.add("path", Json::of(file.path)).add("text", Json::of(file.text));
    list.push(std::move(entry));
  }
  Json document = Json::object();
  document.add("legal", Json::of(true))
      .add("target", Json::of(target.name))
      .add("settings", settings_json(translation.settings))
      .add("notes", notes_json(translation))
      .add("files", std::move(list));
  return document;
}

Output written(const std::vector<Artefact>& files, const Translation& translation,
               const std::string& folder, int width) {
  Output output;
  for (const Artefact& file : files) {
    output.files.push_back({folder + '/' + file.path, file.text});
    output.text += fmt::format("{}/{}\n", folder, file.path);
  }
  for (const std::string& note : translation.notes) {
    output.text += wrapped_lines("note: " + note, width);
  }
  return output;
}

std::string printed(const std::vector<Artefact>& files) {
  std::string text;
  for (const Artefact& file : files) {
    text += fmt::format("{}==> {} <==\n{}", text.empty() ? "" : "\n", file.path, file.text);
  }
  return text;
}

// The model's own arguments where the target takes them, then the settings.
std::vector<Setting> all_settings(const trainwright::Plan& plan, const Target& target,
                                  const Translation& translation) {
  std::vector<Setting> all;
  if (target.name == "megatron-lm") {
    if (auto model = megatron_model(plan.model, plan.layout.seq, plan.trainer.version))
      all = *std::move(model);
  }
  all.insert(all.end(), translation.settings.begin(), translation.settings.end());
  return all;
}

Json settings_document(const trainwright::Plan& plan, const Target& target,
                       const std::vector<LayoutViolation>& found, const Translation& translation) {
  const auto settings = all_settings(plan, target, translation);
  Json document = Json::object();
  document.add("legal", Json::of(is_legal(found)))
      .add("violations", violations_json(found))
      .add("cannot_be_said", to_json(translation.unsayable))
      .add("world", Json::of(world_size(plan.layout)))
      .add("layout", Json::of(to_text(plan.layout)))
      .add("settings", settings_json(settings))
      .add("text", Json::of(settings_text(settings, target)));
  return document;
}

// What the trainer itself would be asked to judge: also of layouts that we refuse.
Output settings_alone(const Question& setting, const Target& target,
                      const std::vector<LayoutViolation>& found, const Invocation& invocation) {
  const trainwright::Plan plan = plan_of(setting);
  const Translation translation = translate(plan, target);
  const bool refused = !is_legal(found) || !translation.unsayable.empty();
  Output output{.text = {}, .exit = refused ? Exit::DoesNotFit : Exit::Ok};
  output.text = invocation.json ? document_text(invocation.data,
                                                settings_document(plan, target, found, translation))
                                : settings_text(all_settings(plan, target, translation), target);
  return output;
}

// As data/judges/check.py reads it.
Json check_question(const trainwright::Plan& plan, const Target& target,
                    const std::vector<LayoutViolation>& found, const Translation& translation) {
  Json question = settings_document(plan, target, found, translation);
  const auto weakest = std::min_element(
      plan.cluster.groups.begin(), plan.cluster.groups.end(), [](const Group& a, const Group& b) {
        return a.accelerator.compute_capability < b.accelerator.compute_capability;
      });
  const double capability = weakest->accelerator.compute_capability;
  const int major = static_cast<int>(capability);
  Json parts = Json::array();
  parts.push(Json::of(major))
      .push(Json::of(static_cast<int>(std::lround((capability - major) * 10))));
  question.add("target", Json::of(target.name))
      .add("form", Json::of(target.form == SettingsForm::Toml ? "toml" : "words"))
      .add("stages", Json::of(plan.layout.pp))
      .add("capability", std::move(parts))
      .add("transformer_engine", Json::of(to_text(plan.trainer.libraries.transformer_engine)));
  return question;
}

Result<Output> run_export(const Invocation& invocation) {
  Words words = words_of(invocation);
  const std::string to = invocation.text("to").value_or("");
  if (words.trainer.empty() && !to.empty()) words.trainer = trainer_of_target(to);
  if (invocation.flag("check") && (invocation.flag("only-settings") || invocation.text("into"))) {
    return fail("--check", "only what is written whole is checked",
                "leave --into and --only-settings out");
  }
  const auto folder = invocation.text("out");
  Output output = TW_TRY(exported(invocation, words, to, folder));
  if (folder && !output.files.empty()) {
    output.files = TW_TRY(into_folder(*folder, std::move(output.files), invocation.flag("force")));
  }
  return output;
}

// What would change in the user's own file, which stays as it is.
Result<Output> put(const Invocation& invocation, const Target& target,
                   const Translation& translation, const std::string& path) {
  const bool words = target.form == SettingsForm::Options || target.form == SettingsForm::Overrides;
  if (words || form_of(path) != target.form) {
    return fail(
        "--into",
        words ? fmt::format("{} takes its settings as words, not from a file", target.name)
              : fmt::format("{} is no file that {} reads", path, target.name),
        words ? "leave --into out and run launch.sh" : fmt::format("a file like {}", target.file));
  }
  const std::string before = TW_TRY(read_file(path));
  const std::string after = TW_TRY(put_into(before, path, translation.settings, target));
  const std::string diff = line_diff(before, after, path);
  if (invocation.json) {
    Json document = Json::object();
    document.add("legal", Json::of(true))
        .add("target", Json::of(target.name))
        .add("into", Json::of(path))
        .add("settings", settings_json(translation.settings))
        .add("diff", Json::of(diff))
        .add("changed", Json::of(after));
    return Output{document_text(invocation.data, document)};
  }
  if (diff.empty()) return Output{fmt::format("{} says all of it already\n", path)};
  std::string text = diff;
  for (const std::string& note : translation.notes) {
    text += wrapped_lines("note: " + note, invocation.width);
  }
  return Output{text};
}

Output not_legal(const std::vector<LayoutViolation>& found, const Invocation& invocation) {
  if (!invocation.json) return {violations_text(found, invocation.width), Exit::DoesNotFit};
  Json document = Json::object();
  document.add("legal", Json::of(false)).add("violations", violations_json(found));
  return {document_text(invocation.data, document), Exit::DoesNotFit};
}

}  // namespace

Json to_json(const std::vector<Unsayable>& refused) {
  Json list = Json::array();
  for (const Unsayable& one : refused) {
    list.push(Json::object().add("what", Json::of(one.what)).add("why", Json::of(one.why)));
  }
  return list;
}

Result<Output> exported(const Invocation& invocation, const Words& words, const std::string& to,
                        const std::optional<std::string>& folder) {
  const Question setting = TW_TRY(read_question(words, invocation.data));
  return exported(invocation, setting, words, to, folder);
}

Result<Output> exported(const Invocation& invocation, const Question& setting, const Words& words,
                        const std::string& to, const std::optional<std::string>& folder) {
  const Target target = TW_TRY(find_target(to, setting.trainer));
  const auto found = violations(setting);
  if (invocation.flag("only-settings")) return settings_alone(setting, target, found, invocation);
  if (!is_legal(found)) return not_legal(found, invocation);
  const trainwright::Plan plan = plan_of(setting);
  Translation translation = translate(plan, target);
  if (!translation.unsayable.empty()) return refused(setting, target, translation, invocation);
  for (const LayoutViolation& advice : found) {
    if (advice.id == "recompute-default") continue;  // the settings say what is recomputed
    translation.notes.push_back(fmt::format("{}: {}", advice.reason, advice.hint));
  }
  if (const auto into = invocation.text("into")) {
    return put(invocation, target, translation, *into);
  }
  Occasion occasion = TW_TRY(occasion_of(invocation, words, setting));
  occasion.orchestration.by = TW_TRY(orchestrators_in(invocation));
  if (!occasion.orchestration.by.empty()) {
    occasion.orchestration.devices = TW_TRY(device_names(setting.cluster, invocation.data.path()));
  }
  const auto files = write_files(plan, target, translation, occasion);
  std::optional<Checked> checked;
  if (invocation.flag("check")) {
    checked = TW_TRY(checked_by_target(check_question(plan, target, found, translation),
                                       invocation.data.path(),
                                       invocation.text("python").value_or("python3")));
  }
  Output output;
  if (folder) output = written(files, translation, *folder, invocation.width);
  if (invocation.json) {
    Json document = files_json(target, translation, files);
    if (checked) document.add("check", to_json(*checked));
    output.text = document_text(invocation.data, document);
  } else {
    if (output.files.empty()) output.text = printed(files);
    if (checked) output.text += wrapped_lines(to_text(*checked), invocation.width);
  }
  if (checked && checked->verdict != Verdict::Accepted) output.exit = Exit::DoesNotFit;
  output.warning = fit_warning(occasion, TW_TRY(risk_in(invocation)), invocation.width);
  return output;
}

Argument launch_argument() {
  return {
      "--launch", Argument::Kind::Texts,
      "also the files that start it by Kubeflow Trainer, as a JobSet of Kubernetes, by SkyPilot "
      "or on a Ray cluster; repeatable",
      false, "kubeflow|jobset|skypilot|ray"};
}

Result<TrialFiles> trial_files(const Invocation& invocation, const Words& words) {
  const Output output = TW_TRY(exported(invocation, words, "", "."));
  if (output.exit != Exit::Ok) {
    return fail(words.layout, "the trainer cannot be told this layout", output.text);
  }
  TrialFiles made;
  for (const File& file : output.files) made.files.push_back({file.path.substr(2), file.content});
  const Question setting = TW_TRY(read_question(words, invocation.data));
  const Target target = TW_TRY(find_target("", setting.trainer));
  const trainwright::Plan plan = plan_of(setting);
  const auto settings = all_settings(plan, target, translate(plan, target));
  for (const Setting& one : settings) {
    if (is_environment(one)) made.environment.emplace_back(one.key, one.values.front());
  }
  if (target.form == SettingsForm::Options || target.form == SettingsForm::Overrides) {
    made.settings = settings_words(settings, target);
  }
  return made;
}

Command export_command() {
  const auto text = Argument::Kind::Text;
  const std::vector<Argument> arguments = {
      {"layout", text, "the layout, key=value,...; see below", true, "LAYOUT"},
      {"--model", text, "zoo name, Hugging Face id or path of a config.json", true, "MODEL"},
      {"--on", text, "the cluster, for instance 64xH100", true, "CLUSTER"},
      {"--to", text, "the target (default: the trainer's own); see below", false, "TARGET"},
      {"--out", text, "folder to write into (default: the files are printed)", false, "DIR"},
      force_argument(),
      launch_argument(),
      {"--into", text, "your own file: prints what would change in it, as a patch", false, "FILE"},
      {"--check", Argument::Kind::Flag,
       "has the target's own code rule on the export, where it is installed; needs no accelerator"},
      {"--python", text, "the interpreter that has the target installed (default: python3)", false,
       "PYTHON"},
      {"--only-settings", Argument::Kind::Flag, "the settings alone, also of an invalid layout"}};
  const std::vector<Argument> order = {
      {"--schedule", text,
       "an order of actions as PyTorch writes them, or a kind such as zb-h1 to make one of", false,
       "FILE.csv|KIND"}};
  return {.name = "export",
          .summary = "a plan as the trainer's own settings, ready to start",
          .details = fmt::format(
              "Targets: {}. Prints or writes the settings with the reason of each, a script that "
              "starts the run, one for Slurm, with --launch those of other orchestrators, and "
              "plan.json, which has the question and what to "
              "expect. What the target has no setting for is refused with the nearest layout that "
              "it has. Exit code 1 means that, that the layout is invalid, or that --check did not "
              "accept it.",
              enumerate(target_names())),
          .examples =
              {"trainwright export tp=8,pp=4,sp,zero=1,mbs=1 --model llama-3.1-70b "
               "--on 64xH100 --batch 1024 --seq 8192 --to megatron-lm --out run",
               "trainwright export zero=3,mbs=1,recompute=full --model llama-3.1-8b --on "
               "8xH100 --batch 64 --seq 4096 --to deepspeed --into ds_config.json",
               "trainwright export zero=3,mbs=1,gbs=64,seq=4096 --model llama-2-7b --on 16xH100 "
               "--to deepspeed --launch skypilot --launch jobset --out run",
               "trainwright export zero=3,mbs=1,gbs=64,seq=4096 --model llama-2-7b --on 8xH100 "
               "--to deepspeed --check --python venv/bin/python"},
          .topics = {"layout", "job"},
          .arguments = joined(
              {arguments, step_arguments(), order, training_arguments(), verdict_arguments()}),
          .run = run_export};
}

}  // namespace trainwright::cli
