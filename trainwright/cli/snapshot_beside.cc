#include "trainwright/cli/snapshot_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/calibrate/calibrate.h"
#include "trainwright/cli/replay.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

enum class Group : std::uint8_t { Weights, Gradients, States, Moving, Slack };
constexpr std::size_t kGroups = 5;
using GroupBytes = std::array<Bytes, kGroups>;

struct GroupFacts {
  std::string_view name, cause;
};
constexpr std::array<GroupFacts, kGroups> kFacts{{
    {"weights", "another precision, a copy beside them, or other sharding (zero, tp, fsdp)"},
    {"gradients", "their dtype, ZeRO's stage, or buckets of data parallelism"},
    {"optimizer states", "their dtype, master weights made with them, or ZeRO's stage"},
    {"activations and transients",
     "recompute, the attention kernel, the micro-batch, or how many micro-batches are in flight"},
    {"allocator slack",
     "how blocks fall: expandable segments, streams, other tensors between the steps"},
}};

Bytes& of(GroupBytes& bytes, Group group) { return bytes[static_cast<std::size_t>(group)]; }
Bytes of(const GroupBytes& bytes, Group group) { return bytes[static_cast<std::size_t>(group)]; }

Group group_of(Category category) {
  switch (category) {
    case Category::Weights:
    case Category::MainWeights: return Group::Weights;
    case Category::Gradients: return Group::Gradients;
    case Category::OptimizerStates:
    case Category::StepBuffers: return Group::States;
    case Category::AllocatorSlack: return Group::Slack;
    default: return Group::Moving;
  }
}

Group group_of(StorageKind kind) {
  switch (kind) {
    case StorageKind::Parameter:
    case StorageKind::Buffer: return Group::Weights;
    case StorageKind::Gradient: return Group::Gradients;
    case StorageKind::Optimizer: return Group::States;
    default: return Group::Moving;
  }
}

GroupBytes predicted_of(const RankClass& rank) {
  GroupBytes bytes{};
  for (std::size_t c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    if (category == Category::Communicators || category == Category::Context) continue;
    of(bytes, group_of(category)) += rank.bytes[c];
  }
  return bytes;
}

// What was recorded.
struct Seen {
  GroupBytes bytes{};
  Bytes allocated, unknown;  // the second: of no known kind
  bool slack = false;        // it tells what was reserved
};

Seen seen_of(const BytesByKind& kinds, Bytes allocated) {
  Seen seen{.bytes = {}, .allocated = allocated, .unknown = {}};
  for (std::size_t k = 0; k < kStorageKinds; ++k) {
    const auto kind = static_cast<StorageKind>(k);
    (kind == StorageKind::Other ? seen.unknown : of(seen.bytes, group_of(kind))) += kinds[k];
  }
  return seen;
}

Result<Seen> seen_in(const std::string& path) {
  const std::string line = TW_TRY(first_line(path));
  if (line.find("\"trainwright_snapshot\"") == std::string::npos) {
    const Trace trace = resolve(TW_TRY(read_trace(path)));
    const Replay replayed = replay(trace);
    return seen_of(replayed.by_kind, replayed.peak);
  }
  const SnapshotReplay replayed = TW_TRY(replay_snapshot_file(path));
  Seen seen = seen_of(replayed.by_kind, replayed.allocated_peak);
  seen.slack = replayed.reserved_peak_recorded > replayed.allocated_peak;
  if (seen.slack) {
    of(seen.bytes, Group::Slack) = replayed.reserved_peak_recorded - replayed.allocated_peak;
  }
  return seen;
}

Bytes apart(Bytes a, Bytes b) { return a > b ? a - b : b - a; }

constexpr Group kStanding[] = {Group::Weights, Group::Gradients, Group::States};

// Where the kind of some is not known, what stands all step is one row.
std::vector<SnapshotRow> rows_of(const GroupBytes& predicted, const Seen& seen) {
  std::vector<SnapshotRow> rows;
  const auto add = [&](Group group) {
    const GroupFacts& facts = kFacts[static_cast<std::size_t>(group)];
    rows.push_back({std::string(facts.name), of(predicted, group), of(seen.bytes, group),
                    std::string(facts.cause)});
  };
  if (seen.unknown > Bytes(0)) {
    SnapshotRow row{"weights, gradients, states and what has no known kind",
                    {},
                    seen.unknown,
                    "precisions, ZeRO's stage; record stacks from the start to tell them apart"};
    for (const Group group : kStanding) {
      row.predicted += of(predicted, group);
      row.measured += of(seen.bytes, group);
    }
    rows.push_back(std::move(row));
  } else {
    for (const Group group : kStanding) add(group);
  }
  add(Group::Moving);
  if (seen.slack) add(Group::Slack);
  std::stable_sort(rows.begin(), rows.end(), [](const SnapshotRow& a, const SnapshotRow& b) {
    return apart(a.measured, a.predicted) > apart(b.measured, b.predicted);
  });
  return rows;
}

