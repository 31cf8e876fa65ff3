#include "trainwright/memory/terms.h"

#include <algorithm>
#include <array>

namespace trainwright::detail {
namespace {

// One list of a chunk: the j-th of a run of equal ones.
struct Site {
  const PortionBytes* portion = nullptr;
  double index = 0;
  RealBytes kept_before;                                    // by earlier lists
  RealBytes half_after;                                     // by later ones, after I
  RealBytes gathered_before;                                // weights of earlier lists
  RealBytes unreduced_after, gradients_after;               // of later ones
  const PortionBytes *next = nullptr, *previous = nullptr;  // the lists beside it
  std::int32_t number = 0;

  RealBytes gathered_next() const { return next == nullptr ? RealBytes() : next->gathered; }
  RealBytes gathered_previous() const {
    return previous == nullptr ? RealBytes() : previous->gathered;
  }
  RealBytes kept_previous() const { return previous == nullptr ? RealBytes() : previous->kept; }
  RealBytes gradients_next() const { return next == nullptr ? RealBytes() : next->gradients; }
};

// Whole weights of a list come and go.
bool comes_gathered(const Sharding& sharding) {
  return gathers_parts(sharding) && !stays_gathered(sharding);
}

// Weights of this list and of the one that is gathered ahead, and the flat buffer of the gather.
RealBytes gathered_for(const StateRules& rules, RealBytes own, RealBytes ahead) {
  if (!comes_gathered(rules.sharding)) return {};
  return own + ahead + std::max(own, ahead);
}

// FSDP2 copies weights out of a flat buffer as large as they are. Forward, the buffer goes when the
// next one comes, and nothing is gathered ahead; backward, it goes at once, and that of the list
// before is filled meanwhile. torch 2.13 _fsdp_param_group.py wait_for_unshard, _backward_prefetch.
// So a unit has its own weights and one buffer: its own, that of the list before, or none.
//
// Embedding and head may be one unit with the root, which all others are in: whole from the first
// list's forward to its backward pass, when its gradients, those of the head too, are reduced.
class SpotFinder {
 public:
  SpotFinder(const ChunkBytes& chunk, const StateRules& rules, double gradient_share)
      : rules_(rules), gradient_share_(gradient_share) {
    const bool comes = comes_gathered(rules.sharding);
    if (comes && rules.live_parameters > 0) {
      live_ = std::min(chunk.gathered, RealBytes(rules.compute * rules.live_parameters));
    }
    by_units_ = rules.sharding.flat_buffers && comes && live_ == kNothing;
    stays_for_backward_ = rules.sharding.gather == Gather::MicroBatch;
    for (const PortionBytes& portion : chunk.portions) {
      if (!in_root(&portion)) continue;
      root_.gathered += portion.gathered;
      root_.unreduced += portion.unreduced;
      root_.gradients += portion.gradients;
      if (portion.logits) root_.head = portion.unreduced;
      if (&portion == &chunk.portions.front()) root_.first = portion.gathered;
    }
  }

  bool by_units() const { return by_units_; }
  bool has_root() const { return root_.gathered > kNothing; }
  // Every backward pass makes gradients anew.
  bool accumulates() const { return trainwright::accumulates(rules_.sharding.life); }

  Spot forward(const Site& site) const {
    Spot spot = around(site, site.portion->forward, site.kept_before);
    const RealBytes own = gathered(site.portion);
    if (!by_units_) {
      spot.gathered = live_ > kNothing ? live_ : gathered_for(rules_, own, site.gathered_next());
      return summed(spot);
    }
    const RealBytes stay = still_gathered(site);
    const Spot copying = summed(while_copied(site));
    if (site.portion->logits) {
      // The loss is no part of the unit: weights are gone again, or stay for the backward pass.
      Spot product = summed(inside(spot, stay + own + own, kNothing));
      spot.gathered = stay + own;
      // Of all chunks, as they are reduced: FSDPParam.to_accumulated_grad_if_needed.
      if (site.portion->chunked && rules_.sharding.gradients)
        spot.reduced = site.portion->gradients;
      return higher(copying, higher(product, summed(spot)));
    }
    spot.gathered = stay + own + own;
    return higher(copying, summed(spot));
  }
  Spot backward(const Site& site) const {
    return with_buffers(around(site, site.portion->backward, site.kept_before), site, true);
  }
  Spot first_backward(const Site& site) const {
    Spot spot = with_buffers(around(site, site.portion->backward, site.kept_before), site, false);
    spot.gradients = accumulates() ? site.unreduced_after + site.portion->unreduced
                                   : gradient_share_ * site.gradients_after;
    return summed(spot);
  }
  // Later lists have run their I and hold what W needs.
  Spot backward_input(const Site& site) const {
    Spot spot = with_buffers(
        around(site, site.portion->backward_input, site.kept_before + site.half_after), site, true);
    spot.peak = &Totals::backward_input;
    return spot;
  }
  // When all lists have run, its weights are gone: gradients of the root as made, and copied for
  // their reduction. torch 2.13 _fsdp_param_group.py post_backward.
  Spot root_reduced(RealBytes gradients) const {
    Spot spot;
    spot.reduced = rules_.sharding.gradients ? root_.unreduced + root_.gradients : kNothing;
    spot.gradients = gradients;
    spot.portion = 0;
    spot.peak = &Totals::backward;
    return summed(spot);
  }

