// The folder of an export: settings, scripts, what they are for, and the plan itself.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/export/form.h"
#include "trainwright/export/launch.h"
#include "trainwright/export/pattern.h"

namespace trainwright {
namespace detail {
namespace {

bool is_subcommand(const Setting& setting) { return setting.key.find(':') != std::string::npos; }

template <class Condition>
std::vector<Setting> those(const std::vector<Setting>& settings, Condition condition) {
  std::vector<Setting> chosen;
  std::copy_if(settings.begin(), settings.end(), std::back_inserter(chosen), condition);
  return chosen;
}

std::string estimate_command(const Occasion& occasion) {
  std::string text = "trainwright";
  for (const std::string& word : estimate_arguments(with_file_words(occasion.words))) {
    text += ' ' + shell_word(word);
  }
  for (const std::string& word : occasion.options) text += ' ' + shell_word(word);
  return text;
}

std::vector<std::string> header(const Plan& plan, const Occasion& occasion) {
  std::vector<std::string> lines = {
      fmt::format("{} on {} with {} {}", plan.model.name, plan.cluster.name, plan.trainer.title,
                  to_text(plan.trainer.version)),
      to_text(plan.layout)};
  lines.insert(lines.end(), occasion.expected.begin(), occasion.expected.end());
  const std::string saved = to_be_saved(occasion.words);
  lines.push_back(fmt::format("made by trainwright {}; the figures again{}:", occasion.version,
                              saved.empty() ? "" : ", with " + saved));
  lines.push_back("  " + estimate_command(occasion));
  return lines;
}

std::string shell_settings(const Plan& plan, const Target& target, const std::vector<Setting>& own,
                           const std::vector<std::string>& top) {
  std::string text = commented(join(top, "\n")) + '\n';
  if (target.launcher == Launcher::Megatron) {
    const auto model = megatron_model(plan.model, plan.layout.seq, plan.trainer.version);
    text += "# The model.\n";
    text += model ? shell_array("MODEL", *model, target.form)
                  : commented(model.error().diagnostics[0].what) +
                        ": \"${MODEL:?write the model's own arguments here}\"\n";
    text += '\n';
  }
  const auto options = those(own, [](const Setting& one) { return !is_subcommand(one); });
  text += "# How it is spread and trained.\n" + shell_array("SETTINGS", options, target.form);
  const auto last = those(own, is_subcommand);
  if (target.launcher == Launcher::Titan) {
    text += "\n# They come last.\n" + shell_array("SUBCOMMANDS", last, target.form);
  }
  return text;
}

std::string settings_file(const Plan& plan, const Target& target, const std::vector<Setting>& own,
                          const std::vector<std::string>& top) {
  switch (target.form) {
    case SettingsForm::Options:
    case SettingsForm::Overrides: return shell_settings(plan, target, own, top);
    case SettingsForm::Toml: return commented(join(top, "\n")) + '\n' + to_toml(own);
    case SettingsForm::Yaml: return commented(join(top, "\n")) + '\n' + to_yaml(own);
    case SettingsForm::Json: break;
  }
  return to_text(to_json_tree(own));  // has no comments; README.md has them
}

// Numbers and truths of Python; all else is text.
std::string python_value(const std::string& value) {
  const Json json = value_of(value);
  if (json.is_bool()) return json.boolean ? "True" : "False";
  return json.is_number() ? value : quoted(value);
}

// PipelineModule.num_stages=4 as a call's arguments.
std::string pipeline_snippet(const std::vector<Setting>& settings) {
  std::string text =
      "# What DeepSpeed's JSON cannot say: PipelineModule(layers=..., **PIPELINE).\nPIPELINE = "
      "dict(\n";
  for (const Setting& setting : settings) {
    text += fmt::format("    {}={},{}\n", setting.key.substr(setting.key.find('.') + 1),
                        python_value(setting.values.front()), comment_behind(setting));
  }
  return text + ")\n";
}

std::string value_of_key(const std::vector<Setting>& settings, std::string_view key) {
  for (const Setting& one : settings) {
    if (one.key == key && !one.values.empty()) return one.values.front();
  }
  return "";
}

// torchtitan's configurations are functions of Python; what its options cannot say is said in one.
std::string configuration_module(const std::vector<Setting>& settings,
                                 const std::vector<Setting>& changed) {
  const std::string module = value_of_key(settings, "--module");
  std::string text =
      "# What torchtitan's options cannot say: --module trainwright_config --config plan.\n";
  text += module.empty()
              ? "import importlib\nimport importlib.util\nimport os\n\n\n"
                "def base():\n"
                "    module = os.environ[\"MODULE\"]\n"
                "    if importlib.util.find_spec(module) is None:\n"
                "        module = f\"torchtitan.models.{module}.config_registry\"\n"
                "    return getattr(importlib.import_module(module), os.environ[\"CONFIG\"])()\n"
              : fmt::format("from torchtitan.models.{}.config_registry import {} as base\n", module,
                            value_of_key(settings, "--config"));
  text += "\n\ndef plan():\n    config = base()\n";
  for (const Setting& one : changed) {
    const std::string name = one.key.substr(one.key.find('.') + 1);
    if (!one.why.empty()) text += commented(one.why, "    # ");
    text += fmt::format("    config.{0} = getattr(config.{0}, {1}, config.{0})\n", name,
                        quoted(one.values.front()));
  }
  return text + "    return config\n";
}

void add_script_files(const std::vector<Setting>& settings, std::vector<Artefact>& files) {
  const auto of = [&](std::string_view prefix) {
    return those(settings, [&](const Setting& one) { return one.key.starts_with(prefix); });
  };
  if (const auto pipeline = of("PipelineModule."); !pipeline.empty()) {
    files.push_back({"pipeline.py", pipeline_snippet(pipeline)});
  }
  if (const auto changed = those(settings, is_of_module); !changed.empty()) {
    files.push_back({"trainwright_config.py", configuration_module(settings, changed)});
  }
  auto arguments = of("TrainingArguments.");
  if (arguments.empty()) return;
  for (Setting& one : arguments) one.key = one.key.substr(one.key.find('.') + 1);
  files.push_back(
      {"training_arguments.yaml",
       "# Arguments of Hugging Face's Trainer; TRL and LLaMA-Factory call them the same.\n" +
           to_yaml(arguments)});
}

std::string plan_json(const Target& target, const Occasion& occasion) {
  Json document = Json::object();
  document.add("trainwright", Json::of(occasion.version))
      .add("question", to_json(occasion.words))
      .add("command", Json::of(estimate_command(occasion)))
      .add("expected", occasion.answer)
      .add("target", Json::of(target.name));
  return to_text(document);
}

// On one line, where no letter begins markup, a link, a cell or an element of HTML.
std::string in_markdown(std::string_view text) {
  constexpr std::string_view kMarks = "\\`<&[|";
  const std::string line = printable_line(text);
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool less = line[i] == '<' && i + 1 < line.size() &&
                      std::isdigit(static_cast<unsigned char>(line[i + 1])) != 0;  // <0.1 %
    if (kMarks.find(line[i]) != std::string_view::npos && !less) plain += '\\';
    plain += line[i];
  }
  return plain;
}

std::string readme(const Plan& plan, const Target& target, const Translation& translation,
                   const Occasion& occasion, const std::vector<Artefact>& files) {
  std::string text =
      fmt::format("# {} on {}\n\n", in_markdown(plan.model.name), in_markdown(plan.cluster.name));
  std::vector<std::string> lines = header(plan, occasion);
  lines.pop_back();  // the command, which is code here
  for (const std::string& line : lines) text += in_markdown(line) + "  \n";
  text += '\n' + commented(estimate_command(occasion), "    ");
  text += "\n| file | what it is |\n|---|---|\n";
  for (const Artefact& file : files) {
    const std::string_view what = file.path == target.file       ? "settings of the trainer"
                                  : file.path == "launch.sh"     ? "starts it on one node"
                                  : file.path == "sbatch.sh"     ? "starts it under Slurm"
                                  : file.path == "trainjob.yaml" ? "starts it by Kubeflow Trainer"
                                  : file.path == "jobset.yaml"
                                      ? "starts it as a JobSet of Kubernetes"
                                  : file.path == "sky.yaml"     ? "starts it by SkyPilot"
                                  : file.path == "ray_job.py"   ? "starts it on a Ray cluster"
                                  : file.path == "ray_job.yaml" ? "the environment of Ray's job"
                                  : file.path == "schedule.csv" ? "the order of the pipeline"
                                  : file.path == "plan.json"    ? "the plan, to ask about it again"
                                                                : "for your own script";
    text += fmt::format("| `{}` | {} |\n", file.path, what);
  }
  text += "\nCompare the first lines of the log with the figures above.\n";
  for (const std::string& note : translation.notes)
    text += fmt::format("\nNote: {}.\n", in_markdown(note));
  if (target.form != SettingsForm::Json) return text;
  text += "\n| setting | why |\n|---|---|\n";
  for (const Setting& setting : translation.settings) {
    if (setting.why.empty()) continue;
    text += fmt::format("| `{}` {} | {} |\n", setting.key, in_markdown(join(setting.values, " ")),
                        in_markdown(setting.why));
  }
  return text;
}

}  // namespace
}  // namespace detail

