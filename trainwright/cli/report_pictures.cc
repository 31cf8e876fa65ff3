// Pictures of a plan as files of their own, from what `plan --json --details` printed.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/plan_details.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

// Of a document that somebody may have written by hand: what is not there is nothing.
const Json& at(const Json& json, std::string_view key) {
  static const Json nothing;
  const Json* found = json.is_object() ? json.find(key) : nullptr;
  return found != nullptr ? *found : nothing;
}
double positive(const Json& json) { return json.is_number() ? std::max(json.number, 0.0) : 0; }

std::string gib_text(double gib) { return significant(gib, 3) + " GiB"; }
std::string scale_text(double seconds) { return seconds_text(Seconds(seconds)); }
double gib_of(double bytes) { return bytes / (1 << 30); }

const Json& shown_layout(const Json& document) {
  const std::vector<Json>& best = at(document, "best").items;
  const auto place = static_cast<std::size_t>(positive(at(document, "recommended")));
  return place < best.size() ? best[place] : at(document, "smallest");
}

// Values by name, one after the other.
Bar stacked(const Json& values, const Json& names, double unit) {
  Bar bar;
  double end = 0;
  for (std::size_t i = 0; i < names.members.size(); ++i) {
    const double length = positive(at(values, names.members[i].key)) / unit;
    if (length > 0) bar.pieces.push_back({end, length, i});
    end += length;
  }
  return bar;
}

BarPicture with_legend(const Json& names, std::string title) {
  BarPicture picture;
  picture.title = std::move(title);
  for (const auto& [key, name] : names.members) picture.legend.push_back(name.string);
  return picture;
}

BarPicture memory_picture(const Json& document) {
  const Json& details = at(document, "details");
  const Json& memory = at(shown_layout(document), "memory");
  const Json& names = at(at(details, "names"), "categories");
  BarPicture picture = with_legend(names, "memory of " + at(details, "title").string);
  picture.label = gib_text;
  picture.caption = "dashed: usable memory; every pipeline rank at its peak";
  const double capacity = gib_of(positive(at(memory, "capacity")));
  picture.most = capacity;
  for (const Json& one : at(memory, "classes").items) {
    Bar bar = stacked(at(one, "bytes"), names, 1 << 30);
    const double driver = gib_of(positive(at(one, "driver")));
    bar.label = fmt::format("pipeline rank {}", at(one, "pipeline_rank").integer);
    bar.value = gib_text(driver);
    bar.mark = capacity;
    picture.most = std::max(picture.most, driver);
    picture.bars.push_back(std::move(bar));
  }
  return picture;
}

BarPicture time_picture(const Json& document) {
  const Json& details = at(document, "details");
  const Json& names = at(at(details, "names"), "parts");
  BarPicture picture = with_legend(names, "step time of " + at(details, "title").string);
  picture.label = scale_text;
  picture.caption = "dashed: compute lower bound (GEMM FLOPs at peak)";
  const std::vector<Json>& layouts = at(details, "layouts").items;
  const std::vector<Json>& best = at(document, "best").items;
  for (std::size_t i = 0; i < std::min(best.size(), layouts.size()); ++i) {
    const Json& time = at(best[i], "time");
    Bar bar = stacked(at(time, "parts"), names, 1);
    bar.label = fmt::format("layout {}", i + 1);
    bar.value = scale_text(positive(at(time, "step")));
    bar.mark = positive(at(time, "bound"));
    picture.most = std::max(picture.most, positive(at(time, "step")));
    picture.bars.push_back(std::move(bar));
  }
  return picture;
}

