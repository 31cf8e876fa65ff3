#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "trainwright/base/json.h"
#include "trainwright/base/text.h"
#include "trainwright/schedule/schedule.h"

namespace trainwright {
namespace {

constexpr double kLongest = 1e15;                            // seconds; keeps sums exact enough
constexpr std::int64_t kLargest = std::int64_t{1} << 50;     // bytes of one activation or tensor
constexpr std::int64_t kMostMemory = std::int64_t{1} << 62;  // all of them at once

// One name of the costs: a number for all stages or boundaries, or one for each.
struct Series {
  std::string_view name;
  bool by_boundary = false;
  bool bytes = false;
  bool signed_value = false;
  bool single = false;              // a number of the whole pipeline, no list
  std::vector<double> values = {};  // empty: not given
};

using AllSeries = std::array<Series, 19>;
AllSeries all_series() {
  return {{{.name = "F"},
           {.name = "I"},
           {.name = "W"},
           {.name = "B"},
           {.name = "kept", .bytes = true},
           {.name = "input", .bytes = true, .signed_value = true},
           {.name = "comm", .by_boundary = true},
           {.name = "size", .by_boundary = true, .bytes = true},
           {.name = "loss", .single = true},
           {.name = "action", .single = true},
           {.name = "overlap", .single = true},
           {.name = "resident", .bytes = true},
           {.name = "gradients", .bytes = true},
           {.name = "peak_F", .bytes = true},
           {.name = "peak_I", .bytes = true},
           {.name = "peak_W", .bytes = true},
           {.name = "peak_B", .bytes = true},
           {.name = "first_W", .bytes = true},
           {.name = "first_B", .bytes = true}}};
}

std::vector<std::string> names_of(const AllSeries& series) {
  std::vector<std::string> names;
  for (const Series& one : series) names.emplace_back(one.name);
  return names;
}

// Why a number cannot stand for this series; empty when it can.
std::string fault_of(const Series& series, double value) {
  if (!std::isfinite(value)) return "it is not a finite number";
  if (value < 0 && !series.signed_value) return "it is negative";
  if (series.bytes && value != std::floor(value)) return "it is not a whole number of bytes";
  if (std::abs(value) > (series.bytes ? static_cast<double>(kLargest) : kLongest)) {
    return "it is too large";
  }
  if (series.name == "overlap" && value > 1) return "it is not within 0 to 1";
  return "";
}

Costs assemble(const AllSeries& series, int stages) {
  const auto value = [&](std::size_t which, std::size_t i) -> std::optional<double> {
    const auto& values = series[which].values;
    if (values.empty()) return std::nullopt;
    return values.size() == 1 ? values[0] : values[i];
  };
  const auto whole = [&](std::size_t which, std::size_t i, std::int64_t otherwise) {
    const auto given = value(which, i);
    return Bytes(given ? static_cast<std::int64_t>(*given) : otherwise);
  };
  Costs costs;
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages); ++s) {
    const double input = value(1, s).value_or(0), weight = value(2, s).value_or(0);
    InnerPeaks inside{whole(13, s, 0), whole(14, s, 0), whole(15, s, 0), {},
                      whole(17, s, 0), whole(18, s, 0)};
    const Bytes either = std::max(inside.backward_input, inside.backward_weight);
    inside.backward = whole(16, s, either.value());
    costs.stages.push_back({Seconds(value(0, s).value_or(0)), Seconds(input), Seconds(weight),
                            Seconds(value(3, s).value_or(input + weight)), whole(4, s, 1),
                            whole(5, s, 0), whole(11, s, 0), whole(12, s, 0), inside});
    if (s + 1 == static_cast<std::size_t>(stages)) break;
    const Seconds transfer(value(6, s).value_or(0));
    costs.boundaries.push_back({transfer, transfer, whole(7, s, 0)});
  }
  costs.loss = Seconds(value(8, 0).value_or(0));
  costs.per_action = Seconds(value(9, 0).value_or(0));
  costs.overlap = value(10, 0).value_or(0);
  return costs;
}

Result<Costs> finish(const AllSeries& series, int stages, std::string_view where,
                     Diagnostics diagnostics) {
  for (std::size_t needed = 0; needed < 3; ++needed) {
    if (!series[needed].values.empty() || (needed > 0 && !series[3].values.empty())) continue;
    diagnostics.push_back({std::string(where), fmt::format("{} is missing", series[needed].name),
                           "give F, I and W, as in F=1,I=1,W=1"});
  }
  if (!diagnostics.empty()) return fail(std::move(diagnostics));
  return assemble(series, stages);
}

}  // namespace

