#include "trainwright/cli/data_directory.h"

namespace trainwright::cli {
namespace {

template <class T>
Result<const T*> part(std::optional<Result<T>>& read, const auto& load) {
  if (!read) read = load();
  if (!*read) return tl::unexpected<Error>(read->error());
  return &**read;
}

}  // namespace

Result<const Hardware*> DataDirectory::hardware() const {
  return part(hardware_, [&] { return load_hardware(path_); });
}

Result<const std::vector<Trainer>*> DataDirectory::trainers() const {
  return part(trainers_, [&] { return load_trainers(path_); });
}

Result<Trainer> DataDirectory::trainer(std::string_view text) const {
  return pick_trainer(text, *TW_TRY(trainers()));
}

}  // namespace trainwright::cli
