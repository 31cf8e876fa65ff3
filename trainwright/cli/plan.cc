// trainwright plan: which layouts to run, by their step time, with the memory of each.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"
#include "trainwright/cli/setting.h"
#include "trainwright/cli/time_text.h"
#include "trainwright/report/report.h"
#include "trainwright/search/search.h"

namespace trainwright::cli {
namespace {

// Everything that was asked, read.
struct Wanted {
  Model model;
  Cluster cluster;
  Trainer trainer;
  Job job;
  MemoryConstants constants;
  TimeConstants time;
  PrecisionKind precision = PrecisionKind::Bf16;
  std::optional<AttentionKernel> attention;
  std::int64_t gbs = 0, seq = 0;
  double risk = kUsualRisk;
  std::size_t top = 10;
  Limits limits;
  std::optional<std::int64_t> budget;  // of the search
  // Of the whole run, where its tokens are told.
  std::optional<double> tokens;
  std::optional<double> price;  // of an accelerator for an hour
  double goodput = 1;           // share of time that is spent in steps that count
};

// As in the text of a layout.
Result<std::optional<PrecisionKind>> precision_in(const Invocation& invocation,
                                                  const std::optional<Trainer>& trainer) {
  const auto text = invocation.text("precision");
  if (!text) return std::nullopt;
  if (const auto kind = named<PrecisionKind>(lower_case(*text))) return kind;
  if (lower_case(*text) == "fp8" && trainer) {
    if (const auto recipe = fp8_recipe(*trainer)) return recipe;
  }
  const std::vector<std::string> names = to_strings(all_names(PrecisionKind{}));
  return fail("--precision", fmt::format("'{}' is not a precision", *text),
              did_you_mean(*text, names, "one of " + enumerate(names, "or")));
}

// --fix tp=8, --no pp, --only fsdp
Limits read_limits(const Invocation& invocation, Diagnostics& faults) {
  Limits limits;
  const auto add = [&](const std::string& text, const std::string& where) {
    if (const auto limit = value_or_faults(parse_limit(text, where), faults)) {
      limits.push_back(*limit);
    }
  };
  for (const std::string& text : invocation.texts("fix")) add(text, "--fix");
  for (const std::string& key : invocation.texts("no")) {
    add(key + (key == "recompute" ? "=none" : key == "zero" ? "=0" : "=1"), "--no");
  }
  if (const auto kind = invocation.text("only")) add("sharding=" + *kind, "--only");
  return limits;
}

// "15T", "300B", "1e12"
Result<std::optional<double>> tokens_in(const Invocation& invocation) {
  const auto text = invocation.text("tokens");
  if (!text) return std::nullopt;
  const std::string number = lower_case(*text);
  const auto suffix = std::string_view("kmbt").find(number.empty() ? '?' : number.back());
  const bool has = suffix != std::string_view::npos;
  const auto value = parse_number(has ? std::string_view(number).substr(0, number.size() - 1)
                                      : std::string_view(number));
  if (!value || !(*value > 0)) {
    return fail("--tokens", fmt::format("'{}' is no number of tokens", *text),
                "for instance 15T, 300B or 1e12");
  }
  constexpr double kScale[] = {1e3, 1e6, 1e9, 1e12};
  return has ? *value * kScale[suffix] : *value;
}

void read_run(const Invocation& invocation, Wanted& wanted, Diagnostics& faults) {
  if (const auto tokens = value_or_faults(tokens_in(invocation), faults)) wanted.tokens = *tokens;
  wanted.price = invocation.number("price");
  wanted.goodput = invocation.number("goodput").value_or(1);
  if (!(wanted.goodput > 0 && wanted.goodput <= 1)) {
    faults.push_back({"--goodput", "it is not above 0 and at most 1", "for instance 0.9"});
  }
  if (wanted.price && !(*wanted.price > 0)) {
    faults.push_back({"--price", "it is not above 0", "per accelerator and hour: 2.5"});
  }
  const std::int64_t top = invocation.integer("top").value_or(10);
  if (top < 1 || top > 1000) {
    faults.push_back({"--top", fmt::format("{} is out of range", top), "1 to 1,000"});
  }
  wanted.top = static_cast<std::size_t>(std::max<std::int64_t>(top, 1));
  wanted.budget = invocation.integer("budget");
  if (wanted.budget && *wanted.budget < 1) {
    faults.push_back({"--budget", "it is not above 0", "for instance 100000"});
  }
}

// All faults of all arguments at once.
Result<Wanted> read_wanted(const Invocation& invocation) {
  Diagnostics faults;
  Surroundings around = read_surroundings(words_of(invocation), invocation.data.path(), faults);
  const auto constants = value_or_faults(
      load_memory_constants(invocation.data.path(), invocation.text("constants")), faults);
  const auto time = value_or_faults(
      load_time_constants(invocation.data.path(), invocation.text("calibration")), faults);
  const auto precision = value_or_faults(precision_in(invocation, around.trainer), faults);
  const auto attention =
      value_or_faults(attention_named(invocation.text("attention").value_or("")), faults);
  const auto risk = value_or_faults(risk_in(invocation), faults);
  Wanted wanted;
  wanted.gbs = *invocation.integer("batch");
  wanted.seq = *invocation.integer("seq");
  const auto in_range = [&](const char* name, std::int64_t value) {
    if (value >= 1 && value <= kMostBatch) return;
    faults.push_back({name, fmt::format("{} is out of range", value),
                      fmt::format("1 to {}", with_thousands(kMostBatch))});
  };
  in_range("--batch", wanted.gbs);
  in_range("--seq", wanted.seq);
  wanted.limits = read_limits(invocation, faults);
  read_run(invocation, wanted, faults);
  if (!faults.empty()) return fail(std::move(faults));
  wanted.model = *std::move(around.model);
  wanted.cluster = *std::move(around.cluster);
  wanted.trainer = *std::move(around.trainer);
  wanted.job = *std::move(around.job);
  wanted.constants = *constants;
  wanted.attention = *attention;
  wanted.risk = *risk;
  wanted.time = *time;
  wanted.precision = precision->value_or(usual_precision(wanted.cluster, wanted.trainer));
  return wanted;
}

// "7-8-7": layers of the first stage, those between and the last, where ends take part in the
// split.
std::string split_text(const Layout& layout, const Model& model) {
  if (layout.count_embedding + layout.count_loss + layout.first_layers + layout.last_layers == 0) {
    return {};
  }
  const auto stages = stage_layers(layout, model);
  if (!stages || stages->size() < 2) return {};
  std::string text = fmt::format(" {}-", stages->front().count);
  if (stages->size() > 2) text += fmt::format("{}-", (*stages)[1].count);
  return text + std::to_string(stages->back().count);
}

// Only what differs from layout to layout: "tp2 pp8 dp4 mbs1 zero1 full". Batch and sequence are in
// the heading.
std::string short_text(const Layout& layout, const Model& model) {
  std::string text = fmt::format("tp{} pp{}", layout.tp, layout.pp);
  const auto add = [&](const char* name, std::int64_t value) {
    if (value > 1) text += fmt::format(" {}{}", name, value);
  };
  add("vpp", layout.vpp);
  add("cp", layout.cp);
  add("ep", layout.ep);
  if (layout.ep > 1) add("etp", layout.etp);
  if (layout.schedule != usual_schedule(layout.pp, layout.vpp)) {
    text += fmt::format(" {}", name_of(layout.schedule));
  }
  text += fmt::format(" dp{} mbs{}", layout.dp, layout.mbs);
  if (layout.zero > 0) {
    text += layout.sharding == ShardingKind::Zero ? fmt::format(" zero{}", layout.zero)
                                                  : fmt::format(" {}", name_of(layout.sharding));
    if (layout.dp_replicate > 1) text += fmt::format(" x{}", layout.dp_replicate);
  }
  if (layout.recompute.kind != RecomputeKind::None) text += ' ' + to_text(layout.recompute);
  return text + split_text(layout, model);
}

// In words that `estimate` reads as this layout.
std::string settings_text(const Wanted& wanted, const Layout& layout) {
  const std::string text = to_text(layout);
  return amended(text, change_to(text, layout, layout_context(wanted.cluster, wanted.trainer)));
}

// "; vpp1-16 +1.5 %": others of its family
std::string alike_text(const PlannedLayout& plan) {
  if (plan.alike.empty()) return {};
  std::int64_t least = plan.layout.vpp, most = plan.layout.vpp;
  Seconds slowest = plan.time.step;
  for (const auto& [layout, step] : plan.alike) {
    least = std::min(least, layout.vpp);
    most = std::max(most, layout.vpp);
    slowest = std::max(slowest, step);
  }
  const std::string chunks = least == most ? "others" : fmt::format("vpp{}-{}", least, most);
  return fmt::format("; {} +{}", chunks, percent(slowest / plan.time.step - 1));
}

std::vector<std::string> row_of(const PlannedLayout& plan, const Model& model, std::string place) {
  const RankClass& worst = plan.memory.classes[plan.memory.worst];
  return {std::move(place),
          short_text(plan.layout, model) + alike_text(plan),
          fmt::format("{:.2f} s", plan.time.step.value()),
          percent(plan.time.mfu),
          to_text(worst.driver),
          chance_text(plan.memory.oom)};
}

SearchQuestion question_of(const Wanted& wanted, const Cluster& cluster) {
  SearchQuestion question{.model = wanted.model,
                          .cluster = cluster,
                          .trainer = wanted.trainer,
                          .job = wanted.job,
                          .gbs = wanted.gbs,
                          .seq = wanted.seq,
                          .precision = wanted.precision,
                          .attention = wanted.attention,
                          .constants = wanted.constants,
                          .time = wanted.time,
                          .risk = wanted.risk,
                          .most = wanted.top,
                          .limits = wanted.limits};
  if (wanted.budget) question.budget = *wanted.budget;
  return question;
}

std::string table_text(const SearchResult& result, const Model& model, int width) {
  Table table{{{"", Align::Right},
               {"layout", Align::Wrap},
               {"step", Align::Right},
               {"MFU", Align::Right},
               {"fullest rank", Align::Right},
               {"OOM", Align::Right}},
              {}};
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    table.rows.push_back(row_of(result.best[i], model, std::to_string(i + 1)));
  }
  if (result.smallest) table.rows.push_back(row_of(*result.smallest, model, ""));
  return to_text(table, width);
}

// The same job on so many accelerators of the same kinds, doubling until something fits.
struct LargerCluster {
  std::string name;
  PlannedLayout plan;
};
std::optional<LargerCluster> smallest_that_fits(const Wanted& wanted, const Hardware& hardware) {
  constexpr int kDoublings = 6;
  for (int i = 1; i <= kDoublings; ++i) {
    std::vector<std::string> groups;
    for (const Group& group : wanted.cluster.groups) {
      groups.push_back(fmt::format("{}x{}", group.count << i, group.accelerator.name));
    }
    const auto cluster = parse_cluster(join(groups, "+"), hardware);
    if (!cluster) return std::nullopt;
    SearchQuestion question = question_of(wanted, *cluster);
    question.most = 1;
    const auto result = search(question);
    if (result && !result->best.empty()) return LargerCluster{cluster->name, result->best.front()};
  }
  return std::nullopt;
}

std::string heading(const Wanted& wanted, int width) {
  const bool mixed = wanted.cluster.groups.size() > 1;
  std::string text = fmt::format("{} on {} with {} {}\n", wanted.model.name, wanted.cluster.name,
                                 wanted.trainer.title, to_text(wanted.trainer.version));
  text += model_notes(wanted.model, width);
  text += fmt::format("{} of {} tokens a step; {} usable {}\n",
                      counted(wanted.gbs, "sequence", "sequences"), with_thousands(wanted.seq),
                      to_text(capacity_of(wanted.cluster)),
                      mixed ? "on the smallest" : "per accelerator");
  return text +
         wrapped_lines(assumed_text(wanted.trainer, wanted.precision, wanted.job, wanted.attention),
                       width);
}

// A hint in the words of a layout; the precision is an option here.
std::string as_option(const std::string& hint) {
  constexpr std::string_view kKey = "precision=";
  return hint.starts_with(kKey) ? "--precision " + hint.substr(kKey.size()) : hint;
}

// Why there is no layout to show.
std::string nothing_text(const Wanted& wanted, const SearchResult& result) {
  const std::string& trainer = wanted.trainer.title;
  if (!result.refusal && !wanted.limits.empty()) {
    SearchQuestion question = question_of(wanted, wanted.cluster);
    question.limits.clear();
    std::vector<std::string> limits;
    for (const Limit& limit : wanted.limits) limits.push_back(to_text(limit));
    return fmt::format("None of the {} layouts that divide has {}.\n",
                       with_thousands(std::ssize(list_layouts(question))), enumerate(limits));
  }
  if (!result.refusal) return "No layout divides this batch and model over the cluster.\n";
  const Refusal& refusal = *result.refusal;
  std::string text = fmt::format(
      "{} accepts no layout. {} of the {} that it was asked about fail for this reason:\n{}\n",
      trainer, with_thousands(refusal.layouts), with_thousands(refusal.refused),
      refusal.violation.reason);
  if (!refusal.violation.hint.empty()) text += "Hint: " + as_option(refusal.violation.hint) + "\n";
  return text;
}

// What was looked at, and what that proves.
std::string counts_text(const SearchResult& result, double risk) {
  std::string text = fmt::format(
      "{} layouts in the space, {} evaluated: {} do not fit, {} are tight (OOM above {}), {} are "
      "refused by the trainer.",
      with_thousands(result.space), with_thousands(result.evaluated),
      with_thousands(result.too_large), with_thousands(result.tight), risk_text(risk),
      with_thousands(result.refused));
  if (result.best.empty()) return text;
  if (result.proven) {
    return text + " None of the others can be faster than 1: their lower bounds are above it.";
  }
  return text +
         fmt::format(" Stopped by --budget: a layout not looked at may take {:.2f} s, {} less.",
                     result.bound.value(),
                     percent(1 - result.bound / result.best.front().time.step));
}

std::string larger_text(const Wanted& wanted, const std::optional<LargerCluster>& larger) {
  if (!larger) return "No larger cluster of these accelerators was found to fit.";
  return fmt::format("Fits on {}: {}", larger->name, short_text(larger->plan.layout, wanted.model));
}

std::string recommended_text(const Wanted& wanted, const SearchResult& result) {
  const PlannedLayout &first = result.best.front(), &plan = result.best[result.recommended];
  if (result.recommended == 0) {
    return fmt::format("Recommended: 1; none that is simpler takes at most {:.0f} % longer.",
                       100 * kMargin);
  }
  const bool simpler = ways_of(plan.layout) < ways_of(first.layout);
  const std::string why =
      simpler ? "simpler"
              : fmt::format("less likely to run out of memory ({} against {})",
                            chance_text(plan.memory.oom), chance_text(first.memory.oom));
  return fmt::format(
      "Recommended: {}, which is {} and {} slower, less than such predictions tell apart. As "
      "--layout: {}",
      result.recommended + 1, why, percent(plan.time.step / first.time.step - 1),
      settings_text(wanted, plan.layout));
}

// A run of so many tokens: steps x step time / goodput.
struct RunCost {
  double steps = 0, days = 0, hours = 0;  // hours of all accelerators together
};
RunCost cost_of(const Wanted& wanted, const StepTime& time) {
  RunCost cost;
  cost.steps = std::ceil(*wanted.tokens / static_cast<double>(time.tokens.value()));
  const double seconds = cost.steps * time.step.value() / wanted.goodput;
  cost.days = seconds / 86400;
  cost.hours = seconds / 3600 * static_cast<double>(time.ranks);
  return cost;
}

// 15e12 -> "15T"
std::string short_count(double count) {
  constexpr std::pair<double, std::string_view> kScales[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [scale, letter] : kScales) {
    if (count >= scale) return fmt::format("{:.4g}{}", count / scale, letter);
  }
  return fmt::format("{:.0f}", count);
}

// "15T tokens: 3,576,279 steps, 78.1 days, 1.9 million accelerator-hours, 4.8 million at 2.5 each"
std::string run_text(const Wanted& wanted, const StepTime& time) {
  std::string text;
  const auto whole = [](double value) { return with_thousands(static_cast<std::int64_t>(value)); };
  if (wanted.tokens) {
    const RunCost cost = cost_of(wanted, time);
    text = fmt::format(
        "1 for {} tokens: {} steps, {:.1f} days ({:.1f} to {:.1f}), {} "
        "accelerator-hours",
        short_count(*wanted.tokens), whole(cost.steps), cost.days,
        cost.days * (time.low / time.step), cost.days * (time.high / time.step), whole(cost.hours));
    if (wanted.price)
      text += fmt::format(", {} at {} an hour", whole(cost.hours * *wanted.price), *wanted.price);
    if (wanted.goodput < 1) text += fmt::format("; {} of the time counts", percent(wanted.goodput));
    text += ".";
  } else if (wanted.price) {
    const double second = *wanted.price / 3600 / tokens_per_second_per_rank(time);
    text = fmt::format("1 costs {:.3g} per million tokens at {} per accelerator and hour.",
                       second * 1e6 / wanted.goodput, *wanted.price);
  }
  return text;
}

std::string answer_text(const Wanted& wanted, const SearchResult& result,
                        const std::optional<LargerCluster>& larger, int width) {
  std::string text = heading(wanted, width) + '\n';
  const auto say = [&](const std::string& prose) { text += wrapped_lines(prose, width); };
  if (result.best.empty() && !result.smallest) {
    say(nothing_text(wanted, result));
    return text;
  }
  if (result.best.empty()) text += "Nothing fits. The layout that needs least:\n\n";
  text += table_text(result, wanted.model, width) + '\n';
  if (std::any_of(result.best.begin(), result.best.end(), [&](const PlannedLayout& plan) {
        return !split_text(plan.layout, wanted.model).empty();
      })) {
    say("a-b-c: layers of the first stage, of those between, of the last");
  }
  if (std::any_of(result.best.begin(), result.best.end(),
                  [](const PlannedLayout& plan) { return !plan.alike.empty(); })) {
    say("; vpp1-4 +2 %: the same with 1 to 4 chunks, other schedules, splits of layers or copies "
        "of "
        "sharded weights takes up to 2 % longer");
  }
  if (!result.best.empty()) {
    say("1: " + time_text(result.best.front().time));
    say("As --layout: " + settings_text(wanted, result.best.front().layout));
    say(recommended_text(wanted, result));
    if (wanted.tokens || wanted.price) say(run_text(wanted, result.best.front().time));
  }
  say(counts_text(result, wanted.risk));
  if (result.end == SearchEnd::NothingFits) say(larger_text(wanted, larger));
  return text;
}

// The question, what was found, and the larger cluster that fits.
Json answer_json(const Wanted& wanted, const SearchResult& result,
                 const std::optional<LargerCluster>& larger) {
  Json json = Json::object();
  json.add("model", Json::of(wanted.model.name))
      .add("cluster", Json::of(wanted.cluster.name))
      .add("trainer",
           Json::of(fmt::format("{}@{}", wanted.trainer.name, to_text(wanted.trainer.version))))
      .add("job", to_json(wanted.job))
      .add("batch", Json::of(wanted.gbs))
      .add("seq", Json::of(wanted.seq))
      .add("precision", Json::of(name_of(wanted.precision)))
      .add("risk", Json::of(wanted.risk));
  if (wanted.attention) json.add("attention", Json::of(name_of(*wanted.attention)));
  if (!wanted.limits.empty()) {
    Json limits = Json::array();
    for (const Limit& limit : wanted.limits) limits.push(Json::of(to_text(limit)));
    json.add("fixed", std::move(limits));
  }
  if (wanted.tokens && !result.best.empty()) {
    const RunCost cost = cost_of(wanted, result.best.front().time);
    Json run = Json::object();
    run.add("tokens", Json::of(*wanted.tokens))
        .add("steps", Json::of(cost.steps))
        .add("days", Json::of(cost.days))
        .add("accelerator_hours", Json::of(cost.hours));
    if (wanted.price) run.add("cost", Json::of(cost.hours * *wanted.price));
    json.add("run", std::move(run));
  }
  const Json found = to_json(result);
  for (const auto& [key, value] : found.members) json.add(key, value);
  if (larger) {
    Json fits = Json::object();
    fits.add("cluster", Json::of(larger->name))
        .add("layout", Json::of(to_text(larger->plan.layout)));
    json.add("fits_on", std::move(fits));
  }
  return json;
}

Result<Output> run_plan(const Invocation& invocation) {
  const Wanted wanted = TW_TRY(read_wanted(invocation));
  const SearchResult result = TW_TRY(search(question_of(wanted, wanted.cluster)));
  std::optional<LargerCluster> larger;
  if (result.end == SearchEnd::NothingFits) {
    larger = smallest_that_fits(wanted, *TW_TRY(invocation.data.hardware()));
  }
  const Exit exit = result.best.empty() ? Exit::DoesNotFit : Exit::Ok;
  if (invocation.json) return Output{to_text(answer_json(wanted, result, larger)), exit};
  return Output{answer_text(wanted, result, larger, invocation.width), exit};
}

}  // namespace

