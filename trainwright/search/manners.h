#pragma once
// Private: how a layout is run beside its degrees, where the trainer leaves a choice and the time
// knows a difference.
//
//   overlaps     those that are off unasked, on. An overlap that is on unasked takes no time, so it
//                stays on; that of transfers between stages takes memory, so it is tried off too
//   dispatcher   of tokens to experts
//   order        of ranks
//   loss         one that has to be asked for, where backward passes are split in two and the
//   trainer's
//                rules forbid that with its usual loss
//
// What a layout cannot feel (an order without a pipeline, an overlap of what does not travel) is
// left as it is; what the trainer's rules forbid is refused like any other layout.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/search/search.h"

namespace trainwright::detail {

struct Manner {
  RankOrder order;
  std::optional<DispatcherKind> dispatcher = {};  // the layout's own, unless said
  Flags<Switch> on, off;                          // beside those that the layout asks for
  Flags<Switch> drop = {};                        // of those that it asks for
  std::string loss;
  bool only_split = false;  // for schedules that split backward passes in two
};
// The layout's own first; only that of axes that are not asked for.
std::vector<Manner> manners_of(const SearchQuestion& question, const Layout& base);
// Whether a rule of the trainer forbids this, whatever the rest is.
bool forbids(const Trainer& trainer, const Facts& known);
// Activations between the blocks of tensor parallelism are split by tokens: always worth it, where
// the trainer can and sequences split.
bool splits_tokens(const SearchQuestion& question, std::int64_t tp);
// No rule speaks against the schedule with the loss, compiled or not.
bool runs_with_loss(const Layout& layout, const Trainer& trainer);
// Manners that differ in what takes no memory and never makes a step longer: overlaps but that of
// transfers between stages, and CUDA graphs. A bound with all of them speaks for each.
std::vector<std::vector<std::size_t>> alike_in_memory(const std::vector<Manner>& manners);
// Whether it holds that none of them makes a step longer: what is overlapped shows no more than it
// would take alone.
bool overlaps_never_cost(const StackConstants& stack);
// Whether a layout with these degrees can feel all of these switches.
bool feels(const Layout& layout, const Flags<Switch>& switches);
// Whether a layout with these degrees differs in it from its own.
bool is_felt(const Manner& manner, const Layout& layout);
Layout in_manner(Layout layout, const Manner& manner);

}  // namespace trainwright::detail
