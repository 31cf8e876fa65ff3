#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/estimate.h"
#include "trainwright/cli/glance.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/cli/unspecified_text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

// A column: one pipeline rank, or the fullest of several that follow each other.
struct Column {
  std::size_t first = 0, last = 0;
  std::size_t shown = 0;
};

constexpr std::int64_t kHundredths = 100;

std::int64_t hundredths(Bytes bytes) {
  return std::llround(static_cast<double>(bytes.value()) * kHundredths / (1 << 30));
}
std::string gib(std::int64_t hundredths) {
  return fmt::format("{:.2f}", static_cast<double>(hundredths) / kHundredths);
}
// The categories up to this one.
std::int64_t shown_up_to(const RankClass& of, std::size_t end) {
  Bytes sum(0);
  for (std::size_t c = 0; c < end; ++c) sum += of.bytes[c];
  return hundredths(sum);
}
// Totals are as everywhere else; parts are rounded such that they add up to them.
std::int64_t shown_part(const RankClass& of, std::size_t c) {
  return shown_up_to(of, c + 1) - shown_up_to(of, c);
}
std::int64_t shown_driver(const RankClass& of) { return shown_up_to(of, kCategories); }

// What the first step has reserved, while states were made, and the peak of later ones leaves idle:
// a floor under reserved bytes that no smaller batch or sequence lowers.
constexpr const char* kFirstStep = "unused since step 1";
std::int64_t first_step_hundredths(const RankClass& of) {
  const auto at = static_cast<std::size_t>(Category::AllocatorSlack);
  const Bytes first = std::clamp(of.first_reserved - of.allocated, Bytes(0), of.bytes[at]);
  return std::min(hundredths(first), shown_part(of, at));
}

bool alike(const RankClass& a, const RankClass& b) {
  return a.layers == b.layers && a.embedding == b.embedding && a.head == b.head;
}

std::vector<Column> every_rank(const MemoryEstimate& estimate) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < estimate.classes.size(); ++i) columns.push_back({i, i, i});
  return columns;
}

std::size_t fullest(const MemoryEstimate& estimate, std::size_t first, std::size_t last) {
  std::size_t found = first;
  for (std::size_t i = first; i <= last; ++i) {
    if (estimate.classes[i].driver > estimate.classes[found].driver) found = i;
  }
  return found;
}

// Ranks that hold the same are one column.
std::vector<Column> folded(const MemoryEstimate& estimate) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < estimate.classes.size(); ++i) {
    if (!columns.empty() && alike(estimate.classes[columns.back().first], estimate.classes[i])) {
      columns.back().last = i;
    } else {
      columns.push_back({i, i, i});
    }
  }
  for (Column& column : columns) column.shown = fullest(estimate, column.first, column.last);
  return columns;
}

// The two neighbours that differ least become one, until there are few enough.
std::vector<Column> columns_for(const MemoryEstimate& estimate, std::size_t most) {
  if (estimate.classes.size() <= most) return every_rank(estimate);
  std::vector<Column> columns = folded(estimate);
  while (columns.size() > std::max<std::size_t>(3, most)) {
    std::size_t best = 1;
    const auto distance = [&](std::size_t i) {
      return std::abs((estimate.classes[columns[i].shown].driver -
                       estimate.classes[columns[i + 1].shown].driver)
                          .value());
    };
    for (std::size_t i = 1; i + 2 < columns.size(); ++i) {
      if (distance(i) < distance(best)) best = i;
    }
    columns[best].last = columns[best + 1].last;
    columns[best].shown = fullest(estimate, columns[best].first, columns[best].last);
    columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  return columns;
}

std::string heading(const Column& column) {
  if (column.first == column.last) return std::to_string(column.first);
  return fmt::format("{}-{}", column.first, column.last);
}

std::string table_text(const MemoryEstimate& estimate, const std::vector<Column>& columns,
                       int width) {
  Table table;
  table.columns.push_back({"GiB, pipeline rank"});
  std::vector<std::string> layers = {"layers"};
  for (const Column& column : columns) {
    table.columns.push_back({heading(column), Align::Right});
    const RankClass& of = estimate.classes[column.shown];
    layers.push_back(std::to_string(of.layers) + (of.embedding ? "+emb" : "") +
                     (of.head ? "+head" : ""));
  }
  table.rows.push_back(std::move(layers));
  std::vector<std::int64_t> sums(columns.size());
  const auto total = [&](const char* name) {
    std::vector<std::string> row = {name};
    for (const std::int64_t sum : sums) row.push_back(gib(sum));
    table.rows.push_back({});
    table.rows.push_back(std::move(row));
  };
  const auto part = [&](std::string name, auto hundredths_of) {
    std::vector<std::string> row = {std::move(name)};
    bool any = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::int64_t share = hundredths_of(estimate.classes[columns[i].shown]);
      sums[i] += share;
      any |= share != 0;
      row.push_back(gib(share));
    }
    if (any) table.rows.push_back(std::move(row));
  };
  for (std::size_t c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    if (category == Category::AllocatorSlack) {
      total("allocated");
      part(kFirstStep, first_step_hundredths);
      part("reserved, unallocated",
           [&](const RankClass& of) { return shown_part(of, c) - first_step_hundredths(of); });
      continue;
    }
    if (category == Category::Communicators) total("reserved");
    part(words_of(category), [&](const RankClass& of) { return shown_part(of, c); });
  }
  total("total device memory");
  return to_text(table, width);
}

