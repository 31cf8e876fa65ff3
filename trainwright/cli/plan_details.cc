// What a page about a plan shows beside the plan itself.
#include "trainwright/cli/plan_details.h"

#include <fmt/core.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/time_text.h"

namespace trainwright::cli {
namespace {

const RankClass& fullest(const MemoryEstimate& memory) { return memory.classes[memory.worst]; }

// The layouts in the order of the page: those that fit, or the one that needs least.
std::vector<const PlannedLayout*> shown(const SearchResult& result) {
  std::vector<const PlannedLayout*> list;
  for (const PlannedLayout& plan : result.best) {
    if (list.size() < kMostDetailed) list.push_back(&plan);
  }
  if (list.empty() && result.smallest) list.push_back(&*result.smallest);
  return list;
}

Json formulas_json(const Wanted& wanted, const PlannedLayout& plan) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    json.add(std::string(name_of(category)), Json::of(formula_of(category, wanted, plan)));
  }
  return json;
}

Json layout_json(const Wanted& wanted, const PlannedLayout& plan, const StepTime* first) {
  Json words = Json::array();
  for (const LayoutWord& word : plain_words(plan.layout)) {
    words.push(Json::object().add("entry", Json::of(word.entry)).add("says", Json::of(word.says)));
  }
  Json json = Json::object();
  json.add("short", Json::of(short_text(plan.layout, wanted)))
      .add("chunks", Json::of(plan.layout.vpp))
      .add("settings", Json::of(settings_text(wanted, plan.layout)))
      .add("headline", Json::of(headline(plan.layout)))
      .add("words", std::move(words))
      .add("oom", Json::of(chance_text(plan.memory.oom)))
      .add("formulas", formulas_json(wanted, plan));
  if (first != nullptr) {
    json.add("longer", Json::of(percent(plan.time.step / first->step - 1)))
        .add("differs", Json::of(differences_text(*first, plan.time)));
  }
  return json;
}

// `front`: none of them is both faster and smaller.
Json layouts_json(const Plan& plan) {
  Json list = Json::array();
  const StepTime* first = nullptr;
  std::optional<Bytes> least;
  for (const PlannedLayout* one : shown(plan.result)) {
    const Bytes bytes = fullest(one->memory).driver;
    Json json = layout_json(plan.wanted, *one, first);
    json.add("front", Json::of(!least || bytes < *least));
    list.push(std::move(json));
    least = least ? std::min(*least, bytes) : bytes;
    if (first == nullptr) first = &one->time;
  }
  return list;
}

Json notes_json(const Plan& plan) {
  Json list = Json::array();
  const auto add = [&](std::string_view about, const std::string& text) {
    list.push(Json::object().add("about", Json::of(about)).add("text", Json::of(text)));
  };
  if (plan.result.best.empty() && !plan.result.smallest) add("nothing", nothing_text(plan));
  for (const PlanNote& note : plan_notes(plan)) add(note.about, note.text);
  return list;
}

Json commands_json(const Invocation& invocation, const Plan& plan) {
  Words words = with_file_words(plan.wanted.words);
  const std::string saved = to_be_saved(plan.wanted.words);
  Json list = Json::array();
  const auto add = [&](const std::string& does, const std::string& command) {
    list.push(Json::object()
                  .add("does", Json::of(saved.empty() ? does : does + ", with " + saved))
                  .add("command", Json::of(command)));
  };
  if (!plan.result.best.empty()) {
    const Layout& layout = plan.result.best[plan.result.recommended].layout;
    words.layout = settings_text(plan.wanted, layout);
    std::vector<std::string> exports = {"export",    words.layout, "--model",
                                        words.model, "--on",       words.on};
    for (const auto& [name, value] : {std::pair{"--trainer", words.trainer},
                                      {"--job", words.job},
                                      {"--attention", words.attention}}) {
      if (!value.empty()) exports.insert(exports.end(), {name, value});
    }
    const std::vector<std::string> judged_by = verdict_words(invocation);
    exports.insert(exports.end(), judged_by.begin(), judged_by.end());
    exports.insert(exports.end(), {"--out", "run"});
    add(fmt::format("write the files that start it with {}", plan.wanted.trainer.title),
        command_line(exports));
    std::vector<std::string> again = estimate_arguments(words);
    again.insert(again.end(), judged_by.begin(), judged_by.end());
    add("re-run this estimate", command_line(again));
  }
  add("re-run this search", plan_again(invocation, {}));
  return list;
}

Result<Json> ways_out_json(const Invocation& invocation, const Plan& plan,
                           const SearchQuestion& question) {
  const std::string saved = to_be_saved(plan.wanted.words);
  Json list = Json::array();
  for (const WayOut& way : TW_TRY(ways_out(invocation, plan, question))) {
    list.push(Json::object()
                  .add("does", Json::of(saved.empty() ? way.does : way.does + ", with " + saved))
                  .add("found", Json::of(way.found))
                  .add("command", Json::of(way.command)));
  }
  return list;
}