 private:
  bool in_root(const PortionBytes* portion) const {
    return rules_.root_unit && by_units_ && portion->end;
  }
  RealBytes gathered(const PortionBytes* portion) const {
    return portion == nullptr || in_root(portion) ? kNothing : portion->gathered;
  }
  // Of the list after this one, while they are reduced, and what the root has to wait for.
  RealBytes on_their_way(const Site& site) const {
    if (!has_root()) return site.gradients_next();
    const RealBytes next =
        site.next == nullptr || in_root(site.next) ? kNothing : site.next->gradients;
    return next + (site.portion->logits ? kNothing : root_.head);
  }
  Spot around(const Site& site, RealBytes peak, RealBytes others) const {
    Spot spot;
    const RealBytes own = std::min(site.portion->kept, peak);
    // In host memory, all but the list at work and the one on its way.
    spot.activations =
        (rules_.offload_activations ? std::min(others, site.kept_previous()) : others) + own;
    (site.portion->logits ? spot.logits : spot.transients) = peak - own;
    spot.portion = site.number;
    return spot;
  }
  // What is gathered and reduced in the backward pass. Gradients of this list are in the compute
  // type, and all there; those of the list after it are on their way.
  Spot with_buffers(Spot spot, const Site& site, bool again) const {
    spot.peak = &Totals::backward;
    const RealBytes own = gathered(site.portion);
    const bool reduces = comes_gathered(rules_.sharding) && rules_.sharding.gradients;
    RealBytes reduced = reduces ? site.portion->unreduced + on_their_way(site) : kNothing;
    if (!by_units_) {
      spot.gathered =
          live_ > kNothing ? live_ : gathered_for(rules_, own, site.gathered_previous());
      spot.reduced = reduced;
      return summed(spot);
    }
    // HSDP holds what it has summed over replicas until the pass ends; in the first one these are
    // the gradients themselves. torch 2.13 _fsdp_param_group.py AllReduceState.
    if (again && rules_.sharding.dense.replicas > 1) {
      const RealBytes shards =
          site.gradients_after / static_cast<double>(rules_.sharding.dense.ways);
      spot.reduced = shards;
      reduced += shards;
    }
    // What was gathered forward and stayed is not gathered again.
    const RealBytes stay = still_gathered(site);
    const RealBytes buffer = stays_for_backward_ ? kNothing : gathered(site.previous);
    const Spot unit = inside(spot, stay + own + buffer, reduced);
    if (!site.portion->logits) {
      spot.gathered = unit.gathered;
      spot.reduced = unit.reduced;
      return summed(spot);
    }
    const bool stays = rules_.head_stays || stays_for_backward_;
    spot.gathered = stay + (stays ? own : kNothing);
    return higher(summed(unit), summed(spot));
  }
  // Forward, while weights are copied out of their flat buffer that of the list before is still
  // there, and of the list itself no more than its input.
  Spot while_copied(const Site& site) const {
    Spot spot = around(site, std::min(real(site.portion->totals->input), site.portion->kept),
                       site.kept_before);
    const RealBytes own = gathered(site.portion);
    spot.gathered = still_gathered(site) + own + own + gathered(site.previous);
    return spot;
  }
  static Spot higher(const Spot& a, const Spot& b) { return b.total >= a.total ? b : a; }
  // The root, and weights of earlier lists, which wait for their own backward pass.
  RealBytes still_gathered(const Site& site) const {
    if (!stays_for_backward_) return root_.gathered;
    return site.gathered_before + root_.gathered - (site.number > 0 ? root_.first : kNothing);
  }
  // At the head's product, where of what the loss needs no more than the kept part is there.
  static Spot inside(Spot spot, RealBytes gathered, RealBytes reduced) {
    spot.logits = kNothing;
    spot.gathered = gathered;
    spot.reduced = reduced;
    return spot;
  }
  static Spot summed(Spot spot) {
    spot.total = spot.activations + spot.transients + spot.logits + spot.gathered + spot.reduced +
                 spot.gradients;
    return spot;
  }

