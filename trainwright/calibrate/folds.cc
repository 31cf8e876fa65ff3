// What is left out together.
#include <map>

#include "trainwright/calibrate/calibrate.h"

namespace trainwright {

std::vector<Fold> leave_one_out(std::span<const std::string> labels) {
  std::map<std::string, Fold> by_name;
  for (std::size_t i = 0; i < labels.size(); ++i) by_name[labels[i]].inside.push_back(i);
  std::vector<Fold> folds;
  for (auto& [name, fold] : by_name) {
    fold.name = name;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != name) fold.outside.push_back(i);
    }
    folds.push_back(std::move(fold));
  }
  return folds;
}

}  // namespace trainwright
