#pragma once
// Private: what is decided last, at a leaf: ways to run one layout that share its lists, and all
// but little of its memory.
//
//   overlaps   those that are off unasked are tried on; one that is on unasked costs no time and
//              stays on, but is tried off where it takes memory
//   graphs     likewise
//   order      of ranks: which links a group has, and which communicators
//
// A switch that is on never makes a step longer: what is hidden shows no more than it would take
// alone, since `exposed` and `data_exposed` are at most 1 and the factors on collectives at least 1
// (simulate/stack.cc checks both when a calibration is read), and CUDA graphs leave out gaps and
// calls. So the bound of a branch has all switches that may be legal below it, one bound for each
// order; and of a leaf only such ways are timed as no other way has all the switches of, until one
// fits. Transfers between stages that overlap are no slower for schedules of a closed form; by the
// clock both are timed.
//
// What may be legal is what no rule of the trainer speaks against, by the facts that a branch has
// decided so far; those that it has not are unknown to the rule. Answers are kept by the values of
// the variables that these rules mention.
#include <cstdint>
#include <map>
#include <vector>

#include "trainwright/search/rules.h"
#include "trainwright/search/search.h"

namespace trainwright::detail {

// Beside what a layout asks for.
struct Switches {
  Flags<Switch> on, off;
};

// Whether a layout with these degrees can feel all of these switches.
bool feels(const Layout& layout, const Flags<Switch>& switches);

class Late {
 public:
  struct Set {
    std::int32_t number = 0;
    Flags<Switch> running = {};  // of the switches that are decided here
    // No other one is never slower: by the clock, and where the schedule's time is a formula.
    bool most = false, most_closed = false;
    bool leanest = true;  // no other one takes less memory, or as much and comes before
  };
  struct Legal {
    std::vector<Set> sets;
    Flags<Switch> together = {};  // all that one of them has on
  };

  // Only of axes that are asked for; the first set is empty, the first order the layout's own.
  Late(const SearchQuestion& question, const Layout& base);

  std::int32_t sets() const { return static_cast<std::int32_t>(sets_.size()); }
  std::int32_t orders() const { return static_cast<std::int32_t>(orders_.size()); }
  // Of the layout: without a pipeline all are one.
  std::int32_t orders_of(const Layout& layout) const { return layout.pp > 1 ? orders() : 1; }
  // A way by its number, which is that of its order times sets() and that of its set.
  std::int32_t ways() const { return sets() * orders(); }
  bool is_felt(const Layout& layout, std::int32_t way) const;
  std::int64_t felt_by(const Layout& layout) const;  // how many
  Layout in_way(Layout layout, std::int32_t way) const;
  Layout in_order(Layout layout, std::int32_t order) const;
  // The set that takes least memory, whether it is legal or not.
  std::int32_t leanest(const Layout& layout) const;
  // What no rule forbids, as far as the layout is decided; the leanest where all is forbidden.
  const Legal& legal(const Layout& layout, std::size_t degrees, const Flags<Decided>& decided);
  Rules& rules() { return rules_; }
  // Switches that a way asks for, on or off.
  Flags<Switch> asked(std::int32_t way) const;
  // Whether the first never runs longer; `closed`: the schedule's time is a formula.
  static bool no_slower(Flags<Switch> a, const Flags<Switch>& b, bool closed);
  // Of those that run, those that take memory.
  static Flags<Switch> memory_of(const Flags<Switch>& running);

 private:
  // What rules say to switches on and off, by their numbers in late_switches().
  struct Refused {
    std::vector<std::size_t> switches = {};
    std::vector<bool> by_setting = {};  // bit i: the i-th of these is on
  };
  std::int64_t running_bits(const Layout& layout) const;
  static Refused refused_by(const Rule& rule, Facts known);
  Legal legal_of(const Layout& layout, const std::vector<Refused>& refused) const;

  const SearchQuestion& question_;
  Rules rules_;
  std::vector<Switches> sets_ = {{}};
  std::vector<RankOrder> orders_ = {};
  // By the values of variables that open rules ask about; and by what these rules say then.
  std::map<std::vector<std::int64_t>, const Legal*> legal_ = {};
  std::map<std::vector<std::int64_t>, Legal> distinct_ = {};
};

}  // namespace trainwright::detail