BarPicture timeline_picture(const Json& timeline) {
  constexpr std::string_view kLetters = "FBIW";
  constexpr std::size_t kFields = 5;  // letter, stage, micro-batch, start, length
  BarPicture picture;
  picture.title =
      fmt::format("{}: {}", at(timeline, "schedule").string, at(timeline, "short").string);
  picture.legend = {"forward", "backward", "backward of inputs", "backward of weights"};
  picture.caption =
      fmt::format("{} of {} micro-batches", at(timeline, "micro_batches_drawn").integer,
                  at(timeline, "micro_batches").integer);
  picture.label = scale_text;
  picture.most = positive(at(timeline, "makespan")) / 1e6;
  for (const Json& rank : at(timeline, "ranks").items) {
    Bar bar;
    bar.label = fmt::format("pipeline rank {}", at(rank, "rank").integer);
    const std::vector<Json>& fields = at(rank, "actions").items;
    for (std::size_t i = 0; i + kFields <= fields.size(); i += kFields) {
      const auto letter = kLetters.find(fields[i].string.substr(0, 1));
      const double start = positive(fields[i + 3]) / 1e6, length = positive(fields[i + 4]) / 1e6;
      bar.pieces.push_back({start, length, letter == std::string_view::npos ? 0 : letter});
    }
    picture.bars.push_back(std::move(bar));
  }
  return picture;
}

// Up to six values, evenly or by equal factors.
std::vector<std::pair<double, std::string>> ticks_of(const Scale& scale,
                                                     std::string (*label)(double)) {
  std::vector<std::pair<double, std::string>> ticks;
  for (int i = 0; i <= 5; ++i) {
    const double share = i / 5.0;
    const double value = scale.logarithmic ? scale.least * std::pow(scale.most / scale.least, share)
                                           : scale.least + (scale.most - scale.least) * share;
    ticks.emplace_back(value, label(value));
  }
  return ticks;
}

// [layout, bytes, seconds, fit, timed] of those that were looked at.
std::vector<PointGroup> considered_groups(const Json& details) {
  std::vector<PointGroup> groups = {
      {"fits", {}}, {"marginal", {}, true}, {"does not fit", {}, true}};
  constexpr std::array kFits = {Fit::Fits, Fit::Tight, Fit::DoesNotFit};
  for (const Json& row : at(details, "considered").items) {
    if (row.items.size() < 5) continue;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (row.items[3].string != name_of(kFits[i])) continue;
      groups[i].points.emplace_back(gib_of(positive(row.items[1])), positive(row.items[2]));
    }
  }
  return groups;
}

PointPicture search_picture(const Json& document) {
  const Json& details = at(document, "details");
  PointPicture picture;
  picture.title = "search of " + at(details, "title").string;
  picture.caption =
      "dashed: usable; rings: time is a lower bound; what is larger stands at the end";
  picture.mark = gib_of(positive(at(at(shown_layout(document), "memory"), "capacity")));
  picture.groups = considered_groups(details);
  PointGroup best{"layouts of the table", {}};
  for (const Json& one : at(document, "best").items) {
    const Json& memory = at(one, "memory");
    const auto worst = static_cast<std::size_t>(positive(at(memory, "worst")));
    const std::vector<Json>& classes = at(memory, "classes").items;
    if (worst >= classes.size()) continue;
    best.points.emplace_back(gib_of(positive(at(classes[worst], "driver"))),
                             positive(at(at(one, "time"), "step")));
  }
  picture.groups.insert(picture.groups.begin(), std::move(best));
  double least = 0, most = 0;
  for (const PointGroup& group : picture.groups) {
    for (const auto& [bytes, step] : group.points) {
      least = least > 0 ? std::min(least, step) : step;
      most = std::max(most, step);
    }
  }
  if (!(least > 0 && picture.mark > 0)) return {};
  picture.x = {.least = 0, .most = 1.25 * picture.mark, .name = "peak memory"};
  picture.y = {.least = 0.97 * least, .most = 1.03 * most, .logarithmic = true, .name = "step"};
  picture.x.ticks = ticks_of(picture.x, gib_text);
  picture.y.ticks = ticks_of(picture.y, scale_text);
  return picture;
}

