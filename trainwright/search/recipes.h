#pragma once
// Private: what published recipes of a trainer share beside degrees, taken for granted where it is
// legal: of the axes in `question.recipes`, unless they are looked at too. In data/trainers under
// "settings": "recipes.overlap-tp": "experts == 0 ; whose recipes, how many of how many", with the
// layouts that it holds for; they may ask for degrees, experts, precision and optimizer.
#include <string_view>
#include <vector>

#include "trainwright/search/search.h"

namespace trainwright::detail {

class Recipes {
 public:
  explicit Recipes(const SearchQuestion& question);

  // With what recipes share that a layout of these degrees feels and no rule forbids, whatever is
  // not chosen yet.
  Layout taken(Layout layout) const;
  // Of these switches those that a rule forbids with that way to share weights.
  Flags<Switch> refused(ShardingKind kind, std::int64_t zero, const Flags<Offload>& offload) const;
  // What there is to take, before a layout is known: "overlap-tp", "flex".
  std::vector<std::string> names() const;

 private:
  struct Shared {
    std::size_t known;  // place in a list of all that can be shared
    Expression when;
  };
  Flags<Switch> allowed(const Flags<Switch>& wanted, Facts known) const;

  const SearchQuestion& question_;
  std::vector<Shared> all_ = {};
  std::vector<const Rule*> rules_ = {};  // that may speak against one of them
};

}  // namespace trainwright::detail