  const StateRules& rules_;
  double gradient_share_;
  RealBytes live_;                   // most that is gathered at once, if that is limited
  bool by_units_ = false;            // FSDP2, weights come and go
  bool stays_for_backward_ = false;  // but not between forward and backward
  struct Root {
    RealBytes gathered, unreduced, gradients;
    RealBytes head;   // of `unreduced`
    RealBytes first;  // of `gathered`, the embedding's
  };
  Root root_;  // where embedding and head are a unit
};

void raise(Spot& highest, const Spot& spot) {
  if (highest.portion < 0 || spot.total > highest.total) highest = spot;
}

// What changes along a run of equal lists is linear in the place, so its ends are enough; the ends
// also have other neighbours.
Site site_at(const ChunkBytes& chunk, std::size_t i, double index) {
  const auto& portions = chunk.portions;
  const PortionBytes& of = portions[i];
  const double after = of.count - 1 - index;
  const bool last = after == 0, first = index == 0;
  return {.portion = &of,
          .index = index,
          .kept_before = of.kept_before + index * of.kept,
          .half_after = of.half_after + after * of.half,
          .gathered_before = of.gathered_before + index * of.gathered,
          .unreduced_after = of.unreduced_after + after * of.unreduced,
          .gradients_after = of.gradients_after + after * of.gradients,
          .next = !last                     ? &of
                  : i + 1 < portions.size() ? &portions[i + 1]
                                            : nullptr,
          .previous = !first  ? &of
                      : i > 0 ? &portions[i - 1]
                              : nullptr,
          .number = static_cast<std::int32_t>(i)};
}

void raise_all(ChunkTerms& terms, const SpotFinder& finder, const Site& site) {
  raise(terms.spots[0], finder.forward(site));
  raise(terms.spots[1], finder.backward_input(site));
  raise(terms.spots[3], finder.accumulates() ? finder.first_backward(site) : finder.backward(site));
  raise(terms.first_backward, finder.first_backward(site));
}

// Where a spot has its input at all: when gradients are all that is left, it has not.
RealBytes without(RealBytes input, RealBytes kept) { return std::max(kNothing, kept - input); }

// What stands or is left between stages.
void add_pipeline(ChunkTerms& terms, const ChunkBytes& bytes, const StageContent& content,
                  const PipelineRules& pipeline) {
  if (pipeline.buffers_per_micro_batch) {
    // The input is the receive buffer, which stands.
    const RealBytes input = std::min(bytes.input, bytes.kept);
    // The output of the last stage, of which the loss is made, lives as long as its micro-batch
    // (torch 2.13 pipelining stage.py fwd_cache).
    terms.whole = without(input, terms.whole) + bytes.logits;
    for (Spot* spot : {&terms.spots[0], &terms.spots[1], &terms.spots[3], &terms.first_backward}) {
      const RealBytes activations = without(input, spot->activations) + bytes.logits;
      spot->total += activations - spot->activations;
      spot->activations = activations;
    }
  } else if (!pipeline.outputs_freed_early) {
    terms.whole += bytes.output;
  }
  if (pipeline.last_output_stays && !pipeline.buffers_per_micro_batch) {
    terms.whole += bytes.logits;
    for (Spot* spot : {&terms.spots[0], &terms.spots[1], &terms.spots[3], &terms.first_backward}) {
      spot->activations += bytes.logits;
      spot->total += bytes.logits;
    }
  }
  if (pipeline.last_gradient_stays && content.receives) terms.last_gradient = bytes.input;
  if (pipeline.sends_stay) {
    terms.sent_forward = content.sends ? bytes.output : kNothing;
    terms.sent_input = content.receives ? bytes.input : kNothing;
  }
}

}  // namespace

ChunkTerms chunk_terms(const ChunkBytes& bytes, const StageContent& content,
                       const StateRules& rules, const PipelineRules& pipeline) {
  ChunkTerms terms;
  if (comes_and_goes(rules.sharding.life)) terms.gradients = coming_gradients(rules, bytes.held);
  if (stays_gathered(rules.sharding)) terms.gathered = bytes.gathered;
  const double share = bytes.gradients > kNothing ? terms.gradients / bytes.gradients : 0;
  const SpotFinder finder(bytes, rules, share);
  for (std::size_t i = 0; i < bytes.portions.size(); ++i) {
    const double count = bytes.portions[i].count;
    raise_all(terms, finder, site_at(bytes, i, 0));
    if (count > 1) raise_all(terms, finder, site_at(bytes, i, count - 1));
    // Buffers of neighbours differ inside a run from those at its ends.
    if (count > 2 && finder.by_units()) {
      raise_all(terms, finder, site_at(bytes, i, 1));
      raise_all(terms, finder, site_at(bytes, i, count - 2));
    }
  }
  if (finder.has_root()) {
    raise(terms.spots[3], finder.root_reduced(kNothing));
    raise(terms.first_backward, finder.root_reduced(share * bytes.gradients));
  }
  if (accumulates(rules.sharding.life)) {
    const RealBytes all = bytes.unreduced;
    Spot end;
    end.total = end.gradients = all;
    end.portion = 0;
    end.peak = &Totals::backward;
    raise(terms.spots[3], end);
    raise(terms.first_backward, end);
    if (rules.sharding.life == GradientLife::AccumulatedKept) terms.kept_gradients = all;
  }
  Spot& weight = terms.spots[2];
  weight = {};
  weight.total = weight.activations = bytes.half;  // from its beginning on
  if (bytes.half > terms.spots[1].total) terms.spots[1] = weight;
  if (!rules.offload_activations) {
    terms.whole = bytes.kept;
    terms.half = bytes.half;
  }
  add_pipeline(terms, bytes, content, pipeline);
  return terms;
}

RealBytes transport_bytes(const ChunkBytes& bytes, const PipelineRules& pipeline,
                          std::int64_t microbatches) {
  const RealBytes ends = bytes.input + bytes.output;
  if (pipeline.buffers_per_micro_batch) return ends * static_cast<double>(microbatches);
  return pipeline.overlaps ? ends : kNothing;
}

bool all_whole(const ChunkTerms& terms) {
  const auto whole = [](RealBytes bytes) {
    return bytes >= kNothing && bytes < kExact &&
           static_cast<double>(static_cast<std::int64_t>(bytes.value())) == bytes.value();
  };
  return whole(terms.whole) && whole(terms.half) && whole(terms.sent_forward) &&
         whole(terms.sent_input) && whole(terms.gradients) && whole(terms.kept_gradients) &&
         whole(terms.last_gradient) && whole(terms.gathered) && whole(terms.first_backward.total) &&
         std::all_of(terms.spots.begin(), terms.spots.end(),
                     [&](const Spot& spot) { return whole(spot.total); });
}

namespace {

const Spot& spot_of(const ChunkTerms& terms, ActionKind kind, bool has_gradient) {
  const bool first = kind == ActionKind::Backward && !has_gradient;
  return first ? terms.first_backward : terms.spots[static_cast<std::size_t>(kind)];
}

}  // namespace

const Spot& spot_of(const TermsOfChunks& chunks, const MomentAction& action) {
  const auto chunk = static_cast<std::size_t>(action.chunk);
  return spot_of(*chunks[chunk], action.kind, (action.has_gradient >> chunk & 1U) != 0);
}

RealBytes still_kept(const TermsOfChunks& chunks, std::size_t chunk, const MomentAction& action) {
  const bool made_anew =
      static_cast<std::size_t>(action.chunk) == chunk && action.kind != ActionKind::Forward;
  const bool made = (action.has_gradient >> chunk & 1U) != 0;
  return made && !made_anew ? chunks[chunk]->kept_gradients : kNothing;
}

Highest highest(const TermsOfChunks& chunks, const Moments& moments, double more) {
  Highest best{.bytes = RealBytes(-1)};
  const InFlight* counts = moments.counts.data();
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const MomentAction& action = moments.actions[i];
    const double extra = action.late ? more : 0;
    RealBytes bytes = spot_of(chunks, action).total;
    for (std::size_t c = 0; c < chunks.size(); ++c, ++counts) {
      const ChunkTerms& of = *chunks[c];
      const bool has_gradient = (action.has_gradient >> c & 1U) != 0;
      bytes += counts->whole * of.whole + counts->half * of.half + of.gathered +
               (counts->forwards + extra) * of.sent_forward +
               (counts->inputs + extra) * of.sent_input + still_kept(chunks, c, action);
      if (has_gradient) bytes += of.gradients + of.last_gradient;
    }
    if (bytes > best.bytes) best = {bytes, i};
  }
  return best;
}

RealBytes highest_by_content(const TermsOfChunks& contents, const MomentSums& sums, double more) {
  RealBytes best(-1);
  const SumInFlight* counts = sums.counts.data();
  for (const SummedAction& action : sums.actions) {
    const ChunkTerms& own = *contents[static_cast<std::size_t>(action.content)];
    RealBytes bytes = spot_of(own, action.kind, action.has_gradient).total;
    // The pass makes its own anew.
    if (action.has_gradient && action.kind != ActionKind::Forward) bytes -= own.kept_gradients;
    for (std::size_t c = 0; c < contents.size(); ++c, ++counts) {
      const ChunkTerms& of = *contents[c];
      const auto chunks = static_cast<double>(sums.chunks[c]);
      const double extra = action.late ? more * chunks : 0;
      bytes += counts->whole * of.whole + counts->half * of.half + chunks * of.gathered +
               (counts->forwards + extra) * of.sent_forward +
               (counts->inputs + extra) * of.sent_input +
               counts->with_gradient * (of.kept_gradients + of.gradients + of.last_gradient);
    }
    best = std::max(best, bytes);
  }
  return best;
}

}  // namespace trainwright::detail
