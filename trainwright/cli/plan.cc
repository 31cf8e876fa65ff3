// trainwright plan: which layouts to run, by their step time, with the memory of each.
#include "trainwright/cli/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "trainwright/base/text.h"
#include "trainwright/cli/config.h"
#include "trainwright/cli/export.h"
#include "trainwright/cli/exported_folder.h"
#include "trainwright/cli/plan_details.h"
#include "trainwright/cli/ramp.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

// As in the text of a layout: of --precision, else of what is run today.
Result<std::optional<PrecisionKind>> precision_in(const Invocation& invocation,
                                                  const std::string& today,
                                                  const Surroundings& around) {
  const auto asked = invocation.text("precision");
  const auto text = asked ? asked : entry_of(today, "precision");
  if (!text) return std::nullopt;
  if (const auto kind = named<PrecisionKind>(lower_case(*text))) return kind;
  if (lower_case(*text) == "fp8" && around.trainer && around.cluster && around.model) {
    const auto recipe = fp8_recipe(*around.trainer, *around.cluster, *around.model);
    if (recipe) return recipe;
  }
  const std::vector<std::string> names = to_strings(all_names(PrecisionKind{}));
  return fail(asked ? "--precision" : "--from", fmt::format("'{}' is not a precision", *text),
              did_you_mean(*text, names, "one of " + enumerate(names, "or")));
}

constexpr std::string_view kRecipes = "recipes";

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
    if (named<Also>(key) || key == kRecipes) continue;  // read_also, takes_recipes
    const bool kinds = key == "recompute" || key == "offload";
    add(key + (kinds ? "=none" : key == "zero" ? "=0" : "=1"), "--no");
  }
  if (const auto kind = invocation.text("only")) add("sharding=" + *kind, "--only");
  return limits;
}

// What runs today has what it says, and so have its neighbours.
bool takes_recipes(const Invocation& invocation) {
  const std::vector<std::string> without = invocation.texts("no");
  return !invocation.text("from") &&
         std::find(without.begin(), without.end(), kRecipes) == without.end();
}

// What changes numerics and may be taken all the same.
constexpr Flags<Also> kAllowed{Also::Bf16Gradients};

// Axes to look at: all but those of --no, and what --also and --allow add. Beside what is run today
// all else stays as it is.
Flags<Also> read_also(const Invocation& invocation, std::vector<std::string>& without_effect,
                      Diagnostics& faults) {
  Flags<Also> also = invocation.text("from") ? Flags<Also>{} : kUsualAxes;
  for (const std::string& key : invocation.texts("no")) {
    if (const auto axis = named<Also>(key)) also.bits &= ~Flags<Also>{*axis}.bits;
  }
  const auto add = [&](const char* option, const Flags<Also>& known) {
    for (const std::string& text : invocation.texts(option)) {
      const auto axis = named<Also>(lower_case(text));
      if (axis && known.has(*axis)) {
        if (also.has(*axis)) without_effect.push_back(lower_case(text));
        also.insert(*axis);
        continue;
      }
      std::vector<std::string> names;
      for (const Also one : all_of<Also>()) {
        if (known.has(one)) names.emplace_back(name_of(one));
      }
      faults.push_back({fmt::format("--{}", option),
                        fmt::format("'{}' is nothing to {}", text,
                                    option == std::string_view("also") ? "look at too" : "allow"),
                        did_you_mean(text, names, "one of " + enumerate(names, "or"))});
    }
    if (!invocation.texts(option).empty() && invocation.text("from")) {
      faults.push_back({fmt::format("--{}", option), "with --from all else stays as it is today",
                        "leave one of them out"});
    }
  };
  add("also", {kUsualAxes});
  add("allow", kAllowed);
  return also;
}