std::string settings_text(const std::vector<Setting>& settings, const Target& target) {
  const auto own = detail::those(settings, [](const Setting& setting) {
    return !is_environment(setting) && !detail::is_of_script(setting);
  });
  switch (target.form) {
    case SettingsForm::Options:
    case SettingsForm::Overrides: break;
    case SettingsForm::Toml: return detail::to_toml(own);
    case SettingsForm::Yaml: return detail::to_yaml(own);
    case SettingsForm::Json: return to_text(detail::to_json_tree(own));
  }
  return settings_line(settings, target) + '\n';
}

std::vector<std::string> settings_words(const std::vector<Setting>& settings,
                                        const Target& target) {
  std::vector<std::string> words, last;
  for (const Setting& setting : settings) {
    if (is_environment(setting) || detail::is_of_module(setting)) continue;
    for (std::string& word : detail::words_of(setting, target.form)) {
      (detail::is_subcommand(setting) ? last : words).push_back(std::move(word));
    }
  }
  words.insert(words.end(), last.begin(), last.end());
  return words;
}

std::string settings_line(const std::vector<Setting>& settings, const Target& target) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) {
    if (is_environment(setting)) {
      words.insert(words.begin(), setting.key + '=' + setting.values.front());
    }
  }
  for (const std::string& word : settings_words(settings, target)) {
    words.push_back(shell_word(word));
  }
  return join(words, " ");
}

