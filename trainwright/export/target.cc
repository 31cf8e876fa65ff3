#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/pattern.h"

namespace trainwright {
namespace {

using enum Launcher;

// Later versions of a trainer first.
constexpr Target kTargets[] = {
    {"megatron-lm", "megatron-core", {}, SettingsForm::Options, "settings.sh", Megatron},
    {"megatron-bridge", "megatron-bridge", {}, SettingsForm::Overrides, "settings.sh", Bridge},
    {"torchtitan", "torchtitan", {0, 3}, SettingsForm::Options, "settings.sh", Titan},
    {"torchtitan", "torchtitan", {}, SettingsForm::Toml, "torchtitan.toml", Titan},
    {"deepspeed", "deepspeed", {}, SettingsForm::Json, "ds_config.json", Deepspeed, true},
    {"accelerate", "accelerate", {}, SettingsForm::Yaml, "accelerate.yaml", Accelerate, true},
    {"accelerate",
     "accelerate-deepspeed",
     {},
     SettingsForm::Yaml,
     "accelerate.yaml",
     Accelerate,
     true},
    {"nemo-automodel", "nemo-automodel", {}, SettingsForm::Yaml, "recipe.yaml", Automodel, true},
    {"nanotron", "nanotron", {}, SettingsForm::Yaml, "nanotron.yaml", Nanotron},
    {"paddleformers", "paddleformers", {}, SettingsForm::Options, "settings.sh", Paddle},
    {"paddlenlp", "paddlenlp", {}, SettingsForm::Options, "settings.sh", Paddle},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : kTargets) {
    if (std::find(names.begin(), names.end(), target.name) == names.end()) {
      names.emplace_back(target.name);
    }
  }
  return names;
}

std::string trainer_of_target(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == lower_case(name)) return std::string(target.trainer);
  }
  return "";
}

Result<Target> find_target(std::string_view name, const Trainer& trainer) {
  const std::string wanted = lower_case(name);
  const auto names = target_names();
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    return fail("--to", fmt::format("'{}' is not a target", name),
                did_you_mean(name, names, "the targets are " + enumerate(names)));
  }
  std::string_view of;  // whose target it is
  for (const Target& target : kTargets) {
    const bool meant = wanted.empty() || wanted == target.name;
    if (meant && target.trainer == trainer.stack && target.from <= trainer.version) return target;
    if (meant && of.empty()) of = target.trainer;
  }
  if (wanted.empty()) {
    return fail("--trainer", fmt::format("{} is no target of exports", trainer.title),
                "the targets are " + enumerate(names));
  }
  return fail("--to", fmt::format("a plan for {} says nothing about {}", trainer.title, wanted),
              fmt::format("plan with --trainer {}", of));
}

std::vector<std::string> known_keys(const Trainer& trainer, const Target& target) {
  std::set<std::string> keys;
  const auto take = [&](const std::string& text) {
    if (text == "-") return;
    for (const Setting& setting : detail::parse_settings(text)) {
      if (target.form == SettingsForm::Options || !setting.key.starts_with("--")) {
        keys.insert(setting.key);
      }
    }
  };
  for (const auto& [ours, theirs] : trainer.settings) {
    const bool prose = ours.starts_with("why.") || ours.starts_with("recipes.");
    if (ours == "modules" || ours == "stage_modules" || prose) continue;
    for (const std::string_view one : split(theirs, ';')) take(std::string(one));
  }
  // What one value is told by goes before its offer.
  const auto take_all = [&](const std::string& key, const auto& offers, auto name) {
    for (const auto& offer : offers) {
      if (!detail::find_setting(trainer, key + '.' + std::string(name(offer)))) take(offer.setting);
    }
  };
  const auto by_kind = [](const auto& offer) { return name_of(offer.kind); };
  take_all("precision", trainer.precisions, by_kind);
  take_all("optimizer", trainer.optimizers, by_kind);
  take_all("sharding", trainer.shardings, by_kind);
  take_all("recompute", trainer.recomputes, by_kind);
  take_all("cp_kind", trainer.cp_kinds, by_kind);
  take_all("offload", trainer.offloads, by_kind);
  take_all("overlap", trainer.overlaps, by_kind);
  take_all("dispatcher", trainer.flex_backends, by_kind);
  take_all("loss", trainer.losses, [](const Loss& loss) { return loss.name; });
  if (const Kernel* kernel = find_kernel(trainer, KernelKind::GroupedGemm)) take(kernel->setting);
  return {keys.begin(), keys.end()};
}

}  // namespace trainwright