PointPicture scaling_picture(const Json& document) {
  const Json& details = at(document, "details");
  const Json& scaling = at(details, "scaling");
  PointPicture picture;
  picture.title = "fewer and more accelerators: " + at(details, "title").string;
  picture.caption = at(scaling, "says").string;
  PointGroup planned{"as planned", {}, false, true}, ideal{"if nothing were lost", {}, true, true};
  picture.x = {.logarithmic = true, .name = "accelerators"};
  picture.y = {.logarithmic = true, .name = "tokens a second"};
  for (const Json& one : at(scaling, "points").items) {
    const double count = positive(at(one, "accelerators"));
    const double rate = positive(at(one, "tokens_per_second"));
    if (!(count > 0 && rate > 0)) continue;
    planned.points.emplace_back(count, rate);
    const auto& [first_count, first_rate] = planned.points.front();
    ideal.points.emplace_back(count, first_rate * count / first_count);
    picture.x.ticks.emplace_back(count, with_thousands(static_cast<std::int64_t>(count)));
    picture.y.ticks.emplace_back(rate, with_thousands(static_cast<std::int64_t>(rate)));
  }
  if (planned.points.size() < 2) return picture;
  picture.x.least = planned.points.front().first;
  picture.x.most = planned.points.back().first;
  picture.y.least = 0.8 * planned.points.front().second;
  picture.y.most = 1.1 * std::max(planned.points.back().second, ideal.points.back().second);
  picture.groups = {std::move(planned), std::move(ideal)};
  return picture;
}

// A row for each source, a dot for each of its runs.
PointPicture residual_picture(const Json& rows, std::string title) {
  constexpr double kRow = 24;
  PointPicture picture;
  picture.title = std::move(title);
  picture.caption = "dots: published runs, up to 21 of each source; beyond the scale at its end";
  picture.x = {.least = 0.5, .most = 2, .logarithmic = true, .name = "predicted / measured"};
  picture.x.ticks = {{0.5, "0.5"}, {0.7, "0.7"}, {1, "1"}, {1.4, "1.4"}, {2, "2"}};
  picture.mark = 1;
  PointGroup runs{"a run", {}};
  for (const Json& one : rows.items) {
    const double row = -static_cast<double>(picture.y.ticks.size());
    if (at(one, "off").items.empty()) continue;
    picture.y.ticks.emplace_back(row, at(one, "source").string);
    for (const Json& off : at(one, "off").items) {
      if (off.is_number()) runs.points.emplace_back(1 + off.number / 100, row);
    }
  }
  if (runs.points.empty()) return picture;
  const auto count = static_cast<double>(picture.y.ticks.size());
  picture.y.least = -count;
  picture.y.most = 1;
  picture.height = kRow * (count + 1);
  picture.groups = {std::move(runs)};
  return picture;
}

}  // namespace

std::vector<File> report_pictures(const Json& document, const std::string& folder) {
  std::vector<File> files;
  const auto add = [&](const std::string& name, const BarPicture& picture) {
    if (picture.bars.empty() || !(picture.most > 0)) return;
    files.push_back({folder + '/' + name + ".svg", to_svg(picture)});
  };
  add("memory", memory_picture(document));
  add("time", time_picture(document));
  for (const Json& timeline : at(at(document, "details"), "timelines").items) {
    add("timeline-" + at(timeline, "schedule").string, timeline_picture(timeline));
  }
  const auto add_points = [&](const std::string& name, const PointPicture& picture) {
    const auto drawn = [](const PointGroup& group) { return !group.points.empty(); };
    const bool any = std::any_of(picture.groups.begin(), picture.groups.end(), drawn);
    const bool spans = picture.x.least < picture.x.most && picture.y.least < picture.y.most;
    if (any && spans) files.push_back({folder + '/' + name + ".svg", to_svg(picture)});
  };
  const Json& details = at(document, "details");
  const Json& accuracy = at(details, "accuracy");
  add_points("search", search_picture(document));
  add_points("scaling", scaling_picture(document));
  add_points("residuals-time", residual_picture(at(accuracy, "time"), "step times, run by run"));
  add_points("residuals-memory",
             residual_picture(at(accuracy, "memory_runs"), "memory, run by run"));
  return files;
}

}  // namespace trainwright::cli