// A rank of `vpp` chunks holds a micro-batch once for each chunk that it has passed.
std::string moment_text(const RankClass& of, std::int64_t vpp) {
  const Moment& moment = of.moment;
  if (moment.kind == Moment::Kind::Step) return "in the optimizer's step";
  const std::string at =
      moment.operator_name.empty() ? "" : fmt::format(", at {}", moment.operator_name);
  return fmt::format("in the {} of micro-batch {}{}, with {} in flight{}", name_of(moment.kind),
                     moment.micro_batch,
                     moment.chunk > 0 ? fmt::format(" on chunk {}", moment.chunk) : "",
                     vpp > 1 ? counted(moment.in_flight, "chunk", "chunks") + " of micro-batches"
                             : std::to_string(moment.in_flight),
                     at);
}

// What to give anew of the words that were given.
std::string change_words(const Answer& answer) {
  return change_to(answer.words, answer.change->layout,
                   layout_context(answer.setting.cluster, answer.setting.trainer));
}

// "allocated 33.45 to 36.72, reserved ..., driver ... GiB": from one case in twenty to nineteen.
std::string intervals_text(const RankClass& rank) {
  std::vector<std::string> parts;
  for (const Counter counter : {Counter::Allocated, Counter::Reserved, Counter::Driver}) {
    const Bytes figure = bytes_of(rank, counter);
    const Spread& spread = spread_of(rank, counter);
    parts.push_back(fmt::format("{} {} to {}",
                                counter == Counter::Driver ? "total" : name_of(counter),
                                gib(hundredths(exceeded_with(0.95, figure, spread))),
                                gib(hundredths(exceeded_with(0.05, figure, spread)))));
  }
  return fmt::format("90 % intervals, GiB: {}.\n", enumerate(parts));
}

// "device context 0.80 (0.52 to 1.12); communicator buffers: world of 64: 0.49, tp of 8: 0.47, ..."
std::string outside_text(const MemoryEstimate& estimate) {
  const BytesRange& context = estimate.outside.context;
  std::string text =
      fmt::format("Outside the allocator, GiB: device context {} ({} to {})",
                  gib(hundredths(rounded(context.central))), gib(hundredths(rounded(context.low))),
                  gib(hundredths(rounded(context.high))));
  std::vector<std::string> parts;
  for (const CommunicatorBytes& one : estimate.outside.communicators) {
    if (one.ends_only && !worst_of(estimate).shares_embedding) continue;
    parts.push_back(fmt::format("{} of {}: {}", one.group, with_thousands(one.shape.members),
                                gib(hundredths(rounded(one.bytes.central)))));
  }
  if (!parts.empty()) text += "; communicator buffers: " + join(parts, ", ");
  return text + ".\n";
}

// "39.03 GiB to spare"
std::string room_text(const Answer& answer) {
  const std::int64_t needs = shown_driver(worst_of(answer.estimate)),
                     has = hundredths(answer.estimate.capacity);
  return needs <= has ? gib(has - needs) + " GiB to spare"
                      : "exceeds capacity by " + gib(needs - has) + " GiB";
}

std::string fits_text(const Answer& answer) {
  const std::string room = room_text(answer);
  if (answer.fit == Fit::Fits) return fmt::format("Fits, with {}.\n", room);
  std::string text = answer.fit == Fit::Tight
                         ? fmt::format("Marginal: {}, but an OOM probability above {}.\n", room,
                                       risk_text(answer.risk))
                         : fmt::format("Does not fit: {}.\n", room);
  if (!answer.change) return text + "None of the nearby layouts that were tried fits.\n";
  return text + fmt::format("Smallest change that fits: {} ({}).\n", change_words(answer),
                            to_text(answer.change->driver));
}

std::string peak_text(const Answer& answer) {
  const MemoryEstimate& estimate = answer.estimate;
  return fmt::format("Peak memory {} of {} GiB; OOM probability {}.\n",
                     gib(shown_driver(worst_of(estimate))), gib(hundredths(estimate.capacity)),
                     chance_text(estimate.oom));
}

