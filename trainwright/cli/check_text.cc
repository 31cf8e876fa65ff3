// What `trainwright check` found: a table, annotations of a pull request, JSON.
#include <fmt/format.h>

#include <array>

#include "trainwright/base/printable.h"
#include "trainwright/base/text.h"
#include "trainwright/cli/check.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"fits",         "slow",    "tight",
                                                    "does-not-fit", "invalid", "not-read"};

std::string said_of(const Finding& one) {
  return printable_line(one.what + (one.hint.empty() || one.what.empty() ? "" : "; ") + one.hint);
}

// As a workflow command takes it (actions/toolkit packages/core/src/command.ts: escapeData,
// escapeProperty).
std::string escaped(std::string_view text, bool property) {
  std::string safe;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    safe += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return safe;
}

// "3 files: 1 fits, 2 invalid"
std::string counts_text(std::span<const Finding> found) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::int64_t count = 0;
    for (const Finding& one : found) count += one.verdict == static_cast<RecipeVerdict>(i) ? 1 : 0;
    if (count > 0) parts.push_back(fmt::format("{} {}", with_thousands(count), kNames[i]));
  }
  const std::string files = counted(static_cast<std::int64_t>(found.size()), "file", "files");
  return files + (parts.empty() ? "" : ": " + join(parts, ", ")) + '\n';
}

// How much longer than the fastest layout a step takes: "+23 %".
std::string over_best_text(const Finding::Figures& figures, RecipeVerdict verdict) {
  if (!figures.best_seconds || verdict > RecipeVerdict::Slow) return "";
  return fmt::format("{:+.0f} %", 100 * (figures.step_seconds / *figures.best_seconds - 1));
}

}  // namespace

std::string_view name_of(RecipeVerdict verdict) {
  return kNames[static_cast<std::size_t>(verdict)];
}

std::string table_text(std::span<const Finding> found, int width) {
  Table table{.columns = {{"file", Align::Wrap},
                          {"verdict"},
                          {"peak mem", Align::Right},
                          {"P(OOM)", Align::Right},
                          {"step", Align::Right},
                          {"vs best", Align::Right}},
              .rows = {}};
  for (const Finding& one : found) {
    std::vector<std::string> row = {printable_line(one.file), std::string(name_of(one.verdict))};
    if (one.figures) {
      const auto& figures = *one.figures;
      row.insert(row.end(), {figures.peak, chance_text(figures.oom), figures.step,
                             over_best_text(figures, one.verdict)});
    }
    row.resize(table.columns.size());
    table.rows.push_back(std::move(row));
  }
  std::string text = to_text(table, width) + '\n';
  for (const Finding& one : found) {
    if (one.verdict == RecipeVerdict::Fits) continue;
    text += wrapped_lines(fmt::format("{}:{}: {}: {}", printable_line(one.file), one.line,
                                      name_of(one.verdict), said_of(one)),
                          width);
  }
  for (const Finding& one : found) {
    for (const std::string& note : one.notes) text += wrapped_lines(printable_line(note), width);
  }
  return text + counts_text(found);
}

std::string annotations_text(std::span<const Finding> found) {
  std::string text;
  for (const Finding& one : found) {
    for (const std::string& note : one.notes) {
      text += fmt::format("::notice file={},title=trainwright: not counted::{}\n",
                          escaped(one.file, true), escaped(printable_line(note), false));
    }
    if (one.verdict == RecipeVerdict::Fits) continue;
    const bool error =
        one.verdict == RecipeVerdict::DoesNotFit || one.verdict == RecipeVerdict::Invalid;
    text += fmt::format("::{} file={},line={},title=trainwright: {}::{}\n",
                        error                                   ? "error"
                        : one.verdict == RecipeVerdict::NotRead ? "notice"
                                                                : "warning",
                        escaped(one.file, true), one.line, name_of(one.verdict),
                        escaped(said_of(one), false));
  }
  return text + counts_text(found);
}

Json to_json(std::span<const Finding> found) {
  Json list = Json::array();
  for (const Finding& one : found) {
    Json entry = Json::object();
    entry.add("file", Json::of(one.file))
        .add("line", Json::of(one.line))
        .add("verdict", Json::of(name_of(one.verdict)));
    if (!one.what.empty()) entry.add("what", Json::of(one.what));
    if (!one.hint.empty()) entry.add("hint", Json::of(one.hint));
    Json notes = Json::array();
    for (const std::string& note : one.notes) notes.push(Json::of(note));
    entry.add("notes", std::move(notes));
    if (one.figures) {
      const auto& figures = *one.figures;
      entry.add("on", Json::of(figures.on))
          .add("layout", Json::of(figures.layout))
          .add("driver_bytes", Json::of(figures.peak_bytes))
          .add("capacity_bytes", Json::of(figures.capacity_bytes))
          .add("oom", Json::of(figures.oom))
          .add("step_seconds", Json::of(figures.step_seconds));
      if (figures.best_seconds) entry.add("best_seconds", Json::of(*figures.best_seconds));
    }
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace trainwright::cli
