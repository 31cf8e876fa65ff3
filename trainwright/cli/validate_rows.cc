// The command that answers with a row's figure, and the files it reads.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "trainwright/cli/schedule.h"
#include "trainwright/cli/validate.h"

namespace trainwright::cli {
namespace {

// The files of a directory; each order once, and numbered.
class RowFiles {
 public:
  explicit RowFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  std::string put(const std::string& name, std::string text) {
    files_.push_back({(directory_ / name).string(), std::move(text)});
    return files_.back().path;
  }
  std::string put(const Schedule& order) {
    const std::string text = to_csv(order);
    const auto known = paths_.find(text);
    if (known != paths_.end()) return known->second;
    const std::string path = put(fmt::format("order-{}.csv", paths_.size() + 1), text);
    paths_.emplace(text, path);
    return path;
  }
  std::vector<File> all() { return std::move(files_); }

 private:
  std::filesystem::path directory_;
  std::map<std::string, std::string> paths_;  // of orders, by text
  std::vector<File> files_;
};

// The stacks of a source's trainers with the constants that its rows were predicted with.
Stacks predicted_with(const TimeSourceScore& score, const Cases& cases, const LeftOut& left,
                      const Stacks& stacks) {
  std::map<std::string, const StackConstants*> by_stack;
  for (const TimeRow& row : score.rows) {
    const Case& made = cases.cases[row.of_case];
    const auto found = left.find({made.source, stack_name_of(made, cases, stacks)});
    if (found == left.end()) continue;
    // A source's rules may name another stack than its trainer's; a command has its trainer alone.
    by_stack[stack_of(stacks, cases.trainer_of(made)).name] = &found->second.constants;
  }
  Stacks made{.list = {}, .width = stacks.width, .width_source = stacks.width_source};
  for (Stack stack : stacks.list) {
    const auto found = by_stack.find(stack.name);
    const bool of_others = stack.trainers.empty();  // which every file ends with
    if (found == by_stack.end() && !of_others) continue;
    if (found != by_stack.end()) {
      stack.constants = *found->second;
      stack.spreads.front() = stack.constants.spread;
      stack.source = fmt::format("all published runs but those of {}", score.source);
    }
    made.list.push_back(std::move(stack));
  }
  return made;
}

// A step is timed with the kind that an order stands for.
Words timed_words(const Case& made) {
  Words words = made.words;
  if (made.tuned) words.tuned = "yes";
  if (!made.stands_for) return words;
  Layout layout = made.layout;
  layout.schedule = *made.stands_for;
  words.layout = to_text(layout);
  return words;
}

}  // namespace

std::vector<File> add_commands(std::vector<SourceScore>& scores, const Cases& cases,
                               const MemoryConstants& constants, const std::string& directory) {
  RowFiles files(directory);
  for (SourceScore& score : scores) {
    const MemoryConstants used = with_fitted(constants, score.constants);
    const std::string name = fmt::format("constants-without-{}.json", score.source);
    const std::string path = files.put(name, to_text(to_json(used)));
    for (RowResult& row : score.rows) {
      const Case& made = cases.cases[row.row.of_case];
      Words words = made.words;
      if (made.order && words.schedule.empty()) {
        words.schedule = files.put(*made.order);
      }
      row.estimate = {"trainwright"};
      for (std::string& word : estimate_arguments(words)) row.estimate.push_back(std::move(word));
      row.estimate.insert(row.estimate.end(), {"--constants", path});
    }
  }
  return files.all();
}

std::vector<File> add_commands(std::vector<TimeSourceScore>& scores, const Cases& cases,
                               const LeftOut& left, const Stacks& stacks,
                               const std::string& directory) {
  RowFiles files(directory);
  for (TimeSourceScore& score : scores) {
    if (score.rows.empty()) continue;
    const std::string path =
        files.put(fmt::format("time-without-{}.json", score.source),
                  to_text(to_json(predicted_with(score, cases, left, stacks))) + '\n');
    for (TimeRow& row : score.rows) {
      row.estimate = {"trainwright"};
      for (std::string& word : estimate_arguments(timed_words(cases.cases[row.of_case]))) {
        row.estimate.push_back(std::move(word));
      }
      row.estimate.insert(row.estimate.end(), {"--calibration", path});
    }
  }
  return files.all();
}

}  // namespace trainwright::cli