// "15T", "300B", "1e12"
Result<std::optional<double>> tokens_in(const Invocation& invocation, const std::string& name) {
  const auto text = invocation.text(name);
  if (!text) return std::nullopt;
  const std::string number = lower_case(*text);
  const auto suffix = std::string_view("kmbt").find(number.empty() ? '?' : number.back());
  const bool has = suffix != std::string_view::npos;
  const auto value = parse_number(has ? std::string_view(number).substr(0, number.size() - 1)
                                      : std::string_view(number));
  if (!value || !(*value > 0)) {
    return fail("--" + name, fmt::format("'{}' is no number of tokens", *text),
                "for instance 15T, 300B or 1e12");
  }
  constexpr double kScale[] = {1e3, 1e6, 1e9, 1e12};
  constexpr double kMostTokens = 1e18;
  const double tokens = has ? *value * kScale[suffix] : *value;
  if (tokens > kMostTokens) {
    return fail("--" + name, fmt::format("'{}' is too large", *text),
                "at most 1e18, which is 1e6T");
  }
  return tokens;
}

// --ramp 256-1024; --batch is its last.
void read_ramp(const Invocation& invocation, Wanted& wanted, Diagnostics& faults) {
  if (const auto tokens = value_or_faults(tokens_in(invocation, "ramp-tokens"), faults)) {
    wanted.ramp_tokens = *tokens;
  }
  const auto text = invocation.text("ramp");
  if (!text) {
    if (wanted.ramp_tokens) {
      faults.push_back(
          {"--ramp-tokens", "it needs a batch that grows", "for instance --batch 256-1024"});
    }
    return;
  }
  auto ramp = parse_ramp(*text);
  if (!ramp || ramp->back() != wanted.gbs) {
    faults.push_back({"--ramp", fmt::format("'{}' is no ramp to {} sequences", *text, wanted.gbs),
                      fmt::format("for instance --batch {0}-{1}",
                                  std::max<std::int64_t>(wanted.gbs / 4, 1), wanted.gbs)});
    return;
  }
  ramp->pop_back();
  wanted.ramp = *std::move(ramp);
}

void read_run(const Invocation& invocation, Wanted& wanted, Diagnostics& faults) {
  if (const auto tokens = value_or_faults(tokens_in(invocation, "tokens"), faults)) {
    wanted.tokens = *tokens;
  }
  wanted.price = invocation.number("price");
  wanted.goodput = invocation.share("goodput").value_or(1);
  if (!(wanted.goodput > 0 && wanted.goodput <= 1)) {
    faults.push_back({"--goodput", "it is not above 0 and at most 1", "for instance 0.9"});
  }
  if (wanted.price && !(*wanted.price > 0)) {
    faults.push_back({"--price", "it is not above 0", "per accelerator and hour: 2.5"});
  }
  constexpr double kMostPrice = 1e9;
  if (wanted.price && *wanted.price > kMostPrice) {
    faults.push_back(
        {"--price", "it is above 1e9", "in another currency: per accelerator and hour"});
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
  wanted.time_limit = invocation.number("time-limit");
  if (wanted.time_limit && !(*wanted.time_limit > 0)) {
    faults.push_back({"--time-limit", "it is not above 0", "seconds, for instance 2"});
  }
  wanted.within = invocation.number("within");
  if (wanted.within && !(*wanted.within > 0)) {
    faults.push_back({"--within", "it is not above 0", "days, for instance 30"});
  }
  if (wanted.within && !wanted.tokens && !invocation.text("tokens")) {
    faults.push_back({"--within", "it needs the tokens of the run", "add --tokens 15T"});
  }
  wanted.pareto = invocation.flag("pareto");
  wanted.auto_order = invocation.flag("auto-order");
  if (wanted.auto_order && !invocation.text("export")) {
    faults.push_back({"--auto-order", "it is about what --export writes", "add --export DIR"});
  }
}

// What is told of layouts of this question: measured ones, one to compare with, today's.
Diagnostics read_layouts(const Invocation& invocation, Wanted& wanted) {
  Diagnostics faults;
  auto times = value_or_faults(
      known_times(invocation, wanted.words, same_step(wanted.gbs, wanted.seq, wanted.precision)),
      faults);
  if (times) wanted.times = *std::move(times);
  if (const auto words = invocation.text("why-not")) {
    wanted.why_not = value_or_faults(layout_like(*words, question_of(wanted), "--why-not"), faults);
  }
  if (invocation.text("from")) {
    wanted.from = value_or_faults(layout_today(wanted.words.layout, question_of(wanted)), faults);
  }
  return faults;
}

// What --precision fp8 and no --attention mean by published recipes.
void read_recipes_of(const Invocation& invocation, Wanted& wanted) {
  const auto asked = invocation.text("precision");
  wanted.fp8_of_recipes = asked && lower_case(*asked) == "fp8";
  if (wanted.attention || wanted.from || !wanted.recipes) return;
  const auto when = shared_by_recipes(wanted.trainer, "flash-attention");
  if (!when || usual_attention(wanted.trainer, wanted.model.family) == AttentionKernel::Flash) {
    return;
  }
  const Facts known = facts({}, {}, wanted.model, wanted.cluster, wanted.trainer);
  if (evaluate(*when, known).value_or(0) == 0) return;
  const auto flash =
      attention_on(wanted.cluster, wanted.trainer, wanted.model, AttentionKernel::Flash);
  if (!flash) return;
  wanted.attention = *flash;
  wanted.flash_of_recipes = true;
}

}  // namespace

