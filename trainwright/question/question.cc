#include "trainwright/question/question.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"

namespace trainwright {
namespace {

constexpr std::pair<const char*, std::string Words::*> kWordNames[] = {
    {"model", &Words::model},       {"on", &Words::on},      {"trainer", &Words::trainer},
    {"layout", &Words::layout},     {"job", &Words::job},    {"attention", &Words::attention},
    {"schedule", &Words::schedule}, {"tuned", &Words::tuned}};

constexpr const char* kModelFile = "config.json";
constexpr const char* kTrainerFile = "trainer.json";

bool is_text(const std::string& word) { return trim(word).starts_with('{'); }

}  // namespace

std::string file_word(const std::string& word, const std::string& file) {
  return is_text(word) ? file : word;
}

Words with_file_words(Words words) {
  words.model = file_word(words.model, kModelFile);
  words.trainer = file_word(words.trainer, kTrainerFile);
  return words;
}

std::string to_be_saved(const Words& words) {
  std::vector<std::string> saved;
  if (is_text(words.model))
    saved.push_back(fmt::format("the model's config saved as {}", kModelFile));
  if (is_text(words.trainer)) saved.push_back(fmt::format("the trainer saved as {}", kTrainerFile));
  return enumerate(saved);
}

std::vector<std::string> estimate_arguments(const Words& words) {
  std::vector<std::string> list = {"estimate", words.model};
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    list.emplace_back(name);
    list.push_back(value);
  };
  add("--on", words.on);
  add("--trainer", words.trainer);
  add("--layout", words.layout);
  add("--job", words.job);
  add("--attention", words.attention);
  add("--schedule", words.schedule);
  if (!words.tuned.empty()) list.emplace_back("--tuned");
  return list;
}

Json to_json(const Words& words) {
  Json json = Json::object();
  for (const auto& [name, word] : kWordNames) {
    if (!(words.*word).empty()) json.add(name, Json::of(words.*word));
  }
  return json;
}

