#pragma once
// Private: best first over the tree of space.h.
//
// Every branch has a lower bound of the step time of its layouts: of the manners of a stem that are
// alike in memory one with all that they switch on, of a trunk its cheapest way to recompute with
// nothing to travel between replicas, of a twig with its own, of a leaf with its pipeline's least
// idle time, and last the time itself. The branch with the least bound is always
// the next to be looked at, so layouts come out fastest first, and when one comes out no other can
// be faster: that is the proof. Bounds and times are compared in nine digits; equal times come out
// in the order of their text.
//
// Stems are met one after the other, so that a search can be stopped at any time. When time presses
// (SearchStop::Soon) a dive looks for layouts that fit, and what was met so far is looked at first.
//
// Cost: O(log n) per branch and a few microseconds for a bound; lists of operators, made once per
// slice, cost more than all of it.
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "trainwright/search/space.h"

namespace trainwright::detail {

// What was looked at.
struct Looked {
  std::int64_t bounded = 0;    // trunks and twigs
  std::int64_t cut = 0;        // layouts whose states alone are too large
  std::int64_t evaluated = 0;  // layouts whose memory was asked for
  std::int64_t timed = 0;      // layouts whose step was timed
};

// A layout that does not fit, or is tight: some rank needs at least so much. Without recompute and
// pipeline all layouts of a trunk that share weights so.
struct Large {
  Bytes bytes;
  Seconds bound;  // of its time
  Fit fit = Fit::DoesNotFit;
  Branch branch = {};
};

// A layout whose memory was asked for.
struct Met {
  Branch branch;
  Bytes driver;
  Seconds step;  // at least
  Fit fit = Fit::Fits;
  bool timed = false;
};

class Fastest {
 public:
  Fastest(const SearchQuestion& question, const Space& space);

  // The fastest layout that was not given yet and may fit: with a replay its verdict is no better.
  // Nullopt when there is none. Once it is stopped, what looks best of those met so far; a spent
  // budget lets it go on until one is met.
  std::optional<Layout> next();
  // Again on accelerators of more memory, once all below `most` seconds is known: what was cut or
  // did not fit and takes no longer. The rest is as before.
  void begin_again(Bytes capacity, Seconds most);
  // With more to look at.
  SearchStop stopped() const {
    const bool done = heap_.empty() && left_.empty() && met_all();
    return done ? SearchStop::Not : stopped_;
  }
  // None that is still to come takes less; nullopt while stems are left that nobody met.
  std::optional<Seconds> bound() const;
  const Looked& looked() const { return looked_; }
  // What the fullest rank of a layout that does not fit needs, but for slack, or the first one that
  // may not; nullopt if it cannot run at all.
  std::optional<Bytes> driver_of(const Branch& leaf, bool of_all) {
    const auto least = memory_.least(space_.layout(leaf), of_all ? 1 : kEvenOdds);
    return least ? std::optional(least->driver) : std::nullopt;
  }
  // In the order of their bounds, but for those that were cut.
  const std::vector<Large>& large() const { return large_; }
  Seconds time_of(const Branch& leaf);
  // All of them, where the question asks for it.
  std::vector<Met> met() const;

 private:
  // Leaves: those of a split twig that are still to come, the next one's bound; or one leaf alone.
  enum class Level : std::uint8_t { Stem, Trunk, Twig, Leaves, Fitting, Timed };
  struct Node {
    Seconds bound;
    Level level = Level::Trunk;
    Branch branch = {};      // of Stem the first trunk of those that are alike
    std::int32_t twig = -1;  // of Twig, and of Leaves that are not alone
    std::int32_t next = 0;
  };
  // A twig, whose leaves come in the order of their pipelines' idle time.
  struct KnownTwig {
    Branch twig;
    LeastStep least;
  };

  bool met_all() const { return group_ == groups_.size(); }
  // Of one stem the trunks of one group of manners.
  void meet_next();
  void push_trunk(std::int64_t trunk);
  void split_stem(std::int64_t trunk);
  void push_twig(const Branch& twig, const LeastStep& least);
  void split_trunk(const Branch& trunk);
  void split(const Node& node);
  // Looks for layouts that fit in stems here and there.
  void dive();
  void dive_into(std::int64_t trunk);
  std::optional<Branch> leanest_that_fits(std::int64_t trunk, std::int32_t sharing);
  bool fits(const Branch& leaf);
  // Cuts all layouts with this trunk and sharing if their states alone, so many bytes, are too
  // large.
  std::optional<Bytes> cut_by_states(const Branch& branch);
  void split_twig(std::int32_t twig);
  void next_leaf(const Node& leaves);
  void push_leaf(std::int32_t twig, std::size_t next);
  void weigh_leaf(Seconds bound, const Branch& leaf);
  void time_leaf(const Branch& leaf);
  // What no recompute is, and nothing travelling, where those are not chosen.
  std::optional<StepPieces> whole(const Branch& branch);
  // Of the layouts that may fit the one that looks best, when the search is stopped.
  std::optional<Layout> next_of_known();
  void gather_known();
  void ask_whether_to_stop();
  bool later(const Node& a, const Node& b) const;
  Node pop();
  void push(Node node);

  const SearchQuestion& question_;
  const Space& space_;
  const StackConstants& stack_;
  std::optional<StepModel> own_steps_;
  StepModel& steps_;
  MemoryModel memory_;
  static bool is_known(const Node& node) { return node.level >= Level::Fitting; }

  // Of manners, and the next to meet: a group of them, of a stem. One by one where a bound of one
  // does not speak for the others.
  std::vector<std::vector<std::size_t>> groups_ = {};
  std::vector<std::size_t> group_of_ = {};
  std::size_t group_ = 0, stem_ = 0;
  std::vector<Node> heap_;
  std::vector<Node> left_ = {};   // once stopped: known ones, the last is the next
  std::vector<Node> dived_ = {};  // found by a dive, which may be in the heap, too
  bool hurries_ = false, has_dived_ = false;
  std::int64_t dive_left_ = 0;  // memory evaluations of a dive
  std::vector<KnownTwig> twigs_ = {};
  std::vector<std::pair<Bytes, KnownTwig>> cut_ = {};  // by states of so many bytes
  Bytes capacity_;
  static constexpr Seconds kForever = Seconds(std::numeric_limits<double>::infinity());
  Seconds most_ = kForever;  // nothing above is looked at
  std::int64_t known_ = 0;   // layouts in the heap that may fit
  Looked looked_ = {};
  SearchStop stopped_ = SearchStop::Not;
  std::vector<Large> large_ = {};
  std::vector<Met> met_ = {};
  std::map<Branch, Seconds> times_ = {};  // of those met
};

}  // namespace trainwright::detail
