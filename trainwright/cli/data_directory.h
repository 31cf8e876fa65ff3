#pragma once
// The data directory: models, accelerators and clusters, trainers.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainwright/cluster/cluster.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::cli {

// Each part is read when it is first asked for, and once, however many commands share the
// directory. Not for several threads.
class DataDirectory {
 public:
  explicit DataDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Of the names and contents of all its files, 16 digits: what an answer came from. Files that
  // cannot be read count by their names.
  std::string hash() const;
  Result<const Hardware*> hardware() const;
  Result<const std::vector<Trainer>*> trainers() const;
  Result<Trainer> trainer(std::string_view text) const;  // as pick_trainer

 private:
  std::string path_;
  mutable std::optional<Result<Hardware>> hardware_;
  mutable std::optional<Result<std::vector<Trainer>>> trainers_;
};

}  // namespace trainwright::cli
