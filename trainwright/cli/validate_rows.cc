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

}  // namespace trainwright::cli
