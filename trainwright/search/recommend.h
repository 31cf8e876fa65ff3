#pragma once
// Which of the best layouts is to be run. Part of search.h: include that one.
//
// Predictions do not tell layouts apart whose steps differ by less than their doubt. Among all of
// them, members of families included, what experts avoid decides (data/preferences.json):
//
//   worth = step * (1 + sum over preferences of weight * amount / 100)
//
// `amount` is what a layout has of it: an expression of the rules' language (trainer/rule.h) over
// the layout's facts, or one of the words of `Preference::Counts`. `weight` is per cent of a step
// that it has to gain for each. The least worth is recommended. Weights are chosen on the recipes
// of half of the models and scored on the other half (tools/plot/corpus.py, docs/plan.md).
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"

namespace trainwright {

struct SearchQuestion;
struct PlannedLayout;

// A chance of OOM that nobody changes a layout for.
inline constexpr double kSafe = 0.01;
// What is recommended is a member of one of so many families, however many are reported beyond.
inline constexpr std::size_t kChosenFrom = 10;

struct Preference {
  enum class Counts : std::uint8_t {
    Expression,  // its value
    Oom,         // percentage points of the chance of OOM above kSafe
    Domains,     // doublings of the link domains that a group of tp and one of experts touch
    Sharding,    // 1 where recipes of the trainer share other ways to shard ("recipes.sharding")
    Changes,     // settings that differ from what is run today (changes.h)
  };
  std::string name;  // "context-parallelism"
  Counts counts = Counts::Expression;
  Expression amount = {};
  double weight = 0;  // per cent of a step
  std::string better =
      {};  // of a layout with less of it: "no context parallelism below 16k tokens"
};
struct Preferences {
  double doubt = 0;  // share of the fastest's step
  std::vector<Preference> list;
};
Result<Preferences> read_preferences(const Json& json, const std::string& origin);
Result<Preferences> load_preferences(const std::string& data_directory);

// Whether recipes of the trainer share in that way ("recipes.sharding" in data/trainers); true
// where nobody looked.
bool recipes_share(const Trainer& trainer, ShardingKind kind);
// Ways to shard that the trainer offers and its recipes do not share: empty where the others shard
// no weights, since then something may fit with these alone.
std::vector<ShardingKind> foreign_shardings(const Trainer& trainer);
// Those that a search of the question leaves out: none where one is fixed or runs today.
std::vector<ShardingKind> shardings_left_out(const SearchQuestion& question);

// A layout within the doubt, and what speaks against it.
struct Weighed {
  std::size_t row = 0;                     // of the best
  std::optional<std::size_t> member = {};  // of its `alike`; none: the row itself
  Layout layout;
  Seconds step, worth;
  std::vector<double> amounts;  // of each preference
};
// Least worth first; equal ones by step, then as they come.
std::vector<Weighed> weighed(const SearchQuestion& question, const std::vector<PlannedLayout>& best,
                             const Preferences& preferences);

// The best with one of them as a row: a member leaves its family and takes its place among rows.
struct OwnRow {
  std::vector<PlannedLayout> best;
  std::size_t row = 0;
};
OwnRow with_own_row(std::vector<PlannedLayout> best, const Weighed& of);

}  // namespace trainwright
