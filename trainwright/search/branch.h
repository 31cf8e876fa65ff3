#pragma once
// Private: best first over the tree of space.h.
//
// Every branch has a lower bound of the step time of its layouts: of a trunk its cheapest way to
// recompute with nothing to travel between replicas, of a twig with its own, of a leaf with its
// pipeline's least idle time, each with all switches on that may be legal below it (late.h); and
// last the time itself, of the fastest way to run the leaf that fits. The branch with the least
// bound is always the next to be looked at, so layouts come out fastest first, and when one comes
// out no other can be faster: that is the proof. Bounds and times are compared in nine digits;
// equal times come out in the order of their text.
//
// Stems are met one after the other, so that a search can be stopped at any time. When time presses
// (SearchStop::Soon) a dive looks for layouts that fit, and what was met so far is looked at first.
//
// Cost: O(log n) per branch and a few microseconds for a bound; lists of operators, made once per
// slice, cost more than all of it.
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "trainwright/search/space.h"

namespace trainwright::detail {

// What was looked at.
struct Looked {
  std::int64_t bounded = 0;    // trunks and twigs
  std::int64_t cut = 0;        // layouts whose states and activations are too large at least
  std::int64_t evaluated = 0;  // layouts whose memory was asked for
  std::int64_t timed = 0;      // layouts whose step was timed
  std::int64_t refused = 0;    // layouts that the trainer's rules refuse, not looked at further
};

// A layout that does not fit, or is tight: some rank needs at least so much. Without recompute and
// pipeline all layouts of a trunk that share weights so.
struct Large {
  Bytes bytes;
  Seconds bound;  // of its time
  Fit fit = Fit::DoesNotFit;
  Branch branch = {};
  bool faster = false;  // it fits, but not in its fastest way
  bool cut = false;     // by a lower bound: counted as cut, not as evaluated
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
  // From now on only layouts whose time is known are given.
  void only_timed();
  // The last one does not fit after all: its next way is looked at.
  void too_large();
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
  // Of a branch that was cut what the next choice leaves: ways to share weights, then to recompute,
  // then leaves; and what some rank of each needs at least.
  std::vector<std::pair<Branch, Bytes>> below(const Branch& branch);
  // The legal ways of a leaf that may take less memory than its others.
  std::vector<Branch> leanest_ways(const Branch& leaf);
  // Rules that refuse all layouts of a branch.
  std::vector<const Rule*> refusing(const Branch& branch);
  // By the rules that refuse them, as they were met: so many layouts, the first in `branch`.
  struct Refused {
    std::vector<const Rule*> by;
    Branch branch;
    std::int64_t layouts = 0;
  };
  const std::vector<Refused>& refused() const { return refused_; }
  // In the order of their bounds, but for those that were cut.
  const std::vector<Large>& large() const { return large_; }
  // A way of a leaf that fits, its time, and what its fullest rank needs but for slack.
  struct Way {
    Seconds step;
    Branch branch;
    Bytes driver;
  };
  using MemoryClasses = std::set<std::uint32_t>;
  // The fastest but for those whose memory is among `without`; and of what is faster and does not
  // fit the least bytes and the best verdict.
  std::optional<Way> fastest_way(const Branch& leaf, double risk, MemoryClasses without = {},
                                 Large* faster = nullptr);
  std::uint32_t memory_class(const Branch& way);
  // All of them, where the question asks for it.
  std::vector<Met> met() const;

 private:
  // Leaves: those of a split twig that are still to come, the next one's bound; or one leaf alone.
  enum class Level : std::uint8_t { Trunk, Twig, Leaves, Fitting, Timed };
  struct Node {
    Seconds bound;
    Level level = Level::Trunk;
    Branch branch = {};
    std::int32_t twig = -1;  // of Twig, and of Leaves that are not alone
    std::int32_t next = 0;
  };
  // Of a rank on average, and of a layer of each kind.
  struct StateBytes {
    Bytes mean;
    std::vector<RealBytes> layers;
    // With the pipelines of these lists, at least.
    std::vector<std::pair<const std::vector<Pipeline>*, Bytes>> least;
  };
  // A twig, whose leaves come in the order of their pipelines' idle time.
  struct KnownTwig {
    Branch twig;
    LeastStep least;
    const StateBytes* states = nullptr;
    Bytes kept;  // of a layer and micro-batch
  };
  // What some rank needs at least with this pipeline, or any.
  static Bytes least_bytes(const StateBytes& states, Bytes kept, const Pipeline& pipeline);
  Bytes least_bytes(std::int64_t trunk, const StateBytes& states, Bytes kept) const;

