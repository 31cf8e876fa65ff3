#include "trainwright/memory/settle.h"

#include <algorithm>
#include <cmath>

namespace trainwright {
namespace detail {
namespace {

// A normal law has 5 % beyond so many standard deviations: the ends of a range.
constexpr double kEnd = 1.645;

// The figure of a range: its central value at 0, its ends at -1 and 1.
RealBytes placed(const BytesRange& range, double place) {
  const RealBytes end = place < 0 ? range.low : range.high;
  return range.central + (end - range.central) * std::abs(place);
}

RealBytes hypot(RealBytes a, RealBytes b) { return RealBytes(std::hypot(a.value(), b.value())); }
RealBytes hypot(RealBytes a, RealBytes b, RealBytes c) {
  return RealBytes(std::hypot(a.value(), b.value(), c.value()));
}

double doubt_of(Ground::Doubt doubt, const MemoryConstants& constants) {
  switch (doubt) {
    case Ground::Doubt::None: return 0;
    case Ground::Doubt::Unscored: return constants.doubt_unscored;
    case Ground::Doubt::Adapters: return constants.doubt_adapters;
  }
  return 0;
}

}  // namespace

Outside outside_of(const OutsideBytes& bytes) {
  return {bytes.context, sum_of(bytes.communicators, false), sum_of(bytes.communicators, true)};
}

Settled settle(const AllocatedBytes& allocated, const SlackBytes& slack, const Outside& outside,
               bool shares_embedding, const Ground& ground, const MemoryConstants& constants) {
  const BytesRange& communicators =
      shares_embedding ? outside.with_embedding : outside.communicators;
  Settled of;
  of.context = rounded(placed(outside.context, constants.outside));
  of.communicators = rounded(placed(communicators, constants.outside));
  const bool guessed = ground.assumed || ground.doubt != Ground::Doubt::None;
  const RealBytes tensors =
      (guessed ? constants.spread_assumed : constants.spread_read) * real(allocated.all);
  const RealBytes doubt =
      doubt_of(ground.doubt, constants) * real(allocated.all - allocated.states);
  const double replay = ground.late ? constants.spread_late : constants.spread_reserved;
  const RealBytes replayed = replay * (real(allocated.all) + slack.usual);
  const RealBytes late = std::max(RealBytes(), slack.most - slack.usual) / kEnd;
  const BytesRange beside = outside.context + communicators;
  const RealBytes figure = placed(beside, constants.outside);
  const auto end = [&](RealBytes at) { return RealBytes(std::abs((at - figure).value()) / kEnd); };
  const Spread of_tensors{hypot(tensors, doubt / 2), hypot(tensors, doubt)};
  const Spread of_reserved{hypot(of_tensors.below, replayed),
                           hypot(of_tensors.above, replayed, late)};
  of.spreads = {of_tensors, of_reserved,
                Spread{hypot(of_reserved.below, end(beside.low)),
                       hypot(of_reserved.above, end(beside.high))}};
  return of;
}

}  // namespace detail

namespace {

Bytes states_of(const RankClass& of) {
  Bytes states = Bytes(0);
  for (std::size_t i = 0; i < kCategories; ++i) {
    if (detail::is_state(static_cast<Category>(i))) states += of.bytes[i];
  }
  return states;
}

void sum_up(RankClass& of) {
  of.allocated = of.reserved = of.driver = Bytes(0);
  for (std::size_t i = 0; i < kCategories; ++i) {
    of.driver += of.bytes[i];
    if (static_cast<Category>(i) <= Category::AllocatorSlack) of.reserved += of.bytes[i];
    if (is_allocated(static_cast<Category>(i))) of.allocated += of.bytes[i];
  }
}

Bytes& at(RankClass& of, Category category) { return of.bytes[static_cast<std::size_t>(category)]; }

}  // namespace

Ground ground_of(const Trainer& trainer, const Job& job, const MemoryConstants& constants) {
  const bool scored = std::find(constants.scored.begin(), constants.scored.end(), trainer.stack) !=
                      constants.scored.end();
  return {rests_on_assumptions(trainer), records_streams(trainer.libraries),
          job.lora ? Ground::Doubt::Adapters
                   : (scored ? Ground::Doubt::None : Ground::Doubt::Unscored)};
}

MemoryEstimate settled(MemoryEstimate estimate, const MemoryConstants& constants) {
  const detail::Outside outside = detail::outside_of(estimate.outside);
  estimate.oom = 0;
  estimate.worst = 0;
  for (std::size_t i = 0; i < estimate.classes.size(); ++i) {
    RankClass& of = estimate.classes[i];
    sum_up(of);
    const detail::SlackBytes slack{real(at(of, Category::AllocatorSlack)), real(of.slack_most), {}};
    const detail::Settled beside = detail::settle({of.allocated, states_of(of)}, slack, outside,
                                                  of.shares_embedding, estimate.ground, constants);
    at(of, Category::Context) = beside.context;
    at(of, Category::Communicators) = beside.communicators;
    of.spreads = beside.spreads;
    sum_up(of);
    const double oom = chance_above(estimate.capacity, of.driver, spread_of(of, Counter::Driver));
    estimate.oom = std::max(estimate.oom, oom);
    if (of.driver > estimate.classes[estimate.worst].driver) estimate.worst = i;
  }
  const RankClass& worst = estimate.classes[estimate.worst];
  const Spread& spread = spread_of(worst, Counter::Driver);
  estimate.low = exceeded_with(0.95, worst.driver, spread);
  estimate.high = exceeded_with(0.05, worst.driver, spread);
  return estimate;
}

}  // namespace trainwright