// Of all rows but slack, which a setting hardly moves by itself.
Bytes total_apart(const GroupBytes& predicted, Seen seen) {
  seen.slack = false;
  Bytes sum;
  for (const SnapshotRow& row : rows_of(predicted, seen)) sum += apart(row.measured, row.predicted);
  return sum;
}

// Settings of which a run may have had another than it was asked about.
std::vector<std::string> other_settings(const Layout& layout) {
  std::vector<std::string> list;
  for (const char* kind : {"none", "selective", "full"}) {
    list.push_back(fmt::format("recompute={}", kind));
  }
  for (int stage = 0; stage <= 3; ++stage) list.push_back(fmt::format("zero={}", stage));
  for (const char* kernel : {"flash", "fused-softmax", "eager", "sdpa"}) {
    list.push_back(fmt::format("attention={}", kernel));
  }
  list.push_back(fmt::format("mbs={}", 2 * layout.mbs));
  if (layout.mbs % 2 == 0) list.push_back(fmt::format("mbs={}", layout.mbs / 2));
  return list;
}

// The same question with one setting changed, if that is legal.
std::optional<Question> changed(Question question, const std::string& setting) {
  if (setting.starts_with("attention=")) {
    const auto kernel = attention_named(setting.substr(setting.find('=') + 1));
    if (!kernel) return std::nullopt;
    question.attention = *kernel;
    return question;
  }
  const auto read = parse_layout(amended(to_text(question.read.layout), setting),
                                 layout_context(question.cluster, question.trainer));
  if (!read || read->layout == question.read.layout) return std::nullopt;
  question.read = *read;
  if (!is_legal(violations(question))) return std::nullopt;
  return question;
}

// The differences with one setting changed; nothing where that is not legal.
std::optional<Bytes> apart_with(const std::string& setting, const Question& question,
                                const MemoryConstants& constants, std::size_t place,
                                const Seen& seen) {
  const auto other = changed(question, setting);
  if (!other) return std::nullopt;
  MemoryQuestion asked = memory_question(*other, constants);
  asked.slack = Slack::None;
  const auto estimate = estimate_memory(asked);
  if (!estimate || place >= estimate->classes.size()) return std::nullopt;
  return total_apart(predicted_of(estimate->classes[place]), seen);
}

// The settings that would, each alone, at least halve the differences, as far as they can be told
// apart.
std::string setting_that_explains(const Question& question, const MemoryConstants& constants,
                                  std::size_t place, const Seen& seen, Bytes now) {
  constexpr double kAlike = 0.01;  // of what was allocated
  std::vector<std::pair<Bytes, std::string>> found;
  for (const std::string& setting : other_settings(question.read.layout)) {
    const auto off = apart_with(setting, question, constants, place, seen);
    if (off && *off <= Bytes(now.value() / 2)) found.emplace_back(*off, setting);
  }
  if (found.empty()) return "";
  const Bytes least = std::min_element(found.begin(), found.end())->first;
  std::vector<std::string> names;
  for (const auto& [off, setting] : found) {
    if (real(off) <= real(least) + real(seen.allocated) * kAlike) names.push_back(setting);
  }
  return fmt::format(
      "{} would explain it: differences of {} in all in place of {}. Was it run that way?",
      enumerate(names, "or"), to_text(least), to_text(now));
}

// How far the host is ahead decides what late tensors of collectives reserve.
std::string lead_that_explains(const Question& question, const MemoryConstants& constants,
                               std::size_t place, Bytes slack) {
  const bool pipeline = question.read.layout.pp > 1;
  const double now = pipeline ? constants.lead_pipeline : constants.lead_alone;
  double best = now;
  std::optional<Bytes> least;
  for (const double lead : {0.0, kLeads[0], kLeads[1], kLeads[2], now}) {
    MemoryConstants tried = constants;
    (pipeline ? tried.lead_pipeline : tried.lead_alone) = lead;
    const auto estimate = estimate_memory(memory_question(question, tried));
    if (!estimate) continue;
    const RankClass& rank = estimate->classes[place];
    const Bytes off = apart(rank.reserved - rank.allocated, slack);
    if (least && off >= *least) continue;
    least = off;
    best = lead;
  }
  if (best == now) return "";
  return fmt::format(
      "The constant {} (kernels that the host is ahead) {} in place of {} would "
      "explain most of the slack.",
      pipeline ? "lead_pipeline" : "lead_alone", best, now);
}