Result<Wanted> read_wanted(const Invocation& invocation) {
  Diagnostics faults;
  ConfigWords today = TW_TRY(words_today(invocation));
  Surroundings around = read_surroundings(today.words, invocation.data, faults);
  const auto constants = value_or_faults(memory_constants_in(invocation), faults);
  const auto precision =
      value_or_faults(precision_in(invocation, today.words.layout, around), faults);
  auto attention = value_or_faults(attention_named(today.words.attention), faults);
  if (attention && around.cluster && around.trainer && around.model) {
    attention = value_or_faults(
        attention_on(*around.cluster, *around.trainer, *around.model, *attention), faults);
  }
  const auto risk = value_or_faults(risk_in(invocation), faults);
  Wanted wanted;
  wanted.words = std::move(today.words);
  wanted.from_notes = std::move(today.not_counted);
  wanted.from_notes.insert(wanted.from_notes.end(), today.notes.begin(), today.notes.end());
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
  wanted.also = read_also(invocation, wanted.without_effect, faults);
  wanted.recipes = takes_recipes(invocation);
  read_run(invocation, wanted, faults);
  read_ramp(invocation, wanted, faults);
  if (constants && around.model) {
    for (Diagnostic& fault : contradictions(constants->expert_load, *around.model)) {
      faults.push_back(std::move(fault));
    }
  }
  if (!faults.empty()) return fail(std::move(faults));
  wanted.model = *std::move(around.model);
  wanted.cluster = *std::move(around.cluster);
  wanted.trainer = *std::move(around.trainer);
  wanted.job = *std::move(around.job);
  wanted.constants = *constants;
  wanted.attention = *attention;
  wanted.risk = *risk;
  read_recipes_of(invocation, wanted);
  wanted.precision = precision->value_or(usual_precision(wanted.cluster, wanted.trainer));
  if (entry_of(wanted.words.layout, "precision") && !invocation.text("precision")) {
    // fp8 is short for a recipe.
    wanted.words.layout =
        amended(wanted.words.layout, fmt::format("precision={}", name_of(wanted.precision)));
  }
  if (Diagnostics faulty = read_layouts(invocation, wanted); !faulty.empty()) {
    return fail(std::move(faulty));
  }
  return wanted;
}

