#pragma once
// Public: one trainer without all the others, whose files take most of the time of a short
// question.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/result.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright {

// Which trainer the words of trainer_named are about, without a version; empty where they do not
// tell.
std::string trainer_called(std::string_view words);

// As read_trainers and load_trainers, but only the trainers of that name or alias. Of all other
// files only syntax, names and versions are looked at. All trainers where none is called so.
Result<std::vector<Trainer>> read_trainers_called(std::string_view name,
                                                  std::span<const TrainerFile> files);
Result<std::vector<Trainer>> load_trainers_called(std::string_view name,
                                                  const std::string& data_dir);

}  // namespace trainwright