Json names_json() {
  Json parts = Json::object(), categories = Json::object();
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    parts.add(std::string(name_of(part)), Json::of(words_of(part)));
  }
  for (std::size_t i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    categories.add(std::string(name_of(category)), Json::of(words_of(category)));
  }
  return Json::object().add("parts", std::move(parts)).add("categories", std::move(categories));
}

// Rows [layout, bytes, seconds, fit, timed].
Json considered_json(const Plan& plan) {
  Json rows = Json::array();
  for (const Considered& of : plan.result.considered) {
    const double step = of.step.value();
    rows.push(Json::array()
                  .push(Json::of(short_text(of.layout, plan.wanted)))
                  .push(Json::of(of.driver.value()))
                  .push(Json::of(parse_number(significant(step, 5)).value_or(step)))
                  .push(Json::of(name_of(of.fit)))
                  .push(Json::of(of.timed)));
  }
  return rows;
}

Json refusals_json(const SearchResult& result) {
  constexpr std::size_t kMost = 6;
  Json list = Json::array();
  for (const Refusal& of : result.refusals) {
    if (list.items.size() == kMost) break;
    list.push(Json::object()
                  .add("reason", Json::of(of.violation.reason))
                  .add("hint", Json::of(of.violation.hint))
                  .add("layouts", Json::of(of.layouts)));
  }
  return list;
}

std::string verdict_of(const Judged& one, const StepTime& before, double risk) {
  if (!one.refused.empty()) return "rejected: " + one.refused.front().reason;
  const Fit fit = fit_of(one.memory->oom, risk);
  const std::string fits = fit == Fit::DoesNotFit ? "does not fit; "
                           : fit == Fit::Tight    ? "marginal; "
                                                  : "";
  return fits + differences_text(before, *one.time, 2);
}

Result<Json> neighbours_json(const Plan& plan, const SearchQuestion& question) {
  Json list = Json::array();
  if (plan.result.best.empty()) return list;
  const PlannedLayout& here = plan.result.best[plan.result.recommended];
  for (const Neighbour& of : TW_TRY(neighbours(question, here.layout))) {
    Json json = Json::object();
    json.add("change", Json::of(fmt::format("{} {} to {}", of.knob, of.from, of.to)))
        .add("why", Json::of(verdict_of(of.judged, here.time, plan.wanted.risk)));
    if (of.judged.refused.empty()) {
      json.add("step", Json::of(of.judged.time->step.value()))
          .add("longer", Json::of(of.judged.time->step / here.time.step - 1))
          .add("driver", Json::of(fullest(*of.judged.memory).driver.value()))
          .add("oom", Json::of(chance_text(of.judged.memory->oom)));
    }
    list.push(std::move(json));
  }
  return list;
}

}  // namespace

Result<Json> details_json(const Invocation& invocation, const Plan& plan,
                          const SearchQuestion& question) {
  const Wanted& wanted = plan.wanted;
  const SearchResult& result = plan.result;
  Json json = Json::object();
  json.add("title",
           Json::of(fmt::format("{} on {} with {} {}", wanted.model.name, wanted.cluster.name,
                                wanted.trainer.title, to_text(wanted.trainer.version))))
      .add("asked", Json::of(fmt::format("{} of {} tokens a step",
                                         counted(wanted.gbs, "sequence", "sequences"),
                                         with_thousands(wanted.seq))))
      .add("assumed", Json::of(assumed_text(wanted)))
      .add("shared", Json::of(shared_text(wanted)))
      .add("risk", Json::of(risk_text(plan.tight_at.value_or(wanted.risk))))
      .add("tight", Json::of(plan.tight_at.has_value()))
      .add("offloads", Json::of(plan.offloads))
      .add("names", names_json())
      .add("layouts", layouts_json(plan))
      .add("notes", notes_json(plan))
      .add("commands", commands_json(invocation, plan))
      .add("considered", considered_json(plan))
      .add("refusals", refusals_json(result))
      .add("neighbours", TW_TRY(neighbours_json(plan, question)));
  if (const auto layouts = shown(result); !layouts.empty()) {
    json.add("accuracy", TW_TRY(accuracy_json(invocation.data, wanted, layouts.front()->memory)));
  }
  if (result.end == SearchEnd::NothingFits) {
    json.add("ways_out", TW_TRY(ways_out_json(invocation, plan, question)));
  }
  if (plan.today) json.add("today", today_details(plan));
  if (!plan.front.empty()) json.add("pareto", pareto_details(plan));
  if (plan.why_not && !result.best.empty()) json.add("why_not", why_not_details(plan));
  const auto* hardware = TW_TRY(invocation.data.hardware());
  json.add("scaling", TW_TRY(scaling_json(plan, question, *hardware)));
  if (!result.best.empty()) {
    json.add("timelines", TW_TRY(timelines_json(question, result.best[result.recommended].layout)));
  }
  return json;
}

}  // namespace trainwright::cli
