#include "trainwright/search/recipes.h"

#include <algorithm>

namespace trainwright {
namespace detail {

std::optional<GradientDtype> gradients_of_recipes(const SearchQuestion& question) {
  const bool fixed = std::any_of(question.limits.begin(), question.limits.end(),
                                 [](const Limit& limit) { return limit.key == "gradients"; });
  if (!question.recipes || question.from || fixed) return std::nullopt;
  const auto when = shared_by_recipes(question.trainer, "bf16-gradients");
  Facts known;
  known.set(Variable::Experts, has_experts(question.model) ? 1 : 0);
  known.set(Variable::Precision, name_of(question.precision));
  known.set(Variable::Optimizer, name_of(question.job.optimizer));
  if (!when || evaluate(*when, known).value_or(0) == 0) return std::nullopt;
  return GradientDtype::Bf16;
}

}  // namespace detail

std::vector<std::string> taken_from_recipes(const SearchQuestion& question) {
  if (!detail::gradients_of_recipes(question)) return {};
  return {"bf16-gradients"};
}

}  // namespace trainwright