std::string verdict_text(const Answer& answer) {
  const RankClass& worst = worst_of(answer.estimate);
  return fmt::format(
             "Peak: pipeline rank {} ({}), {}.\n", worst.pipeline_rank,
             worst.ranks == 1 ? "one rank" : with_thousands(worst.ranks) + " identical ranks",
             moment_text(worst, answer.setting.read.layout.vpp)) +
         peak_text(answer) + intervals_text(worst) + outside_text(answer.estimate) +
         fits_text(answer);
}

}  // namespace

std::string answer_text(const Answer& answer, int width) {
  // A figure takes nine characters, the names of the parts twenty-two.
  const auto most = static_cast<std::size_t>(std::max(3, (width - 22) / 9));
  const std::vector<Column> columns = columns_for(answer.estimate, most);
  std::string text = setting_text(answer.setting, width) + '\n';
  if (!answer.not_counted.empty())
    text += wrapped_lines(join(answer.not_counted, "\n"), width) + '\n';
  text += table_text(answer.estimate, columns, width) + '\n';
  if (columns.size() < answer.estimate.classes.size()) {
    text += "A column of several pipeline ranks shows the one with the highest peak.\n";
  }
  const std::string verdict =
      verdict_text(answer) + time_text(answer.time, answer.setting.read.layout.precision);
  return text + wrapped_lines(std::string(trim(verdict)) + "\n" + join(answer.notes, "\n"), width);
}

std::string answer_summary(const Answer& answer, int width) {
  const Question& setting = answer.setting;
  const Layout& layout = setting.read.layout;
  const MemoryEstimate& estimate = answer.estimate;
  std::string text = asked_text({setting.model, setting.cluster, setting.trainer, layout.precision,
                                 layout.gbs, layout.seq},
                                width) +
                     fmt::format("--layout {}\n\n", to_text(layout));
  text += model_notes(setting.model, width);
  for (const std::string& note : answer.not_counted) text += wrapped_lines(note, width);
  text += wrapped_lines(trim(fits_text(answer)), width);
  text += indented(fmt::format("Peak memory {} of {} GiB (90 %: {} to {}), OOM probability {}",
                               gib(shown_driver(worst_of(estimate))),
                               gib(hundredths(estimate.capacity)), gib(hundredths(estimate.low)),
                               gib(hundredths(estimate.high)), chance_text(estimate.oom)),
                   width);
  text += indented(speed_text(answer.time, layout.precision), width);
  text += '\n' + breakdown_text(worst_of(estimate)) + '\n' + breakdown_text(answer.time) + '\n';
  for (const std::string& note : answer.notes) text += wrapped_lines(note, width);
  return text + wrapped_lines(
                    "Next: --verbose shows every category and pipeline rank, "
                    "`trainwright explain` what one change would do.",
                    width);
}

Json answer_json(const Answer& answer) {
  Json document = Json::object();
  document.add("legal", Json::of(true))
      .add("layout", Json::of(to_text(answer.setting.read.layout)))
      .add("verdict", Json::of(name_of(answer.fit)))
      .add("memory", to_json(answer.estimate))
      .add("time", to_json(answer.time));
  if (answer.host) document.add("host", to_json(*answer.host));
  if (answer.uneven) {
    document.add("expert_load",
                 Json::object()
                     .add("load", Json::of(answer.uneven->load.name))
                     .add("busiest_in_a_layer", Json::of(answer.uneven->busiest.in_a_layer))
                     .add("busiest_over_layers", Json::of(answer.uneven->busiest.over_layers))
                     .add("step_if_even", Json::of(answer.uneven->step_if_even.value()))
                     .add("allocated_more", Json::of(answer.uneven->more.value())));
  }
  if (answer.measured) document.add("measured", to_json(*answer.measured));
  if (!answer.unspecified.empty()) {
    document.add("unspecified", unspecified_json(answer.unspecified, answer.setting.cluster));
  }
  Json notes = Json::array();
  for (const std::string& note : answer.not_counted) notes.push(Json::of(note));
  for (const std::string& note : answer.notes) notes.push(Json::of(note));
  document.add("notes", std::move(notes));
  if (answer.change) {
    Json change = Json::object();
    const std::string words = change_words(answer);
    change.add("what", Json::of(words))
        .add("words", Json::of(amended(answer.words, words)))
        .add("layout", Json::of(to_text(answer.change->layout)))
        .add("driver", Json::of(answer.change->driver.value()));
    document.add("change", std::move(change));
  }
  return document;
}

}  // namespace trainwright::cli
