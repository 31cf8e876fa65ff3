#pragma once
// Private: what a trainer's rules say of a layout of which not all is decided.
//
// A fact that hangs on what is not decided is unknown to a rule, and a rule that hangs on it says
// nothing (trainer/rule.h); so what is refused here is refused however the rest is decided. Rules
// that the model, the machine and the job settle by themselves are left out beforehand. Arithmetic
// that no rule has (layout.h, violations) is not asked here.
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "trainwright/search/search.h"

namespace trainwright::detail {

// What of a layout the branches of a space have chosen, beside degrees and manner.
enum class Decided : std::uint8_t { Recompute, Sharing, Pipeline };
// Switches that are decided last of all (late.h), and the rules' words for them.
struct LateSwitch {
  Switch what;
  Variable variable;
  bool takes_memory;
};
std::span<const LateSwitch> late_switches();
std::vector<Variable> variables_in(const Rule& rule);  // ascending, each once

class Rules {
 public:
  explicit Rules(const SearchQuestion& question);

  // Rules of layouts with the same degrees (space.h), a number for each: those that these break,
  // and those that they leave open.
  struct Open {
    std::vector<const Rule*> broken = {};
    // The others, by the last choice that they ask about: of a trunk, its way to share weights, to
    // recompute, its pipeline.
    std::vector<const Rule*> of_trunk = {}, of_sharing = {}, of_recompute = {}, of_pipeline = {};
    std::vector<const Rule*> late = {};         // that ask about a late switch
    std::vector<Variable> late_mentioned = {};  // by these
    std::int64_t late_number = 0;               // the same for the same `late`
    bool late_by_batch = false;                 // whether they ask about micro-batches
  };
  const Open& open(const Layout& layout, std::size_t degrees);
  // What rules may know of a layout of which so much is decided; of late switches what is unasked.
  Facts known(const Layout& layout, const Flags<Decided>& decided) const;
  // Those that refuse it by the last choice that is decided, whatever late switches there will be.
  std::vector<const Rule*> refusing(const Layout& layout, std::size_t degrees,
                                    const Flags<Decided>& decided);

 private:
  const SearchQuestion& question_;
  std::vector<const Rule*> rules_ = {};
  std::set<const Rule*> of_sharing_ = {}, of_recompute_ = {}, of_pipeline_ = {};  // that ask
  std::set<const Rule*> late_ = {};                                               // about it
  std::vector<std::optional<Open>> open_ = {};                                    // by degrees
  std::map<std::vector<const Rule*>, std::int64_t> late_numbers_ = {};
};

}  // namespace trainwright::detail
