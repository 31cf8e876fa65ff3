// Any bytes as a file of settings, but for TOML, whose library asserts that text has a form: faults
// are diagnostics, and what is understood is text that the layout's reader takes or diagnoses.
#include <cstdint>
#include <string>

#include "trainwright/export/export.h"

using namespace trainwright;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto trainers = load_trainers(TRAINWRIGHT_DATA_DIR);
  if (!trainers || size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr SettingsForm kForms[] = {SettingsForm::Options, SettingsForm::Yaml, SettingsForm::Json};
  const SettingsForm form = kForms[data[0] % 3];
  const auto settings = read_settings(text, "fuzz", form);
  if (!settings) return 0;
  static const auto keys = read_import_keys(TRAINWRIGHT_DATA_DIR, "llama-factory");
  if (keys) {
    const ClassedKeys classed = class_keys(*settings, *keys, "fuzz", false);
    const FineTuning fine = understand_fine_tuning(FineTuner::LlamaFactory, classed.counted, 16);
    (void)parse_layout(fine.understood.layout);
    (void)parse_job(fine.understood.job);
  }
  const auto trainer = pick_trainer(trainer_of_settings(*settings, form), *trainers);
  if (!trainer) return 0;
  const auto target = find_target("", *trainer);
  if (!target) return 0;
  const auto read = understand(*settings, *trainer, *target, 16);
  if (read) (void)parse_layout(read->layout);
  return 0;
}
