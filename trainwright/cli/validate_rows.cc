// The command that answers with a row's figure, and the files it reads.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "trainwright/cli/schedule.h"
#include "trainwright/cli/validate.h"

namespace trainwright::cli {
namespace {

// Writes each order once, and numbers it.
class OrderFiles {
 public:
  explicit OrderFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  Result<std::string> put(const Schedule& order) {
    const std::string text = to_csv(order);
    const auto known = paths_.find(text);
    if (known != paths_.end()) return known->second;
    const std::string path = (directory_ / fmt::format("order-{}.csv", paths_.size() + 1)).string();
    TW_TRY(write_file(path, text));
    paths_.emplace(text, path);
    return path;
  }

 private:
  std::filesystem::path directory_;
  std::map<std::string, std::string> paths_;  // by text
};

}  // namespace

Result<std::string> add_commands(std::vector<SourceScore>& scores, const Cases& cases,
                                 const MemoryConstants& constants, const std::string& directory) {
  std::error_code fault;
  std::filesystem::create_directories(directory, fault);
  if (fault) return fail(directory, "cannot be made", fault.message());
  OrderFiles orders(directory);
  for (SourceScore& score : scores) {
    const MemoryConstants used = with_fitted(constants, score.constants);
    const std::string name = fmt::format("constants-without-{}.json", score.source);
    const std::string path = TW_TRY(
        write_file((std::filesystem::path(directory) / name).string(), to_text(to_json(used))));
    for (RowResult& row : score.rows) {
      const Case& made = cases.cases[row.row.of_case];
      Words words = made.words;
      if (made.order && words.schedule.empty()) {
        words.schedule = TW_TRY(orders.put(*made.order));
      }
      row.estimate = {"trainwright"};
      for (std::string& word : estimate_arguments(words)) row.estimate.push_back(std::move(word));
      row.estimate.insert(row.estimate.end(), {"--constants", path});
    }
  }
  return directory;
}

}  // namespace trainwright::cli
