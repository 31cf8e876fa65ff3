// An entry of "optimizers".
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "trainwright/base/text.h"
#include "trainwright/trainer/reading.h"

namespace trainwright {
namespace {

constexpr std::size_t kMostStates = 4;  // as OptimizerStates holds

bool is_dtype(std::string_view name) {
  const auto names = dtype_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "DTYPE", "DTYPE rows of matrices"; nullopt if it is not written like that.
std::optional<StateFacts> state_named(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  StateFacts state{.dtype = std::string(words.front())};
  if (state.dtype != kAsWeight && !is_dtype(state.dtype)) return std::nullopt;
  std::size_t at = 1;
  if (at < words.size() && words[at] != "of") {
    const auto size = named<StateSize>(words[at++]);
    if (!size) return std::nullopt;
    state.size = *size;
  }
  if (at == words.size()) return state;
  const auto of =
      at + 2 == words.size() && words[at] == "of" ? named<StateOf>(words[at + 1]) : std::nullopt;
  if (!of) return std::nullopt;
  state.of = *of;
  return state;
}

void read_states(JsonFields& fields, std::string_view key, std::vector<StateFacts>& states) {
  states.clear();
  for (const std::string& text : fields.optional_strings(key)) {
    if (auto state = state_named(text)) {
      states.push_back(*std::move(state));
      continue;
    }
    const auto dtypes = to_strings(dtype_names());
    fields.fault(key, fmt::format("no tensor '{}'", text),
                 fmt::format("{} or {}, then rows or columns, then of {}", enumerate(dtypes),
                             kAsWeight, enumerate(to_strings(all_names(StateOf{})))));
  }
  if (states.size() <= kMostStates) return;
  fields.fault(key, fmt::format("{} tensors", states.size()),
               fmt::format("at most {}", kMostStates));
  states.resize(kMostStates);
}

}  // namespace

void read_optimizer(JsonFields& fields, OptimizerFacts& optimizer) {
  constexpr IntegerRange kCount{.least = 0, .most = std::int64_t{1} << 32};
  read_states(fields, "states", optimizer.states);
  read_states(fields, "temporaries", optimizer.temporaries);
  optimizer.block = fields.optional_integer("block", kCount).value_or(0);
  optimizer.least = fields.optional_integer("least", kCount).value_or(0);
  optimizer.tables = fields.optional_integer("tables", kCount).value_or(0);
  optimizer.reads_gradients.clear();
  for (const std::string& name : fields.optional_strings("reads_gradients")) {
    const auto kind = named<PrecisionKind>(name);
    if (kind) optimizer.reads_gradients.push_back(*kind);
    const auto known = to_strings(all_names(PrecisionKind{}));
    if (!kind) {
      fields.fault("reads_gradients", fmt::format("unknown name '{}'", name),
                   did_you_mean(name, known, "known: " + enumerate(known)));
    }
  }
  optimizer.master = fields.optional_string("master").value_or("");
  if (optimizer.master.empty() || is_dtype(optimizer.master)) return;
  fields.fault("master", fmt::format("unknown name '{}'", optimizer.master),
               did_you_mean(optimizer.master, to_strings(dtype_names()),
                            "known: " + enumerate(to_strings(dtype_names()))));
}

}  // namespace trainwright