  bool met_all() const { return manner_ == space_.manners().size(); }
  void meet_next();
  void push_trunk(std::int64_t trunk);
  // Whether rules refuse all layouts of a branch, which are so many.
  bool is_refused(const Branch& branch, std::int64_t layouts);
  void push_twig(const KnownTwig& twig);
  struct Shared {
    std::int32_t sharing = 0;
    std::vector<RankPieces> by_order = {};  // of ranks; none: nothing to run
    bool reduce_overlaps = false, gather_overlaps = false;
  };
  Shared shared_by(const Branch& branch);
  std::vector<Shared> sharings_below(const Branch& branch);
  StateBytes& states_of(const Branch& branch);
  Bytes least_states(const Branch& branch);
  bool is_cut_by_states(std::int64_t trunk);
  void split_trunk(const Branch& branch);
  void split(const Node& node);
  // Looks for layouts that fit in stems here and there.
  void dive();
  void dive_into(std::int64_t trunk);
  std::optional<Branch> leanest_that_fits(std::int64_t trunk, std::int32_t sharing);
  bool fits(const Branch& leaf);
  // Layouts of a branch that need more than there is, whatever their spread.
  bool is_cut(const Branch& branch, Bytes bytes, std::int64_t layouts, Seconds bound = Seconds(0));
  Bytes kept_of(const Branch& twig);
  void split_twig(std::int32_t twig);
  void next_leaf(const Node& leaves);
  void push_leaf(std::int32_t twig, std::size_t next);
  void weigh_leaf(Seconds bound, const Branch& leaf);
  void time_leaf(Seconds bound, const Branch& leaf);
  // A legal way of a leaf, and its time once it was asked for.
  struct Candidate {
    Branch way;
    std::int32_t order = 0;
    Flags<Switch> running;
    std::optional<Seconds> step;
  };
  static std::uint32_t class_of(const Candidate& one) {
    return Late::memory_of(one.running).bits << 4U | static_cast<std::uint32_t>(one.order);
  }
  // All legal ways, or those that no other one has all the switches of.
  std::vector<Candidate> candidates_of(const Branch& leaf, bool all);
  Candidate& fastest_of(std::vector<Candidate>& candidates);
  Seconds least_time(const Branch& leaf);  // whatever fits
  Branch simplest(const Branch& way, Seconds step);
  Seconds time_of(const Branch& way);
  // By order of ranks, none where there is nothing to run: what no recompute is, and nothing
  // travelling, where those are not chosen.
  std::vector<StepPieces> whole(const Branch& branch);
  const Late::Legal& legal_below(const Branch& branch, const Layout& layout);
  LeastStep least_of(const std::vector<StepPieces>& by_order) const;
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

  Late late_;
  const Late::Legal* last_legal_ = nullptr;  // of this trunk: degrees and manner
  std::array<std::size_t, 2> legal_trunk_ = {};
  std::size_t manner_ = 0, stem_ = 0;  // the next to meet
  std::vector<Node> heap_;
  std::vector<Node> left_ = {};   // once stopped: known ones, the last is the next
  std::vector<Node> dived_ = {};  // found by a dive, which may be in the heap, too
  bool only_timed_ = false, hurries_ = false, has_dived_ = false;
  std::int64_t dive_left_ = 0;  // memory evaluations of a dive
  std::vector<KnownTwig> twigs_ = {};
  std::map<std::array<std::size_t, 3>, StateBytes> states_ = {};
  std::map<std::pair<std::int64_t, std::int32_t>, Bytes> kept_ = {};  // by trunk and recompute
  Bytes capacity_;
  static constexpr Seconds kForever = Seconds(std::numeric_limits<double>::infinity());
  Seconds most_ = kForever;  // nothing above is looked at
  std::int64_t known_ = 0;   // layouts in the heap that may fit
  Looked looked_ = {};
  SearchStop stopped_ = SearchStop::Not;
  std::vector<Large> large_ = {};
  std::vector<Refused> refused_ = {};
  std::vector<Met> met_ = {};
  std::map<Branch, Way> times_ = {};  // of leaves that were met
  std::optional<Way> last_ = {};      // that was given
  // Memory of ways that did not fit after all, by their leaves.
  std::map<Branch, MemoryClasses> without_ = {};
};

}  // namespace trainwright::detail
