#include "trainwright/simulate/wires.h"

#include <algorithm>
#include <cmath>

namespace trainwright::detail {

Chosen chosen_of(const Model& model) {
  Chosen chosen{.experts = 0};
  for (const LayerKind& kind : model.kinds) {
    if (const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward)) {
      chosen.experts = std::max(chosen.experts, experts->experts_per_token);
    }
  }
  if (model.constants.groups_chosen > 0) {
    chosen.groups = model.constants.groups_chosen;
    chosen.of_groups = model.constants.expert_groups;
  }
  return chosen;
}

Degrees degrees_of(const Layout& of) {
  Degrees degrees{of.tp, of.pp, of.dp, of.cp, of.ep, of.etp, of.dp_replicate, of.zero};
  std::transform(of.order.begin(), of.order.end(), degrees.begin() + 8,
                 [](Axis axis) { return static_cast<std::int64_t>(axis); });
  return degrees;
}

namespace {

Link& placed_link(Wires& wires, const RankGroup& group) {
  const auto [entry, fresh] = wires.known.try_emplace(group);
  if (fresh) entry->second.place = place_group(wires.layout, group, wires.cluster);
  return entry->second;
}

}  // namespace

Link& Wires::link(GroupKind kind) {
  Link*& found = links[static_cast<std::size_t>(kind)];
  if (found == nullptr) found = &placed_link(*this, rank_group(layout, kind));
  return *found;
}

bool Wires::leaves_node(GroupKind kind) {
  const GroupPlacement& at = place(kind);
  return at.node.together < at.group.size;
}

Seconds Wires::pipeline_sum(const Stride& ranks, Bytes bytes) {
  Link& on = placed_link(*this, pipeline_group(layout, ranks));
  const auto [time, fresh] = on.times.try_emplace(std::array{
      static_cast<std::int64_t>(CollectiveKind::AllReduce), bytes.value(), std::int64_t{0}});
  if (fresh) {
    time->second = collective_time(CollectiveKind::AllReduce, bytes, on.place, cluster, rates);
  }
  return time->second;
}

Seconds Wires::time(CollectiveKind kind, GroupKind group, Bytes bytes) {
  Link& on = link(group);
  if (on.place.group.size < 2 || bytes == Bytes(0)) return {};
  const bool tokens = kind == CollectiveKind::AllToAll && group == GroupKind::Ep &&
                      is_flex(layout.dispatcher) && chosen.experts > 0;
  const auto [known_time, fresh] = on.times.try_emplace(
      std::array{static_cast<std::int64_t>(kind), bytes.value(),
                 tokens ? layout.ep * 8 + static_cast<std::int64_t>(layout.dispatcher) : 0});
  if (!fresh) return known_time->second;
  // Lists count the most copies that a token can have.
  known_time->second = tokens ? dispatch_time(bytes / std::min(chosen.experts, layout.ep), chosen,
                                              on.place, cluster, rates, layout.dispatcher)
                              : collective_time(kind, bytes, on.place, cluster, rates);
  return known_time->second;
}

bool Wires::hides(Beside beside) const {
  switch (beside) {
    case Beside::Nothing: return false;
    case Beside::OwnProduct: return asks(layout, Switch::OverlapTp, trainer);
    case Beside::WeightGradient:
    case Beside::InputGradient:
    case Beside::RingSteps: return true;
    case Beside::OtherMicroBatch: return asks(layout, Switch::OverlapEp, trainer);
    case Beside::SharedExperts: return asks(layout, Switch::OverlapSharedExperts, trainer);
  }
  return false;
}

namespace {

Piece piece_of(const Call& call) {
  switch (call.group) {
    case GroupKind::Tp:
      return call.kind == CollectiveKind::AllReduce ? Piece::TensorSums : Piece::Tensor;
    case GroupKind::Cp: return Piece::Context;
    case GroupKind::Pp: return Piece::Vocabulary;
    default: return Piece::Expert;
  }
}

Bytes times(Bytes bytes, double factor) {
  return Bytes(std::llround(real(bytes.value()) * factor));
}

}  // namespace

PassPieces placed(const ListTime& list, Pass pass, Wires& wires) {
  const auto at = static_cast<std::size_t>(pass);
  PassPieces pieces = list.passes[at];
  if (wires.busiest > 1) pieces += list.of_experts[at] * (wires.busiest - 1);
  const double further = wires.one_by_one ? list.one_by_one[at] : 0;
  pieces.kernels += further;
  pieces.calls += further;
  for (const Call& call : list.calls[at]) {
    const bool grows = wires.busiest > 1 && piece_of(call) == Piece::Expert;
    const Seconds time =
        wires.time(call.kind, call.group, grows ? times(call.bytes, wires.busiest) : call.bytes);
    if (time == Seconds(0)) continue;
    pieces.kernels += 1;
    pieces.calls += 1;
    if (call.group == GroupKind::Tp) pieces.hops += real(wires.place(call.group).group.size - 1);
    if (call.beside == Beside::RingSteps) {
      pieces.at(Piece::Ring) += time;
      // Each step sends, receives, attends to a part and adds it up.
      const double steps = 3 * real(wires.place(call.group).group.size - 1);
      pieces.kernels += steps;
      pieces.calls += steps;
    } else {
      const Piece piece = piece_of(call);
      const Piece hidden = piece == Piece::Expert ? Piece::ExpertBeside : Piece::Beside;
      pieces.at(wires.hides(call.beside) ? hidden : piece) += time;
    }
  }
  return pieces;
}

}  // namespace trainwright::detail
