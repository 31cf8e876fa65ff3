#pragma once
// Private: how a layout is run beside its degrees, where the trainer leaves a choice on which the
// lists of a layer or most of its memory hang. What does not is decided at a leaf (late.h).
//
//   dispatcher   of tokens to experts
//   compile      torch.compile
//   loss         those that have to be asked for, but for any that another one beats in all that
//                it computes, keeps and moves; and where backward passes are split in two and the
//                trainer's rules forbid that with the loss at hand, one that they allow
//   gradients    in bf16, which changes what is learned: only where that is allowed
//
// What a layout cannot feel (a dispatcher without experts on several ranks) is left as it is; what
// the trainer's rules forbid is refused like any other layout.
#include <optional>
#include <string>
#include <vector>

#include "trainwright/search/search.h"

namespace trainwright::detail {

struct Manner {
  std::optional<DispatcherKind> dispatcher = {};  // the layout's own, unless said
  std::optional<GradientDtype> gradients = {};    // likewise
  Flags<Switch> on = {};                          // beside those that the layout asks for
  std::string loss = {};
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
// Whether a layout with these degrees differs in it from its own.
bool is_felt(const Manner& manner, const Layout& layout);
Layout in_manner(Layout layout, const Manner& manner);

}  // namespace trainwright::detail