Result<Costs> parse_costs(std::string_view text, int stages) {
  AllSeries series = all_series();
  Diagnostics diagnostics;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view name = trim(part.substr(0, equals));
    Series* found = nullptr;
    for (Series& one : series) {
      if (one.name == name) found = &one;
    }
    if (found == nullptr || equals == std::string_view::npos) {
      diagnostics.push_back({"--costs", fmt::format("'{}' is not a cost", part),
                             did_you_mean(name, names_of(series), "written F=1,I=1,W=1,comm=0")});
      continue;
    }
    const auto value = parse_number(trim(part.substr(equals + 1)));
    const std::string fault = value ? fault_of(*found, *value) : "it is not a number";
    if (!fault.empty()) {
      diagnostics.push_back({"--costs", fmt::format("{}: {}", name, fault), {}});
      found->values = {0};  // given, if wrongly
    } else if (!found->values.empty()) {
      diagnostics.push_back({"--costs", fmt::format("{} is given twice", name), {}});
    } else {
      found->values = {*value};
    }
  }
  return finish(series, stages, "--costs", std::move(diagnostics));
}

Result<Costs> read_costs_json(std::string_view text, std::string_view origin, int stages) {
  const Json json = TW_TRY(parse_json(text, origin));
  Diagnostics diagnostics;
  if (!json.is_object()) return fail(std::string(origin), "costs are a JSON object");
  AllSeries series = all_series();
  JsonFields fields(json, std::string(origin), "", diagnostics);
  for (Series& one : series) {
    const Json* raw = fields.raw(one.name);
    if (raw == nullptr) continue;
    const std::size_t count = static_cast<std::size_t>(one.by_boundary ? stages - 1 : stages);
    std::vector<const Json*> items;
    if (raw->is_array() && !one.single) {
      for (const Json& item : raw->items) items.push_back(&item);
      if (items.size() != count) {
        fields.fault(one.name,
                     fmt::format("it has {} numbers, {} are needed", items.size(), count));
        continue;
      }
    } else {
      items.push_back(raw);
    }
    for (const Json* item : items) {
      const std::string fault =
          item->is_number() ? fault_of(one, item->number) : "it is not a number";
      if (fault.empty()) {
        one.values.push_back(item->number);
      } else {
        fields.fault(one.name, fault);
        one.values = {0};
        break;
      }
    }
  }
  fields.finish();
  return finish(series, stages, origin, std::move(diagnostics));
}

Diagnostics check_costs(const Costs& costs, int stages, int microbatches) {
  Diagnostics faults;
  if (costs.stages.size() != static_cast<std::size_t>(stages) ||
      costs.boundaries.size() + 1 != costs.stages.size()) {
    faults.push_back({"costs",
                      fmt::format("they are for {} stages and {} boundaries, not {} stages",
                                  costs.stages.size(), costs.boundaries.size(), stages),
                      {}});
    return faults;
  }
  const auto good = [](Seconds time) {
    return std::isfinite(time.value()) && time.value() >= 0 && time.value() <= kLongest;
  };
  double bytes = 0;
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    const StageCosts& stage = costs.stages[s];
    if (!good(stage.forward) || !good(stage.backward_input) || !good(stage.backward_weight) ||
        !good(stage.backward)) {
      faults.push_back(
          {fmt::format("costs of stage {}", s), "a time is not finite and at least 0", {}});
    }
    if (stage.kept < Bytes(0)) {
      faults.push_back({fmt::format("costs of stage {}", s), "it keeps fewer than no bytes", {}});
    }
    bytes += std::abs(static_cast<double>(stage.kept.value())) +
             std::abs(static_cast<double>(stage.released_by_input.value()));
    const auto add_bytes = [&](Bytes more) {
      if (more < Bytes(0)) {
        faults.push_back({fmt::format("costs of stage {}", s), "it has fewer than no bytes", {}});
      }
      bytes += std::abs(static_cast<double>(more.value()));
    };
    add_bytes(stage.resident);
    add_bytes(stage.gradients);
    for (const Bytes more : all_of(stage.inside)) add_bytes(more);
  }
  for (const BoundaryCosts& boundary : costs.boundaries) {
    if (!good(boundary.activation) || !good(boundary.gradient) || boundary.size < Bytes(0)) {
      faults.push_back({"costs", "a transfer's time or size is not finite and at least 0", {}});
    }
    // PyTorch's runtime holds four of each: both receive buffers and both sent tensors.
    bytes += 4 * static_cast<double>(boundary.size.value());
  }
  if (bytes * microbatches > static_cast<double>(kMostMemory)) {
    faults.push_back({"costs", "the bytes of all micro-batches do not fit 64 bits", {}});
  }
  if (!good(costs.loss) || !good(costs.per_action) || !(costs.overlap >= 0 && costs.overlap <= 1)) {
    faults.push_back({"costs", "loss, action or overlap is out of range", {}});
  }
  return faults;
}

std::string time_text(Seconds time, bool in_forwards) {
  return in_forwards ? significant(time.value(), 6) + " F" : to_text(time);
}

std::string memory_text(Bytes memory, const Costs& costs) {
  const bool counted = std::all_of(costs.stages.begin(), costs.stages.end(),
                                   [](const StageCosts& stage) { return stage.kept == Bytes(1); });
  return counted ? fmt::format("{} kept", with_thousands(memory.value())) : to_text(memory);
}

}  // namespace trainwright
