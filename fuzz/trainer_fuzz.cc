// Any bytes as a trainer's file, as rules.json and as an expression: faults are diagnostics, and
// what is accepted prints to a file that reads back to the same trainer.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trainwright/trainer/trainer.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void judge(const Trainer& trainer) {
  Facts nothing;
  Facts zeros;
  for (std::size_t i = 0; i < kVariableCount; ++i) zeros.set(static_cast<Variable>(i), 0);
  for (const Rule& rule : trainer.rules) {
    evaluate(rule, nothing);
    evaluate(rule, zeros);
    explain(rule.reason, zeros);
    explain(rule.hint, nothing);
  }
  for (const auto& precision : trainer.precisions) {
    for (const auto& optimizer : trainer.optimizers) {
      require(parameter_bytes(trainer, precision.kind, optimizer.kind).has_value());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto expression = parse_expression(text, "fuzz")) evaluate(*expression, {});
  parse_version(text);

  const TrainerFile rules[] = {{"rules.json", text}};
  (void)read_trainers(rules);
  const TrainerFile file[] = {{"fuzz.json", text}};
  const auto trainers = read_trainers(file);
  if (!trainers) return 0;
  for (const Trainer& trainer : *trainers) {
    judge(trainer);
    const std::string printed = to_text(to_json(trainer));
    const TrainerFile again[] = {{"again.json", printed}};
    const auto read = read_trainers(again);
    require(read.has_value() && to_text(to_json(read->front())) == printed);
  }
  (void)pick_trainer(text, *trainers);
  return 0;
}