namespace {

// All layouts of the answer, the fastest first, for a trainer's own tuner.
std::vector<Artefact> tuner_files(const Plan& plan, const std::string& folder) {
  const auto target = find_target("", plan.wanted.trainer);
  if (!target || target->launcher != Launcher::Paddle) return {};
  std::vector<std::pair<Layout, Seconds>> timed;
  for (const PlannedLayout& one : plan.result.best) {
    timed.emplace_back(one.layout, one.time.step);
    for (const PlannedLayout& of : one.alike) timed.emplace_back(of.layout, of.time.step);
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Layout> layouts;
  for (auto& [layout, time] : timed) layouts.push_back(std::move(layout));
  return paddle_tuner_files(plan.wanted.model, layouts, folder);
}

// The question whose answer is the recommended layout.
Words recommended_words(const Plan& plan) {
  Words words = plan.wanted.words;
  words.layout = to_text(plan.result.best[plan.result.recommended].layout);
  return words;
}

// The recommended layout, or with --auto-order the one with the fastest order of its own.
Result<Output> plan_files(const Invocation& invocation, const Plan& plan,
                          const std::string& folder) {
  Words words = recommended_words(plan);
  const OrderedFamily* of = plan.wanted.auto_order ? faster_order(plan) : nullptr;
  if (of != nullptr) words.layout = to_text(plan.result.best[of->family].layout);
  Question setting = TW_TRY(read_question(words, invocation.data));
  if (of != nullptr) {
    setting.read.layout = of->own.plan.layout;
    setting.schedule = of->own.order;
    words.schedule = folder + "/schedule.csv";
  }
  return exported(invocation, setting, words, "", folder);
}

// Files beside the answer.
Result<Output> with_files(const Invocation& invocation, const Plan& plan, Output answer) {
  const auto folder = invocation.text("export");
  if (!folder || plan.result.best.empty()) return answer;
  Output files = TW_TRY(plan_files(invocation, plan, *folder));
  if (plan.wanted.auto_order && faster_order(plan) == nullptr) {
    files.text = "no order of its own is faster: the recommended layout\n" + files.text;
  }
  for (Artefact& file : tuner_files(plan, *folder)) {
    const std::string path = *folder + '/' + file.path;
    files.text += path + '\n';
    files.files.push_back({path, std::move(file.text)});
  }
  if (files.exit != Exit::Ok) answer.exit = files.exit;
  if (!files.files.empty()) {
    auto safe = into_folder(*folder, std::move(files.files), invocation.flag("force"));
    if (!safe) {  // A search may have taken long: its answer is told all the same.
      answer.exit = Exit::NotWritten;
      answer.warning += "nothing was exported\n" + to_text(safe.error()) + '\n';
      return answer;
    }
    answer.files = *std::move(safe);
  }
  if (!invocation.json) answer.text += '\n' + files.text;
  return answer;
}

// Ends a search at its time limit or at Ctrl-C, and tells how far it is. A first answer is wanted
// after a second or at half of the limit.
class Watch {
 public:
  Watch(const Invocation& invocation, std::optional<double> limit)
      : invocation_(invocation), limit_(limit) {}

  SearchStop operator()(std::int64_t branches) {
    const double passed = seconds();
    if (invocation_.progress != nullptr && passed > shown_ + 0.5) {
      shown_ = passed;
      invocation_.progress(fmt::format("{} branches, {:.0f} s", with_thousands(branches), passed));
    }
    if (invocation_.interrupted != nullptr && invocation_.interrupted()) {
      if (!interrupted_) interrupted_ = passed;
      return SearchStop::Interrupt;
    }
    if (!limit_) return SearchStop::Not;
    if (passed > *limit_) return SearchStop::Time;
    return passed > std::min(1.0, *limit_ / 2) ? SearchStop::Soon : SearchStop::Not;
  }

  // A tenth of the limit is there to judge what was found.
  bool late() const {
    constexpr double kGrace = 0.05;
    const double end = interrupted_ ? *interrupted_ : limit_.value_or(0);
    return seconds() > end * (interrupted_ ? 1.0 : 1.05) + kGrace;
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  const Invocation& invocation_;
  std::optional<double> limit_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double shown_ = 0.5;                      // nothing before a second has passed
  std::optional<double> interrupted_ = {};  // when it was
};

Result<Output> run_plan(const Invocation& invocation) {
  Watch watch(invocation, invocation.number("time-limit"));
  Wanted wanted = TW_TRY(read_wanted(invocation));
  SearchQuestion question = question_of(wanted);
  question.stop = [&watch](std::int64_t branches) { return watch(branches); };
  question.late = [&watch] { return watch.late(); };
  question.remember = invocation.flag("details") || invocation.flag("report");
  const Plan plan = TW_TRY(plan_for(wanted, question, invocation.data));
  wanted.shared = shared_by(plan.result.best);
  Json document = plan_json(plan);
  if (!plan.result.best.empty()) document.add("words", to_json(recommended_words(plan)));
  if (question.remember) document.add("details", TW_TRY(details_json(invocation, plan, question)));
  if (invocation.progress != nullptr) invocation.progress("");
  const Exit exit = plan.result.best.empty() ? Exit::DoesNotFit : Exit::Ok;
  // Who asks for a comparison, or for rows, wants to read them.
  const bool asked = wanted.from || wanted.why_not || wanted.pareto || invocation.integer("top");
  const bool short_answer = !invocation.flag("verbose") && !asked && !plan.result.best.empty();
  const std::string text = invocation.json ? document_text(invocation.data, document)
                           : short_answer  ? plan_summary(plan, invocation.width)
                                           : plan_text(plan, invocation.width);
  Output answer = TW_TRY(with_files(invocation, plan, {text, exit}));
  if (!plan.result.best.empty()) {
    answer.warning += long_step_warning(plan.result.best.front().time, invocation.width);
  }
  if (const auto page = invocation.text("report")) {
    answer.files.push_back(
        {*page,
         TW_TRY(report_page(invocation.data, with_schema(invocation.data, document), "plan"))});
    if (!invocation.json) answer.text += fmt::format("\n{}\n", *page);
  }
  return answer;
}

std::vector<Argument> also_arguments();

std::vector<Argument> wish_arguments() {
  using Kind = Argument::Kind;
  return {
      {"--why-not", Kind::Text, "a layout to compare with the first, part by part", false,
       "LAYOUT"},
      {"--from", Kind::Text,
       "what is run today, a layout or the trainer's own file, which says the trainer and the "
       "precision too: only layouts that change at most two knobs of it. Behind a file may stand "
       "what it does not say: ds_config.json,mbs=2",
       false, "LAYOUT|FILE"},
      {"--export", Kind::Text,
       "folder to write the recommended layout into, as `export` writes it for the trainer; for "
       "PaddleNLP and PaddleFormers also all layouts, as a list for Paddle's own tuner",
       false, "DIR"},
      force_argument(),
      launch_argument(),
      {"--auto-order", Kind::Flag,
       "with --export: where the trainer runs an order of actions from a file and one made for a "
       "layout is faster than any fixed schedule of it, writes the fastest such layout with it"},
      {"--report", Kind::Text, "HTML file to write: the plan as a page to look at", false, "FILE"},
      {"--details", Kind::Flag, "with --json: also what `report` draws"},
      {"--verbose", Kind::Flag,
       "also the table of layouts, the counts of the search, what limits it and what others would "
       "do"},
      {"--top", Kind::Integer,
       "rows of that table, and all down to the recommended one (default: 10); with --verbose",
       false, "N"},
      {"--budget", Kind::Integer,
       "bounds and memory evaluations after which the search ends with the best so far and its gap "
       "(default: none)",
       false, "N"},
      {"--time-limit", Kind::Number,
       "seconds after which the command ends with the best so far and its gap, as at Ctrl-C; "
       "what --report draws comes on top (default: none)",
       false, "SECONDS"},
      {"--tokens", Kind::Text,
       "tokens of the whole run, such as 15T: tells its days and accelerator-hours", false,
       "TOKENS"},
      {"--ramp", Kind::Text, "smaller batches that come first, as --batch 256-1024 says them too",
       false, "RAMP"},
      {"--ramp-tokens", Kind::Text,
       "tokens of the batches below the last, equally many each: tells the days of each", false,
       "TOKENS"},
      {"--price", Kind::Number, "price of an accelerator for an hour: tells the cost of the run",
       false, "PRICE"},
      {"--within", Kind::Number,
       "days in which the run of --tokens has to end: tells the fewest accelerators that do it",
       false, "DAYS"},
      {"--pareto", Kind::Flag,
       "also what is as fast with more memory left, or on a half or a quarter of the accelerators"},
      {"--goodput", Kind::Share, "share of time spent in steps that count (default: 1)", false,
       "SHARE"}};
}

}  // namespace

std::vector<Argument> limit_arguments() {
  using Kind = Argument::Kind;
  return {
      {"--fix", Kind::Texts,
       "only layouts with tp=8, vpp=..4, mbs=2.., recompute=none, dispatcher=flex, on=part-graphs; "
       "repeatable",
       false, "KEY=VALUE"},
      {"--no", Kind::Texts,
       "without pp, tp, vpp, cp, ep, zero, offload or recompute; overlaps, graphs, compile, "
       "dispatcher, order, loss or fp8-parameter-gather as the trainer does them unasked; without "
       "what published recipes share beside (recipes); repeatable",
       false, "KEY"},
      {"--only", Kind::Text, "one kind of sharding: ddp, zero, fsdp, hsdp, ...", false, "KIND"}};
}

namespace {
std::vector<Argument> also_arguments() {
  return {{"--allow", Argument::Kind::Texts,
           "takes what changes numerics, too, where the trainer offers it: bf16-gradients; "
           "repeatable",
           false, "WHAT"},
          {"--also", Argument::Kind::Texts,
           "accepted for older scripts: overlaps, graphs, the dispatcher, rank order, "
           "compile, losses are all searched unless --no leaves them out",
           false, "AXIS"}};
}
}  // namespace

SearchQuestion question_of(const Wanted& wanted) {
  SearchQuestion question{.model = wanted.model,
                          .cluster = wanted.cluster,
                          .trainer = wanted.trainer,
                          .job = wanted.job,
                          .gbs = wanted.gbs,
                          .seq = wanted.seq,
                          .precision = wanted.precision,
                          .attention = wanted.attention,
                          .constants = wanted.constants,
                          .time = wanted.times.constants,
                          .risk = wanted.risk,
                          .most = std::max(wanted.top, kChosenFrom),
                          .limits = wanted.limits,
                          .also = wanted.also,
                          .recipes = wanted.recipes,
                          .foreign = false,
                          .from = wanted.from,
                          .ramp = wanted.ramp};
  if (wanted.budget) question.budget = *wanted.budget;
  return question;
}

Result<Layout> layout_like(const std::string& words, const SearchQuestion& question,
                           std::string_view option) {
  const std::string same = same_step(question.gbs, question.seq, question.precision);
  const LayoutContext context = layout_context(question.cluster, question.trainer);
  auto read = parse_layout(amended(same, words), context);
  if (read) return read->layout;
  for (Diagnostic& fault : read.error().diagnostics) {
    fault.where = fmt::format("{}, {}", option, fault.where);
  }
  return fail(std::move(read.error().diagnostics));
}

Command plan_command() {
  return {
      .name = "plan",
      .summary = "the fastest layouts that fit",
      .details =
          "Searches every layout whose degrees divide the model, the batch and the cluster, with "
          "all ways to recompute, to shard and to schedule that the trainer offers, for the least "
          "step time at an OOM probability of at most --risk. Lower bounds prove that none is "
          "faster. "
          "Layouts that differ only in recompute, the schedule, chunks, splits of layers and "
          "replicas share a row. An OOM probability above --risk and up to 50 % is counted as "
          "marginal.",
      .examples =
          {"trainwright plan llama-3.1-70b --on 64xH100 --batch 1024 --seq 8192",
           "trainwright plan llama-3.1-8b --on 16xH100 --batch 512 --seq 8192 --no pp --fix "
           "mbs=..4 --tokens 15T --price 2.5",
           "trainwright plan llama-3.1-70b --on 64xH100 --batch 1024 --seq 8192 --why-not "
           "tp=8,pp=2,sp",
           "trainwright plan llama-2-70b --on 64xA100-80GB --batch 512 --seq 4096 --from "
           "tp=8,pp=4,sp,zero=1,recompute=full",
           "trainwright plan llama-3.1-405b --on 16384xH100 --batch 2048 --seq 8192 --tokens 15T "
           "--within 90",
           "trainwright plan llama-2-7b --on 8xA100-40GB --batch 64 --seq 4096 --trainer "
           "paddlenlp --json"},
      .topics = {"job"},
      .arguments = joined(
          {surroundings_arguments(),
           {{"--batch", Argument::Kind::Ramp,
             "sequences in a step, or tokens: 4M-tokens; of a batch that grows 256-1024 (doubles) "
             "or 256:128:1024",
             true, "N"},
            {"--seq", Argument::Kind::Integer, "tokens in a sequence; 4k is 4,096", true,
             "TOKENS"}},
           training_arguments(),
           verdict_arguments(),
           limit_arguments(),
           also_arguments(),
           wish_arguments()}),
      .run = run_plan};
}

}  // namespace trainwright::cli
