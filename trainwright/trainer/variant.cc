// A trainer as one run had switched it: an object on top of a trainer that is known.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "trainwright/base/names.h"
#include "trainwright/base/text.h"
#include "trainwright/trainer/called.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

constexpr std::string_view kAsked = "asked for";

std::vector<std::string> names_of(const auto& entries, auto name) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(name(entry));
  return names;
}

// {"flash-attention": true}: always used, or never.
void switch_kernels(JsonFields& fields, Trainer& trainer, Diagnostics& faults) {
  const Json* object = fields.raw("kernels");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("kernels"), faults);
  for (Kernel& kernel : trainer.kernels) {
    const auto on = at.optional_bool(name_of(kernel.kind));
    if (on) kernel.use = *on ? Use::Always : Use::Never;
  }
  at.finish();
}

// {"cublas": 8519680}: bytes of one of them.
void set_workspaces(JsonFields& fields, Trainer& trainer, Diagnostics& faults) {
  const Json* object = fields.raw("workspaces");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("workspaces"), faults);
  constexpr IntegerRange kBytes{.least = 0, .most = std::int64_t{1} << 36};
  for (Workspace& workspace : trainer.workspaces) {
    const auto bytes = at.optional_integer(workspace.library, kBytes);
    if (!bytes) continue;
    workspace.bytes = workspace.before_hopper = workspace.after_hopper = workspace.amd = *bytes;
  }
  at.finish();
}

// {"transformer_engine": "2.11"}: versions other than the file's.
void set_libraries(JsonFields& fields, LibraryFacts& libraries, Diagnostics& faults) {
  const Json* object = fields.raw("libraries");
  if (object == nullptr) return;
  JsonFields at(*object, fields.origin(), fields.path("libraries"), faults);
  const auto set = [&](std::string_view name, Version& version) {
    const auto text = at.optional_string(name);
    if (!text) return;
    const auto parsed = parse_version(*text);
    if (!parsed) at.fault(name, fmt::format("'{}' is not a version", *text), "for instance 2.11");
    version = parsed.value_or(version);
  };
  set("torch", libraries.torch);
  set("nccl", libraries.nccl);
  set("cuda", libraries.cuda);
  set("transformer_engine", libraries.transformer_engine);
  at.finish();
}

void choose_loss(JsonFields& fields, Trainer& trainer) {
  const auto wanted = fields.optional_string("loss");
  if (!wanted) return;
  const auto loss = std::find_if(trainer.losses.begin(), trainer.losses.end(),
                                 [&](const Loss& other) { return other.name == *wanted; });
  if (loss == trainer.losses.end()) {
    const auto names = names_of(trainer.losses, [](const Loss& other) { return other.name; });
    fields.fault("loss", fmt::format("{} has no loss '{}'", trainer.title, *wanted),
                 did_you_mean(*wanted, names, "its losses: " + enumerate(names)));
    return;
  }
  loss->use = Use::Always;
  std::rotate(trainer.losses.begin(), loss, loss + 1);
}

// "bf16": in every precision that offers it, gradients are added up in it.
void choose_gradients(JsonFields& fields, Trainer& trainer) {
  const auto wanted = fields.optional_string("gradients");
  if (!wanted) return;
  bool offered = false;
  for (PrecisionFacts& precision : trainer.precisions) {
    auto& dtypes = precision.gradients;
    const auto at = std::find(dtypes.begin(), dtypes.end(), *wanted);
    if (at == dtypes.end()) continue;
    std::rotate(dtypes.begin(), at, at + 1);
    offered = true;
  }
  if (!offered) {
    fields.fault("gradients", fmt::format("{} has no gradients in {}", trainer.title, *wanted),
                 "`trainwright show trainer` has those of each precision");
  }
}

// Facts that were asked for need no source of their own.
Json with_source(const Json& object) {
  Json code = object;
  if (code.is_object() && code.find("source") == nullptr) code.add("source", Json::of(kAsked));
  return code;
}

}  // namespace

Result<Trainer> read_trainer_variant(const Json& json, const std::string& origin,
                                     std::span<const Trainer> trainers) {
  Diagnostics faults;
  JsonFields fields(json, origin, "", faults);
  const std::string base = fields.string("based_on");
  if (!faults.empty()) return fail(std::move(faults));
  Trainer trainer = TW_TRY(pick_trainer(base, trainers));
  switch_kernels(fields, trainer, faults);
  set_workspaces(fields, trainer, faults);
  set_libraries(fields, trainer.libraries, faults);
  set_torch(trainer, trainer.libraries.torch);
  choose_loss(fields, trainer);
  choose_gradients(fields, trainer);
  const auto flash = fields.optional_integer("flash", kFlashGenerations);
  if (flash) {
    trainer.libraries.flash = *flash;
    trainer.libraries.best_attention_from = 0;
  }
  const auto takes = fields.optional_number("attention_takes");
  trainer.libraries.attention_takes = takes.value_or(trainer.libraries.attention_takes);
  if (takes && !(*takes > 0)) {
    fields.fault("attention_takes", "a kernel takes some share of another one's time, above 0",
                 "1.8 where it takes 1.8 times as long");
  }
  if (const Json* code = fields.raw("code")) {
    Json facts = Json::object();
    facts.add("code", with_source(*code));
    JsonFields at(facts, origin, "", faults);
    read_facts(at, trainer, faults);
  }
  fields.finish();
  if (!faults.empty()) return fail(std::move(faults));
  return trainer;
}

namespace {

// Words that are an object, or name a file of one; nothing where they are a name.
std::optional<Result<Json>> object_in(const std::string& words) {
  if (words.starts_with('{')) return parse_json(words, "trainer");
  if (words.ends_with(".json")) return read_json_file(words);
  return std::nullopt;
}

}  // namespace

Result<Trainer> trainer_named(std::string_view words, std::span<const Trainer> trainers) {
  const std::string text(trim(words));
  auto object = object_in(text);
  if (!object) return pick_trainer(text, trainers);
  const std::string origin = text.starts_with('{') ? "trainer" : text;
  return read_trainer_variant(TW_TRY(*std::move(object)), origin, trainers);
}

std::string trainer_called(std::string_view words) {
  std::string name(trim(words));
  if (const auto object = object_in(name)) {
    const Json* base = *object ? (*object)->find("based_on") : nullptr;
    name = base == nullptr ? "" : base->string;
  }
  return std::string(trim(name.substr(0, name.find_first_of("@,"))));
}

Result<Trainer> find_trainer(std::string_view words, const std::string& data_dir) {
  const auto trainers = TW_TRY(load_trainers_called(trainer_called(words), data_dir));
  return trainer_named(words, trainers);
}

}  // namespace trainwright