Json settings_json(const std::vector<Setting>& settings) {
  Json list = Json::array();
  for (const Setting& setting : settings) {
    Json values = Json::array();
    for (const std::string& value : setting.values) values.push(Json::of(value));
    Json one = Json::object();
    one.add("key", Json::of(setting.key)).add("values", std::move(values));
    list.push(std::move(one.add("of", Json::of(setting.of)).add("why", Json::of(setting.why))));
  }
  return list;
}

std::vector<Artefact> write_files(const Plan& plan, const Target& target,
                                  const Translation& translation, const Occasion& occasion) {
  const auto own = detail::those(translation.settings, [](const Setting& setting) {
    return !is_environment(setting) && !detail::is_of_script(setting);
  });
  std::vector<Artefact> files;
  std::vector<std::string> top = detail::header(plan, occasion);
  for (const std::string& note : translation.notes) top.push_back("note: " + note);
  files.push_back({std::string(target.file), detail::settings_file(plan, target, own, top)});
  detail::add_script_files(translation.settings, files);
  if (plan.schedule != nullptr) files.push_back({"schedule.csv", to_csv(*plan.schedule)});
  files.push_back({"launch.sh", detail::launch_script(plan, target, translation)});
  if (node_count(plan.cluster) > 1) files.push_back({"sbatch.sh", detail::sbatch_script(plan)});
  const auto asked = detail::asked_of_user(target, translation);
  for (Artefact& file : detail::orchestrated(plan, asked, occasion, files)) {
    files.push_back(std::move(file));
  }
  files.push_back({"plan.json", detail::plan_json(target, occasion)});
  files.push_back({"README.md", detail::readme(plan, target, translation, occasion, files)});
  return files;
}

}  // namespace trainwright