namespace {

std::vector<Argument> wish_arguments() {
  using Kind = Argument::Kind;
  return {
      {"--fix", Kind::Texts, "only layouts with tp=8, vpp=..4, mbs=2.., recompute=none; repeatable",
       false, "KEY=VALUE"},
      {"--no", Kind::Texts, "without pp, tp, vpp, cp, ep, zero or recompute; repeatable", false,
       "KEY"},
      {"--only", Kind::Text, "one kind of sharding: ddp, zero, fsdp, hsdp, ...", false, "KIND"},
      {"--top", Kind::Integer, "rows to show (default: 10)", false, "N"},
      {"--budget", Kind::Integer,
       "bounds and memory evaluations after which the search ends with the best so far and its gap "
       "(default: none)",
       false, "N"},
      {"--tokens", Kind::Text,
       "tokens of the whole run, such as 15T: tells its days and accelerator-hours", false,
       "TOKENS"},
      {"--price", Kind::Number, "price of an accelerator for an hour: tells the cost of the run",
       false, "PRICE"},
      {"--goodput", Kind::Number, "share of time spent in steps that count (default: 1)", false,
       "SHARE"}};
}

}  // namespace

Command plan_command() {
  return {
      .name = "plan",
      .summary = "the fastest layouts that fit",
      .details =
          "Searches every layout whose degrees divide the model, the batch and the cluster, with "
          "all ways to recompute, to shard and to schedule that the trainer offers, for the least "
          "step time at a chance of OOM of at most --risk. Lower bounds prove that none is faster. "
          "Layouts that differ only in the schedule, chunks, splits of layers and replicas share a "
          "row. What does not fit with a chance of up to 50 % is counted as tight.",
      .examples =
          {"trainwright plan llama-3.1-70b --on 64xH100 --batch 1024 --seq 8192",
           "trainwright plan llama-3.1-8b --on 16xH100 --batch 512 --seq 8192 --no pp --fix "
           "mbs=..4 --tokens 15T --price 2.5",
           "trainwright plan llama-2-7b --on 8xA100-40GB --batch 64 --seq 4096 --trainer "
           "paddlenlp --json"},
      .topics = {"job"},
      .arguments = joined({surroundings_arguments(),
                           {{"--batch", Argument::Kind::Integer, "sequences in a step", true, "N"},
                            {"--seq", Argument::Kind::Integer, "tokens in a sequence; 4k is 4,096",
                             true, "TOKENS"}},
                           training_arguments(),
                           verdict_arguments(),
                           wish_arguments()}),
      .run = run_plan};
}

}  // namespace trainwright::cli
