// trainwright check: what recipes of a repository do not fit, are not valid or are far from the
// best.
#include "trainwright/cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/text.h"
#include "trainwright/cli/config.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/cli/plan.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/export/export.h"
#include "trainwright/search/search.h"

namespace trainwright::cli {
namespace {

constexpr double kFar = 0.2;  // slower than the best: more than such predictions tell apart
constexpr std::int64_t kBudget = 20'000;  // of a search: counted, so that answers repeat
constexpr std::string_view kMark = "trainwright:";

// Options of a comment: # trainwright: --on 8xH100 --seq 4k
constexpr std::string_view kOptions[] = {"on",  "model", "trainer",   "layout",   "batch",
                                         "seq", "job",   "precision", "optimizer"};

// "and 2 more", behind the first of several faults.
std::string and_more(std::size_t count) {
  return count < 2 ? "" : fmt::format(" (and {} more)", count - 1);
}

Finding not_read(const std::string& file, const Diagnostics& faults) {
  const Diagnostic& fault = faults.front();
  Finding finding{.file = file, .what = fault.what + and_more(faults.size()), .hint = fault.hint};
  const std::size_t colon = fault.where.find(':');
  if (colon != std::string::npos) {
    const std::string_view behind = std::string_view(fault.where).substr(colon + 1);
    finding.line = parse_integer(behind.substr(0, behind.find_first_not_of("0123456789")))
                       .value_or(finding.line);
  }
  return finding;
}

// What the file's comment says goes before what is said for all files.
Result<Invocation> asked_of(const Invocation& invocation, const std::string& path,
                            std::string_view text) {
  Invocation asked = invocation;
  asked.values["config"] = {path};
  std::int64_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::size_t at = line.find(kMark);
    const std::string_view before = trim(line.substr(0, std::min(at, line.size())));
    if (at == std::string_view::npos || (before != "#" && before != "//")) continue;
    std::vector<std::string> words;
    for (const std::string_view word : split(trim(line.substr(at + kMark.size())), ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    for (std::size_t i = 0; i < words.size(); i += 2) {
      const bool known = words[i].starts_with("--") &&
                         std::find(std::begin(kOptions), std::end(kOptions), words[i].substr(2)) !=
                             std::end(kOptions);
      if (!known || i + 1 == words.size()) {
        return fail(fmt::format("{}:{}", path, number),
                    known ? fmt::format("{} has no value", words[i])
                          : fmt::format("'{}' is no option of such a comment", words[i]),
                    fmt::format("# {} --on 8xH100 --seq 4k", kMark));
      }
      asked.values[words[i].substr(2)] = {words[i + 1]};
    }
  }
  return asked;
}

// What the trainer calls the sequences of a micro-batch, without its section; may be empty.
std::string batch_key(const Question& setting) {
  const auto target = find_target("", setting.trainer);
  if (!target) return "";
  const trainwright::Plan plan{.model = setting.model,
                               .cluster = setting.cluster,
                               .trainer = setting.trainer,
                               .layout = setting.read.layout,
                               .job = setting.job};
  for (const Setting& one : translate(plan, *target).settings) {
    if (one.of != "mbs") continue;
    const std::size_t dot = one.key.rfind('.');
    const std::size_t begin = dot == std::string::npos ? one.key.find_first_not_of('-') : dot + 1;
    return one.key.substr(std::min(begin, one.key.size()));
  }
  return "";
}

// The first line that has it: what is changed first.
std::int64_t line_of(std::string_view text, const std::string& key) {
  const std::size_t at = key.empty() ? std::string_view::npos : text.find(key);
  if (at == std::string_view::npos) return 1;
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
}

std::optional<PlannedLayout> fastest(const Question& setting, const MemoryConstants& constants,
                                     const KnownTimes& times, double risk) {
  const Layout& layout = setting.read.layout;
  Wanted wanted;
  wanted.model = setting.model;
  wanted.cluster = setting.cluster;
  wanted.trainer = setting.trainer;
  wanted.job = setting.job;
  wanted.constants = constants;
  wanted.times = times;
  wanted.precision = layout.precision;
  wanted.attention = setting.attention;
  wanted.gbs = layout.gbs;
  wanted.seq = layout.seq;
  wanted.risk = risk;
  wanted.top = 1;
  wanted.budget = kBudget;
  SearchQuestion question = question_of(wanted);
  question.find_smallest = false;
  const auto result = search(question);
  if (!result || result->best.empty()) return std::nullopt;
  return result->best.front();
}

// What would help, of a recipe that does not fit, and of one that is slow.
void add_advice(Finding& finding, const std::string& words, const Question& setting,
                const MemoryQuestion& question, const PlannedLayout* best, double risk) {
  if (finding.verdict == RecipeVerdict::Slow) {
    finding.hint = fmt::format("{}: {}/step", changes_text(setting.read.layout, best->layout),
                               seconds_text(best->time.step));
  } else if (const auto change = smallest_change_that_fits(question, risk)) {
    finding.hint = "it fits with " + change_to(words, change->layout,
                                               layout_context(setting.cluster, setting.trainer));
  } else if (best != nullptr) {
    finding.hint = "it fits as " + to_text(best->layout);
  }
}

Finding::Figures figures_of(const Question& setting, const MemoryEstimate& memory,
                            const StepTime& time) {
  const Bytes peak = memory.classes[memory.worst].driver;
  return {.on = setting.cluster.name,
          .layout = to_text(setting.read.layout),
          .peak = to_text(peak),
          .capacity = to_text(memory.capacity),
          .step = seconds_text(time.step),
          .oom = memory.oom,
          .step_seconds = time.step.value(),
          .peak_bytes = peak.value(),
          .capacity_bytes = memory.capacity.value()};
}

std::vector<LayoutViolation> forbidden_in(const Question& setting) {
  std::vector<LayoutViolation> found = violations(setting);
  std::erase_if(found,
                [](const LayoutViolation& one) { return one.severity != Severity::Forbidden; });
  return found;
}

Result<Finding> judged(const Invocation& invocation, const std::string& path, double far) {
  const std::string text = TW_TRY(read_file(path));
  const Invocation asked = TW_TRY(asked_of(invocation, path, text));
  const ConfigWords config = TW_TRY(with_config(asked, words_of(asked)));
  const MemoryConstants constants = TW_TRY(memory_constants_in(asked));
  const double risk = TW_TRY(risk_in(asked));
  const Question setting = TW_TRY(read_question(config.words, asked.data));
  Finding finding{.file = path, .line = line_of(text, batch_key(setting))};
  finding.notes = config.not_counted;
  if (const auto found = forbidden_in(setting); !found.empty()) {
    finding.verdict = RecipeVerdict::Invalid;
    finding.what = found.front().reason + and_more(found.size());
    finding.hint = found.front().hint;
    return finding;
  }
  const MemoryQuestion question = memory_question(setting, constants);
  const MemoryEstimate memory = TW_TRY(estimate_memory(question));
  const Layout& layout = setting.read.layout;
  const KnownTimes times =
      TW_TRY(known_times(asked, config.words, same_step(layout.gbs, layout.seq, layout.precision)));
  const StepPieces pieces =
      TW_TRY(step_pieces(step_question(setting, times.constants.kernels, constants.expert_load)));
  const StepTime time =
      step_time(pieces, stack_of(times.constants.stacks, setting.trainer).constants);
  finding.figures = figures_of(setting, memory, time);
  const Fit fit = fit_of(memory.oom, risk);
  finding.verdict = fit == Fit::Fits    ? RecipeVerdict::Fits
                    : fit == Fit::Tight ? RecipeVerdict::Tight
                                        : RecipeVerdict::DoesNotFit;
  const auto best = fastest(setting, constants, times, risk);
  if (best) finding.figures->best_seconds = best->time.step.value();
  if (fit != Fit::Fits) {
    finding.what = fmt::format("peak memory {} of {}, OOM probability {}", finding.figures->peak,
                               finding.figures->capacity, chance_text(memory.oom));
  } else if (best && time.step.value() > best->time.step.value() * (1 + far)) {
    finding.verdict = RecipeVerdict::Slow;
    finding.what =
        fmt::format("{}/step, {:.0f} % slower than the fastest layout", seconds_text(time.step),
                    100 * (time.step.value() / best->time.step.value() - 1));
  }
  if (finding.verdict != RecipeVerdict::Fits) {
    add_advice(finding, config.words.layout, setting, question, best ? &*best : nullptr, risk);
  }
  return finding;
}

// Of a folder the files that a recipe may be, by their names' order.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  constexpr std::string_view kEndings[] = {".sh", ".yaml", ".yml", ".toml", ".json"};
  std::vector<std::string> files;
  Diagnostics faults;
  for (const std::string& path : paths) {
    std::error_code none;
    if (!std::filesystem::is_directory(path, none)) {
      if (!std::filesystem::exists(path, none)) faults.push_back({path, "no such file", ""});
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path, none)) {
      const std::string name = entry.path().string();
      const bool recipe = std::any_of(std::begin(kEndings), std::end(kEndings),
                                      [&](std::string_view end) { return name.ends_with(end); });
      if (recipe && entry.is_regular_file(none)) inside.push_back(name);
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  if (!faults.empty()) return fail(std::move(faults));
  return files;
}

Exit exit_of(std::span<const Finding> found, bool strict) {
  const RecipeVerdict least = strict ? RecipeVerdict::Slow : RecipeVerdict::DoesNotFit;
  const bool bad = std::any_of(found.begin(), found.end(), [&](const Finding& one) {
    return one.verdict >= least && (strict || one.verdict != RecipeVerdict::NotRead);
  });
  return bad ? Exit::DoesNotFit : Exit::Ok;
}

Result<Output> check_recipes(const Invocation& invocation) {
  const double far = invocation.share("far").value_or(kFar);
  std::vector<Finding> found;
  for (const std::string& path : TW_TRY(files_of(invocation.texts("files")))) {
    auto finding = judged(invocation, path, far);
    found.push_back(finding ? *std::move(finding) : not_read(path, finding.error().diagnostics));
  }
  const Exit exit = exit_of(found, invocation.flag("strict"));
  if (invocation.json) {
    Json document = Json::object();
    document.add("files", to_json(found));
    return Output{document_text(invocation.data, document), exit};
  }
  if (invocation.flag("annotate")) return Output{annotations_text(found), exit};
  return Output{table_text(found, invocation.width), exit};
}

}  // namespace

Command check_command() {
  const auto text = Argument::Kind::Text;
  const std::vector<Argument> arguments = {
      {"files", Argument::Kind::Texts,
       "recipes as --config of `estimate` reads them, or folders of such", true, "FILES"},
      {"--on", text, "the cluster of all files that name none in a comment, for instance 64xH100",
       false, "CLUSTER"},
      {"--model", text, "the model, where a file does not say it", false, "MODEL"},
      {"--layout", text, "entries that go before what the files say: mbs=1", false, "LAYOUT"},
      {"--far", Argument::Kind::Share,
       "slower than the fastest layout by more than this is slow (default: 20%)", false, "SHARE"},
      {"--annotate", Argument::Kind::Flag,
       "annotations of a pull request, as GitHub's workflow commands, in place of the table"},
      {"--strict", Argument::Kind::Flag,
       "exit code 1 also for what is tight or slow, or could not be read"}};
  return {
      .name = "check",
      .summary = "recipes of a repository: which do not fit, are invalid or slow",
      .details =
          "Each file is judged as `estimate --config` does, and compared with the fastest "
          "layout of the same model, cluster and batch. What a file does not say can stand in "
          "a comment of it, # trainwright: --on 8xH100 --seq 4k, which goes before what is "
          "said for all files. Verdicts: fits, slow, tight, does-not-fit, invalid, not-read. "
          "Exit code 1 means that a file is invalid or does not fit.",
      .examples = {"trainwright check axolotl.yaml --on 1x4090",
                   "trainwright check recipes/ --on 8xH100 --annotate --strict"},
      .topics = {"layout", "job"},
      .arguments = joined({arguments, step_arguments(), training_arguments(), verdict_arguments()}),
      .run = check_recipes};
}

}  // namespace trainwright::cli
