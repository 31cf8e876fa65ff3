// Pictures of a plan as files of their own, from what `plan --json --details` printed.
#include <fmt/core.h>

#include <algorithm>

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
  picture.caption = "dashed: usable; every pipeline rank at its fullest moment";
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
  picture.caption = "dashed: matrix products at the peak of the chips";
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
  return files;
}

}  // namespace trainwright::cli