Result<Words> words_of_plan(const Json& document, const std::string& origin) {
  const Json* question = document.find("question");
  const bool exported = question != nullptr && question->is_object();
  const Json* words = exported ? question : document.find("words");
  if (words == nullptr || !words->is_object()) {
    const bool fits_nowhere =
        document.find("best") != nullptr && document.find("best")->items.empty();
    return fail(origin,
                fits_nowhere ? "no layout of this plan fits" : "it does not say what was planned",
                "give plan.json of `plan --export DIR`, or what `plan --json` prints");
  }
  Diagnostics faults;
  JsonFields fields(*words, origin, exported ? "/question" : "/words", faults);
  Words read;
  for (const auto& [name, word] : kWordNames) {
    read.*word = fields.optional_text(name).value_or("");  // a model may be a whole document
  }
  for (const char* name : {"model", "on", "layout"}) {
    if (fields.raw(name) == nullptr) fields.string(name);  // says that it is missing
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return read;
}

Surroundings read_surroundings(const Words& words, const DataDirectory& data, Diagnostics& faults) {
  Surroundings read;
  read.model = value_or_faults(find_model(words.model, data.path()), faults);
  const auto hardware = value_or_faults(data.hardware(), faults);
  const std::string trainer = words.trainer.empty() ? kUsualTrainer : words.trainer;
  read.trainer = value_or_faults(data.trainer(trainer), faults);
  read.job = value_or_faults(parse_job(words.job), faults);
  if (hardware) read.cluster = value_or_faults(parse_cluster(words.on, **hardware), faults);
  if (read.job && read.model && read.trainer) {
    for (Diagnostic& fault : job_faults(*read.job, *read.model, *read.trainer)) {
      faults.push_back(std::move(fault));
    }
  }
  return read;
}

LayoutContext layout_context(const Cluster& cluster, const Trainer& trainer) {
  return {.world = accelerator_count(cluster),
          .usual = usual_layout(trainer),
          .flex = usual_flex(cluster, trainer)};
}

std::optional<PrecisionKind> fp8_recipe(const Trainer& trainer, const Cluster& cluster,
                                        const Model& model) {
  const Facts known = facts({}, {}, model, cluster, trainer);
  for (const PrecisionFacts& precision : trainer.precisions) {
    const auto when = shared_by_recipes(trainer, name_of(precision.kind));
    if (when && evaluate(*when, known).value_or(0) != 0) return precision.kind;
  }
  for (const PrecisionFacts& facts : trainer.precisions) {
    if (facts.kind >= PrecisionKind::Fp8Delayed) return facts.kind;
  }
  return std::nullopt;
}

Result<std::optional<AttentionKernel>> attention_named(const std::string& word) {
  if (word.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const AttentionKernel kernel : {AttentionKernel::Flash, AttentionKernel::FusedSoftmax,
                                       AttentionKernel::Eager, AttentionKernel::Sdpa}) {
    if (name_of(kernel) == lower_case(word)) return kernel;
    names.emplace_back(name_of(kernel));
  }
  return fail("--attention", fmt::format("'{}' is not a kind of attention", word),
              did_you_mean(word, names, "the kinds are " + enumerate(names)));
}

Result<std::optional<AttentionKernel>> attention_on(const Cluster& cluster, const Trainer& trainer,
                                                    const Model& model,
                                                    std::optional<AttentionKernel> asked) {
  const Kernel* flash = find_kernel(trainer, KernelKind::FlashAttention);
  const AttentionKernel usual = usual_attention(trainer, model.family);
  if (!asked && usual != usual_attention(trainer)) return usual;
  if (flash == nullptr || asked.value_or(AttentionKernel::Flash) != AttentionKernel::Flash) {
    return asked;
  }
  for (const Group& group : cluster.groups) {
    const double has = group.accelerator.compute_capability;
    if (has == 0 || has >= flash->least_capability) continue;
    Trainer without = trainer;
    std::erase_if(without.kernels,
                  [](const Kernel& kernel) { return kernel.kind == KernelKind::FlashAttention; });
    const AttentionKernel instead = usual_attention(without);
    if (!asked) return instead;
    return fail("--attention",
                fmt::format("{} has no flash attention with {}: its compute capability is {:.1f}, "
                            "below {:.1f}",
                            group.accelerator.name, trainer.title, has, flash->least_capability),
                fmt::format("leave it out: {} runs there", name_of(instead)));
  }
  return asked;
}

Result<Schedule> read_order(const std::string& path) {
  const std::string text = TW_TRY(read_file(path));
  Schedule schedule = TW_TRY(read_schedule_csv(text, path));
  Diagnostics faults;
  for (const Violation& violation : check(schedule)) {
    faults.push_back({fmt::format("{} rank {}", path, violation.rank.index()),
                      fmt::format("{}: {}", to_text(violation.action), violation.why),
                      {}});
  }
  if (!faults.empty()) return fail(std::move(faults));
  return schedule;
}

namespace {

// A kind's own order for as many ranks, chunks and micro-batches as the layout has.
Result<Schedule> made_order(ScheduleKind kind, const Layout& layout) {
  const auto size = [](std::int64_t count, int most) {
    return static_cast<int>(std::min<std::int64_t>(count, most + 1));  // which `make` refuses
  };
  const Shape shape{size(layout.pp, kMaxRanks), size(micro_batch_count(layout), kMaxMicroBatches),
                    size(layout.vpp, kMaxChunks)};
  const std::int64_t group = facts_of(kind).grouped ? layout.micro_batch_group : 0;
  return make(kind, shape, {.group = size(group, kMaxMicroBatches), .costs = {}});
}

// Without a layout only a file can be read.
Result<std::optional<Schedule>> order_in(const Words& words, const std::optional<ReadLayout>& of) {
  if (words.schedule.empty()) return std::optional<Schedule>();
  const auto kind = parse_kind(words.schedule);
  if (!kind) return std::optional<Schedule>(TW_TRY(read_order(words.schedule)));
  if (!of) return std::optional<Schedule>();
  return std::optional<Schedule>(TW_TRY(made_order(*kind, of->layout)));
}

// The words with precision=fp8 spelt out.
std::string with_recipe(const std::string& layout, const Surroundings& around) {
  if (!around.trainer || !around.cluster || !around.model) return layout;
  const auto recipe = fp8_recipe(*around.trainer, *around.cluster, *around.model);
  if (!recipe) return layout;
  std::vector<std::string> entries;
  for (const std::string_view entry : split(layout, ',')) {
    const bool spelt_out = lower_case(trim(entry)) != "precision=fp8";
    entries.push_back(spelt_out ? std::string(entry)
                                : fmt::format("precision={}", name_of(*recipe)));
  }
  return join(entries, ",");
}

// The given order takes the place of the layout's; without one there is none to take.
void settle_order(ReadLayout& read, const std::optional<Schedule>& order, const Words& words,
                  Diagnostics& faults) {
  Layout& layout = read.layout;
  if (order) {
    layout.schedule = ScheduleKind::Csv;
    if (const auto kind = parse_kind(words.schedule)) {
      layout.placement = usual_placement(*kind, layout.vpp);
    }
    std::erase_if(read.notes, [](const std::string& note) { return note.starts_with("schedule"); });
  } else if (layout.schedule == ScheduleKind::Csv) {
    faults.push_back({"--layout", "schedule=csv names no file", "add --schedule FILE.csv"});
  }
}

}  // namespace

Result<Question> read_question(const Words& words, const DataDirectory& data, Diagnostics faults) {
  Surroundings around = read_surroundings(words, data, faults);
  LayoutContext context;
  if (around.trainer) context.usual = usual_layout(*around.trainer);
  if (around.cluster) context.world = accelerator_count(*around.cluster);
  if (around.cluster && around.trainer) context.flex = usual_flex(*around.cluster, *around.trainer);
  auto read = value_or_faults(parse_layout(with_recipe(words.layout, around), context), faults);
  auto attention = value_or_faults(attention_named(words.attention), faults);
  if (attention && around.cluster && around.trainer && around.model) {
    attention = value_or_faults(
        attention_on(*around.cluster, *around.trainer, *around.model, *attention), faults);
  }
  if (const auto said = entry_of(words.layout, "precision"); read && said == "fp8") {
    read->notes.push_back(fmt::format("precision={}: what fp8 is there by the trainer's recipes",
                                      name_of(read->layout.precision)));
  }
  auto order = value_or_faults(order_in(words, read), faults);
  if (read && order) settle_order(*read, *order, words, faults);
  if (!faults.empty()) return fail(std::move(faults));
  return Question{*std::move(around.model), *std::move(around.cluster), *std::move(around.trainer),
                  *std::move(read),         *std::move(around.job),     *attention,
                  *std::move(order)};
}

std::vector<LayoutViolation> violations(const Question& question) {
  return violations(question.read.layout, question.job, question.model, question.cluster,
                    question.trainer, question.schedule ? &*question.schedule : nullptr);
}

MemoryQuestion memory_question(const Question& question, const MemoryConstants& constants) {
  return {.model = question.model,
          .cluster = question.cluster,
          .trainer = question.trainer,
          .layout = question.read.layout,
          .job = question.job,
          .attention = question.attention,
          .constants = constants,
          .schedule = question.schedule ? &*question.schedule : nullptr};
}

StepQuestion step_question(const Question& question, const Kernels& kernels,
                           ExpertLoad expert_load) {
  return {.model = question.model,
          .cluster = question.cluster,
          .trainer = question.trainer,
          .layout = question.read.layout,
          .job = question.job,
          .kernels = kernels,
          .attention = question.attention,
          .schedule = question.schedule ? &*question.schedule : nullptr,
          .expert_load = std::move(expert_load)};
}

}  // namespace trainwright
