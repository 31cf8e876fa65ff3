#pragma once
// Private: what a trainer's rules say of a layout of which not all is decided.
//
// A fact that hangs on what is not decided is unknown to a rule, and a rule that hangs on it says
// nothing (trainer/rule.h); so what is refused here is refused however the rest is decided. Rules
// that the model, the machine and the job settle by themselves are left out beforehand. Arithmetic
// that no rule has (layout.h, violations) is not asked here.
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

class Rules {
 public:
  explicit Rules(const SearchQuestion& question);

  // What rules may know of a layout of which so much is decided; of late switches what is unasked.
  Facts known(const Layout& layout, const Flags<Decided>& decided) const;
  // Whatever late switches there will be.
  bool refuse(const Layout& layout, const Flags<Decided>& decided) const;
  // Of the rules those that ask about a late switch.
  const std::vector<const Rule*>& late() const { return late_; }

 private:
  const SearchQuestion& question_;
  std::vector<const Rule*> rules_ = {}, late_ = {};  // the former are all of them
};

std::vector<Variable> variables_in(const Rule& rule);

}  // namespace trainwright::detail
