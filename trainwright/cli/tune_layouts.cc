// Layouts that `trainwright tune` could try, with the orders that their pipelines run.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/cli/export.h"
#include "trainwright/cli/tune.h"

namespace trainwright::cli {
namespace {

constexpr std::int64_t kCandidates = 40;  // families of layouts, unless asked
constexpr std::string_view kKey = "schedule=", kFile = "schedule=csv";

// "orders/mine.csv" of "pp=4,schedule=orders/mine.csv"; empty where no file is named.
std::string order_file(const std::string& text) {
  for (const std::string_view entry : split(text, ',')) {
    const std::string_view word = trim(entry);
    if (word.starts_with(kKey) && word.ends_with(".csv")) {
      return std::string(word.substr(kKey.size()));
    }
  }
  return {};
}

// A kind that the trainer has no name for, but runs from a file.
bool runs_from_file(const Layout& layout, const Trainer& trainer) {
  return layout.pp > 1 && find_kind(trainer.schedules, layout.schedule) == nullptr &&
         find_kind(trainer.schedules, ScheduleKind::Csv) != nullptr;
}

Words trial_words(const TuneQuestion& of, const TuneLayout& one) {
  Words words = words_of(of.invocation);
  words.layout = to_text(one.layout);
  words.schedule = one.order;
  return words;
}

// With an order of its own: as `estimate --schedule` has it.
Result<Trial> ordered_trial(const TuneQuestion& of, const TuneLayout& one) {
  const SearchQuestion asked = question_of(of.wanted);
  const Question question = TW_TRY(read_question(trial_words(of, one), of.invocation.data));
  const MemoryEstimate memory = TW_TRY(estimate_memory(memory_question(question, asked.constants)));
  const StepPieces pieces =
      TW_TRY(step_pieces(step_question(question, asked.time.kernels, asked.constants.expert_load)));
  return trial_of(one.layout, pieces, stack_of(asked.time.stacks, asked.trainer).constants, memory);
}

Result<Trial> trial_for(TuneQuestion& of, const TuneLayout& one) {
  if (!one.order.empty()) {
    Trial trial = TW_TRY(ordered_trial(of, one));
    trial.layout = to_text(one);
    return trial;
  }
  const SearchQuestion question = question_of(of.wanted);
  const MemoryEstimate memory = TW_TRY(estimate_memory(memory_question(question, one.layout)));
  const Stack& stack = stack_of(question.time.stacks, question.trainer);
  return trial_of(one.layout, TW_TRY(of.steps->pieces(one.layout)), stack.constants, memory);
}

// --among, or what `plan` finds, each family with the layouts that are alike.
Result<std::vector<TuneLayout>> layouts_of(TuneQuestion& of) {
  if (!of.among.empty()) return of.among;
  std::vector<TuneLayout> layouts;
  SearchQuestion question = question_of(of.wanted);
  question.steps = &*of.steps;
  question.risk = std::max(question.risk, kEvenOdds);
  question.most =
      static_cast<std::size_t>(of.invocation.integer("candidates").value_or(kCandidates));
  const SearchResult found = TW_TRY(search(question));
  for (const PlannedLayout& one : found.best) {
    layouts.push_back({one.layout});
    for (const PlannedLayout& alike : one.alike) layouts.push_back({alike.layout});
  }
  if (layouts.empty()) return fail("tune", "no layout fits", "see `trainwright plan`");
  return layouts;
}

}  // namespace

std::string to_text(const TuneLayout& one) {
  std::string text = to_text(one.layout);
  if (one.layout.schedule != ScheduleKind::Csv) return text;
  return text.replace(text.find(kFile), kFile.size(), std::string(kKey) + one.order);
}

Result<TuneLayout> tune_layout(const std::string& text, const Wanted& wanted,
                               std::string_view option) {
  TuneLayout one{.order = order_file(text)};
  const std::string words = one.order.empty() ? text : amended(text, kFile);
  one.layout = TW_TRY(layout_like(words, question_of(wanted), option));
  if (one.order.empty() && one.layout.schedule == ScheduleKind::Csv) {
    return fail(fmt::format("{}, {}", option, text), "schedule=csv names no file",
                "write its path: schedule=orders/mine.csv");
  }
  if (one.order.empty() && runs_from_file(one.layout, wanted.trainer)) {
    one.order = name_of(one.layout.schedule);
  }
  return one;
}

Result<Words> words_for(const TuneQuestion& of, const std::string& text) {
  return trial_words(of, TW_TRY(tune_layout(text, of.wanted, "trial")));
}

Result<std::string> orders_in(const TuneQuestion& of) {
  std::string orders;
  for (const TuneLayout& one : of.among) {
    if (one.layout.schedule != ScheduleKind::Csv) continue;
    orders += one.order + '\n' + TW_TRY(read_file(one.order));
  }
  return orders;
}

Result<Trial> trial_for(TuneQuestion& of, const std::string& text) {
  return trial_for(of, TW_TRY(tune_layout(text, of.wanted, "trial")));
}

Result<std::vector<Trial>> candidates(TuneQuestion& of) {
  std::vector<Trial> trials;
  Diagnostics refused;
  for (const TuneLayout& layout : TW_TRY(layouts_of(of))) {
    // What the trainer cannot be told is no candidate.
    if (!value_or_faults(of.job.files(to_text(layout)), refused)) continue;
    trials.push_back(TW_TRY(trial_for(of, layout)));
  }
  if (trials.empty()) return fail(std::move(refused));
  return trials;
}

}  // namespace trainwright::cli