std::string explanation_of(const SnapshotBeside& beside, const Question& question,
                           const MemoryConstants& constants, const MemoryEstimate& estimate,
                           const Seen& seen) {
  constexpr double kWorth = 0.05;  // of what was allocated
  const auto place = static_cast<std::size_t>(beside.pipeline_rank);
  const GroupBytes predicted = predicted_of(estimate.classes[place]);
  const Bytes now = total_apart(predicted, seen);
  const SnapshotRow& most = beside.rows.front();
  const Bytes slack_off = apart(of(seen.bytes, Group::Slack), of(predicted, Group::Slack));
  const bool slack_first = seen.slack && slack_off >= apart(most.measured, most.predicted);
  if (slack_first && estimate.ground.late) {
    return lead_that_explains(question, constants, place, of(seen.bytes, Group::Slack));
  }
  if (real(now) < real(seen.allocated) * kWorth) return "";
  return setting_that_explains(question, constants, place, seen, now);
}

std::string difference_text(const SnapshotRow& row) {
  const Bytes off = apart(row.measured, row.predicted);
  return fmt::format("{}{}", row.measured >= row.predicted ? "+" : "-", to_text(off));
}

}  // namespace

Result<SnapshotBeside> snapshot_beside(const std::string& path, const Question& question,
                                       const MemoryConstants& constants,
                                       const MemoryEstimate& estimate,
                                       std::optional<std::int64_t> rank) {
  const Layout& layout = question.read.layout;
  if (rank && (*rank < 0 || *rank >= world_size(layout))) {
    return fail("--rank", fmt::format("there is no rank {}", *rank),
                fmt::format("0 to {}", world_size(layout) - 1));
  }
  const Seen seen = TW_TRY(seen_in(path));
  SnapshotBeside beside;
  beside.pipeline_rank =
      rank ? pipeline_rank(layout, *rank) : static_cast<std::int64_t>(estimate.worst);
  const RankClass& of_rank = estimate.classes[static_cast<std::size_t>(beside.pipeline_rank)];
  beside.rows = rows_of(predicted_of(of_rank), seen);
  beside.predicted = of_rank.allocated;
  beside.measured = seen.allocated;
  beside.explanation = explanation_of(beside, question, constants, estimate, seen);
  return beside;
}

std::string to_text(const SnapshotBeside& beside, int width) {
  Table table{{{"snapshot at its peak", Align::Wrap},
               {"predicted", Align::Right},
               {"measured", Align::Right},
               {"difference", Align::Right}},
              {}};
  for (const SnapshotRow& row : beside.rows) {
    table.rows.push_back(
        {row.what, to_text(row.predicted), to_text(row.measured), difference_text(row)});
  }
  const SnapshotRow all{"allocated", beside.predicted, beside.measured, ""};
  table.rows.push_back(
      {all.what, to_text(all.predicted), to_text(all.measured), difference_text(all)});
  constexpr double kSmall = 0.01;  // of what was allocated
  const SnapshotRow& most = beside.rows.front();
  const bool small = real(apart(most.measured, most.predicted)) < real(beside.measured) * kSmall;
  std::string prose =
      small ? "No category is off by more than 1 % of what was allocated.\n"
            : fmt::format("The largest difference is of {}: {}.\n", most.what, most.cause);
  if (!beside.explanation.empty()) prose += beside.explanation + '\n';
  return to_text(table, width) + '\n' + wrapped_lines(prose, width);
}

Json to_json(const SnapshotBeside& beside) {
  Json rows = Json::array();
  for (const SnapshotRow& row : beside.rows) {
    rows.push(Json::object()
                  .add("what", Json::of(row.what))
                  .add("predicted", Json::of(row.predicted.value()))
                  .add("measured", Json::of(row.measured.value()))
                  .add("cause", Json::of(row.cause)));
  }
  return Json::object()
      .add("pipeline_rank", Json::of(beside.pipeline_rank))
      .add("predicted", Json::of(beside.predicted.value()))
      .add("measured", Json::of(beside.measured.value()))
      .add("categories", std::move(rows))
      .add("explanation", Json::of(beside.explanation));
}

}  // namespace trainwright::cli
