#include "trainwright/cli/setting.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/own_runs.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {

Words words_of(const Invocation& invocation) {
  const auto word = [&](const char* name) { return invocation.text(name).value_or(""); };
  const auto with = [&](std::string text, const char* key, const char* option) {
    const auto value = invocation.text(option);
    if (!value) return text;
    return fmt::format("{}{}{}={}", text, trim(text).empty() ? "" : ",", key, *value);
  };
  const std::string layout = with(word("layout"), "precision", "precision");
  return {.model = word("model"),
          .on = word("on"),
          .trainer = word("trainer"),
          .layout = with(with(layout, "gbs", "batch"), "seq", "seq"),
          .job = with(word("job"), "optimizer", "optimizer"),
          .attention = word("attention"),
          .schedule = word("schedule"),
          .tuned = invocation.flag("tuned") ? "yes" : ""};
}

std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", with_thousands(count), count == 1 ? one : many);
}

std::string same_step(std::int64_t gbs, std::int64_t seq, PrecisionKind precision) {
  return fmt::format("gbs={},seq={},precision={}", gbs, seq, name_of(precision));
}

std::vector<Argument> joined(std::initializer_list<std::vector<Argument>> lists) {
  std::vector<Argument> all;
  for (const std::vector<Argument>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<Argument> surroundings_arguments() {
  const auto text = Argument::Kind::Text;
  return {{"model", text, "zoo name, Hugging Face id or path of a config.json", true, "MODEL"},
          {"--on", text, "the cluster, for instance 64xH100", true, "CLUSTER"}};
}

std::vector<Argument> step_arguments() {
  return {
      {"--batch", Argument::Kind::Batch,
       "sequences in a step, or tokens: 4M-tokens; short for gbs=...", false, "B"},
      {"--seq", Argument::Kind::Integer, "tokens in a sequence; short for seq=...", false, "S"}};
}

std::vector<Argument> training_arguments() {
  const auto text = Argument::Kind::Text;
  return {{"--trainer", text, kTrainerHelp, false, "TRAINER"},
          {"--job", text, kJobHelp, false, "JOB"},
          {"--optimizer", text, "short for --job optimizer=... (default: adamw)", false, "NAME"},
          {"--precision", text,
           "bf16, fp16, fp8, ... (default: bf16; plan takes fp16 or fp32 where the hardware has no "
           "bf16)",
           false, "KIND"},
          {"--attention", text, "flash, fused-softmax, eager or sdpa (default: the trainer's)",
           false, "KERNEL"}};
}

std::vector<Argument> verdict_arguments() {
  return {{"--risk", Argument::Kind::Share,
           "highest OOM probability that still counts as fitting (default: 5%)", false, "CHANCE"},
          {"--constants", Argument::Kind::Text,
           "constants of the memory model (default: those that ship)", false, "FILE"},
          {"--calibration", Argument::Kind::Text,
           "constants of step time, as `calibrate` prints them (default: those that ship)", false,
           "FILE"},
          measured_argument(),
          {"--tuned", Argument::Kind::Flag,
           "a vendor's own recipe on a machine set up for it (default: an ordinary run)"},
          {"--expert-load", Argument::Kind::Text,
           "how routers deal tokens to experts: balanced (the default), zipf:0.5, or a file with a "
           "line of counts for each layer",
           false, "LOAD"}};
}

std::vector<Argument> setting_arguments() {
  const auto text = Argument::Kind::Text;
  return joined(
      {surroundings_arguments(),
       {{"--layout", text, "the layout: tp=8,pp=4,...; see `trainwright help layout`", true,
         "LAYOUT"}},
       step_arguments(),
       training_arguments(),
       {{"--schedule", text,
         "an order of actions as PyTorch writes them, or a kind such as zb-h1 to make one of "
         "(default: the layout's)",
         false, "FILE.csv|KIND"}}});
}

std::vector<std::string> verdict_words(const Invocation& invocation) {
  std::vector<std::string> words;
  for (const Argument& argument : verdict_arguments()) {
    const auto given = invocation.values.find(argument.name.substr(2));
    if (given == invocation.values.end() || argument.kind == Argument::Kind::Flag) continue;
    words.insert(words.end(), {argument.name, given->second.front()});
  }
  return words;
}

Result<double> risk_in(const Invocation& invocation) {
  const double risk = invocation.share("risk").value_or(kUsualRisk);
  if (risk > 0 && risk < 1) return risk;
  return fail("--risk", fmt::format("{} is not a probability", risk),
              "give a number between 0 and 1, such as 0.05, or 5%");
}

Result<ExpertLoad> expert_load_in(const Invocation& invocation) {
  const std::string word = invocation.text("expert-load").value_or("balanced");
  if (const auto load = TW_TRY(parse_expert_load(word))) return *load;
  const auto text = read_file(word);
  if (text) return read_expert_load(*text, word);
  return fail("--expert-load", fmt::format("'{}' is no load and no file", word),
              "balanced, zipf:0.5 or the path of a file of counts");
}

Result<MemoryConstants> memory_constants_in(const Invocation& invocation) {
  Diagnostics faults;
  auto constants = value_or_faults(
      load_memory_constants(invocation.data.path(), invocation.text("constants")), faults);
  const auto load = value_or_faults(expert_load_in(invocation), faults);
  if (!faults.empty()) return fail(std::move(faults));
  constants->expert_load = *load;
  return *std::move(constants);
}

std::string busiest_text(const RankLoad& busiest, std::int64_t ep) {
  if (ep == 1) return "every rank holds all experts, so that none is busier than others";
  return fmt::format("the busiest of {} ranks receives {} times the mean of a layer's rows", ep,
                     significant(busiest.in_a_layer, 3));
}

Result<Question> read_setting(const Invocation& invocation, Diagnostics faults) {
  return read_question(words_of(invocation), invocation.data, std::move(faults));
}

std::string risk_text(double risk) { return fmt::format("{:g} %", 100 * risk); }

std::string words_of(Category category) {
  switch (category) {
    case Category::MainWeights: return "master weights";
    case Category::Transients: return "temporary buffers";
    case Category::GatherBuffers: return "all-gather buffers";
    case Category::ReduceBuffers: return "reduce-scatter buffers";
    case Category::PointToPoint: return "P2P buffers";
    case Category::StepBuffers: return "optimizer step buffers";
    case Category::AllocatorSlack: return "reserved, unallocated";
    case Category::Communicators: return "communicator buffers";
    case Category::Context: return "device context";
    default: break;
  }
  std::string text(name_of(category));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string wrapped_lines(std::string_view prose, int width) {
  std::string text;
  for (const std::string_view line : split(trim(prose), '\n')) {
    for (const std::string& part : wrapped(std::string(line), width)) text += part + '\n';
  }
  return text;
}

namespace {

std::string states_text(const OptimizerFacts& optimizer) {
  std::vector<std::string> dtypes;
  for (const StateFacts& state : optimizer.states) {
    if (std::find(dtypes.begin(), dtypes.end(), state.dtype) == dtypes.end()) {
      dtypes.push_back(state.dtype);
    }
  }
  if (dtypes.empty()) return "no states";
  if (dtypes == std::vector<std::string>{"as-weight"}) return "states in the weights' dtype";
  return fmt::format("{} states", join(dtypes, " and "));
}

std::string weights_text(const PrecisionFacts& facts, const OptimizerFacts* optimizer,
                         std::string_view weight, const std::string& gradients) {
  std::string text = fmt::format("{} weights", weight);
  if (facts.compute != weight) text += fmt::format(" computed in {}", facts.compute);
  const bool replaced = optimizer != nullptr && !optimizer->master.empty();
  const std::string& master = replaced ? optimizer->master : facts.master;
  if (master != "none") text += fmt::format(", {} master weights", master);
  return text + fmt::format(", {} gradients", gradients);
}

std::string sharding_text(const Layout& layout) {
  if (layout.sharding == ShardingKind::Zero || layout.sharding == ShardingKind::Ddp) {
    return layout.zero == 0 ? "no ZeRO" : fmt::format("ZeRO {}", layout.zero);
  }
  return std::string(name_of(layout.sharding));
}

}  // namespace

namespace {

bool is_prepared_unasked(const Job& job, const StoredAs& storage, const Trainer& trainer) {
  return job.lora->base != FrozenBase::AsWeights &&
         prepared_as(job, storage, trainer) != Prepared::No;
}

std::string copies_text(const Flags<Part>& parts) {
  const bool embedding = parts.has(Part::Embedding), head = parts.has(Part::Head);
  return fmt::format(" and whole copies of {}{}{}", embedding ? "embedding" : "",
                     embedding && head ? " and " : "", head ? "head" : "");
}

}  // namespace

std::string assumed_text(const Trainer& trainer, const Layout& layout, const Job& job,
                         std::optional<AttentionKernel> attention) {
  const StoredAs storage(layout);
  std::vector<std::string> parts;
  const OptimizerFacts* optimizer = find_kind(trainer.optimizers, job.optimizer);
  if (const PrecisionFacts* facts = find_kind(trainer.precisions, layout.precision)) {
    const std::string_view weight = weight_dtype(job, storage, trainer);
    // Gradients are in the dtype of weights that are loaded in another than usual.
    const bool usual = weight == facts->weight || (job.lora && weight == facts->frozen);
    parts.push_back(
        fmt::format("{}: {}", name_of(layout.precision),
                    weights_text(*facts, optimizer, weight,
                                 usual ? gradient_dtype(layout, trainer) : std::string(weight))));
  }
  parts.push_back(fmt::format("{}{}", name_of(job.optimizer),
                              optimizer ? " with " + states_text(*optimizer) : ""));
  if (job.lora) {
    const std::string_view dtype = adapter_dtype(job, trainer);
    std::string beside;
    if (job.lora->base != FrozenBase::AsWeights)
      beside = fmt::format(" over {}", name_of(job.lora->base));
    if (job.lora->prepared > Prepared::No)
      beside += ", prepared by " + std::string(name_of(job.lora->prepared));
    else if (is_prepared_unasked(job, storage, trainer))
      beside += ", norms and what else has not few bits in fp32";
    if (!job.lora->trained.empty()) beside += copies_text(job.lora->trained);
    parts.push_back(fmt::format("{}{}adapters of rank {}{}", dtype, dtype.empty() ? "" : " ",
                                job.lora->rank, beside));
  }
  const AttentionKernel kernel = slice_of(layout, trainer, 0, attention).attention;
  parts.push_back(fmt::format("{} attention", name_of(kernel)));
  // Where the answer hangs on it.
  if (!trainer.pipeline_since.empty() && !trainer.libraries.torch_is_trainer) {
    parts.push_back(fmt::format("torch {}", to_text(trainer.libraries.torch)));
  }
  return join(parts, "; ");
}

std::string model_notes(const Model& model, int width) {
  std::string text;
  for (const std::string& note : model.notes) {
    for (const std::string& line : wrapped(note, width - 2)) text += "  " + line + '\n';
  }
  return text;
}

std::string setting_text(const Question& setting, int width) {
  const Layout& layout = setting.read.layout;
  std::string text = fmt::format("{}\n", to_text(layout));
  for (const std::string& note : setting.read.notes) text += fmt::format("  {}\n", note);
  text += model_notes(setting.model, width);
  text += fmt::format("{} on {} with {} {}\n", setting.model.name, setting.cluster.name,
                      setting.trainer.title, to_text(setting.trainer.version));
  const bool whole = layout.gbs % (layout.mbs * layout.dp) == 0;
  const std::string batch =
      whole ? fmt::format("{} of mbs {}",
                          counted(micro_batch_count(layout), "micro-batch", "micro-batches"),
                          layout.mbs)
            : fmt::format("{} in micro-batches of {}", counted(layout.gbs, "sequence", "sequences"),
                          layout.mbs);
  text += wrapped_lines(
      fmt::format("{}; {} a step; {} a step; {}", counted(world_size(layout), "rank", "ranks"),
                  batch, counted(tokens_per_step(layout).value(), "token", "tokens"),
                  counted(stage_count(layout), "stage", "stages")),
      width);
  text += wrapped_lines(
      fmt::format("{}; {}; {} tokens a sequence; {} usable",
                  assumed_text(setting.trainer, layout, setting.job, setting.attention),
                  sharding_text(layout), with_thousands(layout.seq),
                  to_text(capacity_of(setting.cluster))),
      width);
  return text;
}

std::string doubt_text(const Ground& ground, const Trainer& trainer) {
  switch (ground.doubt) {
    case Ground::Doubt::None: return {};
    case Ground::Doubt::Unscored:
      return fmt::format(
          "Memory of {} is derived from its source and hardly validated on published runs: the "
          "upper "
          "end of intervals is wider.",
          trainer.title);
    case Ground::Doubt::Adapters:
      if (trainer.name != trainer.stack || trainer.adapters.prepared.empty()) return {};
      return "What a run with adapters holds depends on the program that starts it: --trainer trl, "
             "axolotl, llama-factory or peft (a script by peft's guide) has its defaults.";
  }
  return {};
}

std::string violations_text(const std::vector<LayoutViolation>& found, int width) {
  if (found.empty()) return "valid\n";
  std::string text = is_legal(found) ? "valid, with advice:\n" : "invalid:\n";
  for (const LayoutViolation& violation : found) {
    const char* weight = violation.severity == Severity::Forbidden ? "forbidden" : "advice";
    Table table{{{""}, {"", Align::Wrap}}, {{weight, violation.reason}}};
    if (!violation.hint.empty()) table.rows.push_back({"hint", violation.hint});
    table.rows.push_back({"rule", violation.source.empty()
                                      ? violation.id
                                      : fmt::format("{} ({})", violation.id, violation.source)});
    text += '\n' + to_text(table, width);
  }
  return text;
}

Json violations_json(const std::vector<LayoutViolation>& found) {
  Json list = Json::array();
  for (const LayoutViolation& violation : found) {
    Json entry = Json::object();
    entry.add("id", Json::of(violation.id))
        .add("forbidden", Json::of(violation.severity == Severity::Forbidden))
        .add("reason", Json::of(violation.reason))
        .add("hint", Json::of(violation.hint))
        .add("source", Json::of(violation.source));
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace trainwright::cli
