#include "trainwright/trainer/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/trainer/known.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

template <class T>
std::vector<std::string> kinds_of(const std::vector<T>& list) {
  std::vector<std::string> kinds;
  for (const T& entry : list) kinds.emplace_back(name_of(entry.kind));
  return kinds;
}

Diagnostic not_offered(const Trainer& trainer, std::string_view what, std::string_view kind,
                       const std::vector<std::string>& offered) {
  return {std::string(kind), fmt::format("{} has no {} '{}'", trainer.title, what, kind),
          did_you_mean(kind, offered, "it has " + enumerate(offered))};
}

// Names of dtypes were checked when the file was read.
double bytes_of(const std::string& dtype) {
  const auto bytes = dtype_bytes(dtype);
  TW_CHECK(bytes.has_value(), "a dtype the reader did not check: " + dtype);
  return *bytes;
}

// Of a weight of so many bytes a number.
OptimizerStates settled(const OptimizerFacts& facts, double weight) {
  OptimizerStates states{.tensors = {},
                         .temporaries = {},
                         .block = facts.block,
                         .least = facts.least,
                         .tables = static_cast<double>(facts.tables)};
  const auto rule = [&](const StateFacts& state) {
    const double bytes = state.dtype == kAsWeight ? weight : bytes_of(state.dtype);
    return StateRule{bytes, state.size, state.of};
  };
  for (const StateFacts& state : facts.states) states.tensors.push_back(rule(state));
  for (const StateFacts& list : facts.temporaries) states.temporaries.push_back(rule(list));
  return states;
}

}  // namespace

Result<ParameterBytes> parameter_bytes(const Trainer& trainer, PrecisionKind precision,
                                       OptimizerKind optimizer, std::string_view gradient) {
  const auto* numbers = find_kind(trainer.precisions, precision);
  const auto* steps = find_kind(trainer.optimizers, optimizer);
  Diagnostics faults;
  if (numbers == nullptr) {
    faults.push_back(
        not_offered(trainer, "precision", name_of(precision), kinds_of(trainer.precisions)));
  }
  if (steps == nullptr) {
    faults.push_back(
        not_offered(trainer, "optimizer", name_of(optimizer), kinds_of(trainer.optimizers)));
  }
  if (numbers != nullptr && !gradient.empty() &&
      std::find(numbers->gradients.begin(), numbers->gradients.end(), gradient) ==
          numbers->gradients.end()) {
    faults.push_back(not_offered(trainer, "gradient dtype", gradient, numbers->gradients));
  }
  if (!faults.empty()) return fail(std::move(faults));

  ParameterBytes bytes;
  bytes.weight = bytes_of(numbers->weight);
  bytes.weight_copies = numbers->weight_copies;
  bytes.gradient = bytes_of(gradient.empty() ? numbers->gradients.front() : std::string(gradient));
  // An optimizer replaces a second copy, it does not invent one where the weights are exact.
  const bool has_master = numbers->master != "none";
  bytes.master = bytes_of(has_master && !steps->master.empty() ? steps->master : numbers->master);
  bytes.states = settled(*steps, bytes.weight);
  const double exact = bytes_of("fp32");
  const auto& as_they_are = steps->reads_gradients;
  const bool copied =
      numbers->gradient_copied_at_step &&
      std::find(as_they_are.begin(), as_they_are.end(), precision) == as_they_are.end();
  if (copied && bytes.gradient < exact) bytes.gradient_at_step = exact;
  return bytes;
}

Result<ParameterBytes> parameter_bytes_in(std::string_view dtype, const Trainer& trainer,
                                          PrecisionKind precision, OptimizerKind optimizer) {
  ParameterBytes bytes = TW_TRY(parameter_bytes(trainer, precision, optimizer));
  bytes.weight = bytes.gradient = bytes_of(std::string(dtype));
  bytes.weight_copies = bytes.gradient_at_step = 0;
  if (bytes.weight >= bytes_of("fp32")) bytes.master = 0;
  bytes.states = settled(*find_kind(trainer.optimizers, optimizer), bytes.weight);
  return bytes;
}

const Kernel* find_kernel(const Trainer& trainer, KernelKind kind) {
  return find_kind(trainer.kernels, kind);
}

bool has_rule(const Trainer& trainer, std::string_view id) {
  return std::any_of(trainer.rules.begin(), trainer.rules.end(),
                     [&](const Rule& rule) { return rule.id == id; });
}

const Bucket* find_bucket(const Trainer& trainer, BucketPurpose purpose) {
  for (const Bucket& bucket : trainer.buckets) {
    if (bucket.purpose == purpose) return &bucket;
  }
  return nullptr;
}

Use overlap_use(const Trainer& trainer, OverlapKind kind) {
  const Overlap* overlap = find_kind(trainer.overlaps, kind);
  return overlap == nullptr ? Use::Never : overlap->use;
}

bool rests_on_assumptions(const Trainer& trainer) {
  const auto any = [](const auto& facts) {
    return std::any_of(facts.begin(), facts.end(),
                       [](const auto& fact) { return is_guess(fact.source); });
  };
  return any(trainer.precisions) || any(trainer.optimizers) || any(trainer.kernels) ||
         any(trainer.losses) || any(trainer.shardings) || is_guess(trainer.code.source) ||
         is_guess(trainer.pipeline.source);
}

}  // namespace trainwright
