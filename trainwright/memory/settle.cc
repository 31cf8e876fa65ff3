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

}  // namespace

Outside outside_of(const OutsideBytes& bytes) {
  return {bytes.context, sum_of(bytes.communicators, false), sum_of(bytes.communicators, true)};
}

KnownBy known_by(const Trainer& trainer) {
  return {rests_on_assumptions(trainer), records_streams(trainer.libraries)};
}

Settled settle(Bytes allocated, const SlackBytes& slack, const Outside& outside,
               bool shares_embedding, const KnownBy& known, const MemoryConstants& constants) {
  const BytesRange& communicators =
      shares_embedding ? outside.with_embedding : outside.communicators;
  Settled of;
  of.context = rounded(placed(outside.context, constants.outside));
  of.communicators = rounded(placed(communicators, constants.outside));
  const RealBytes tensors =
      (known.assumed ? constants.spread_assumed : constants.spread_read) * real(allocated);
  const double replay = known.late ? constants.spread_late : constants.spread_reserved;
  const RealBytes reserved = hypot(tensors, replay * (real(allocated) + slack.usual));
  const RealBytes late = std::max(RealBytes(), slack.most - slack.usual) / kEnd;
  const BytesRange beside = outside.context + communicators;
  const RealBytes figure = placed(beside, constants.outside);
  const auto end = [&](RealBytes at) { return RealBytes(std::abs((at - figure).value()) / kEnd); };
  of.spreads = {Spread{tensors, tensors}, Spread{reserved, hypot(reserved, late)},
                Spread{hypot(reserved, end(beside.low)), hypot(reserved, late, end(beside.high))}};
  return of;
}

}  // namespace detail

namespace {

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

MemoryEstimate settled(MemoryEstimate estimate, const MemoryConstants& constants) {
  const detail::Outside outside = detail::outside_of(estimate.outside);
  const detail::KnownBy known{estimate.assumed, estimate.late};
  estimate.oom = 0;
  estimate.worst = 0;
  for (std::size_t i = 0; i < estimate.classes.size(); ++i) {
    RankClass& of = estimate.classes[i];
    sum_up(of);
    const detail::SlackBytes slack{real(at(of, Category::AllocatorSlack)), real(of.slack_most), {}};
    const detail::Settled beside =
        detail::settle(of.allocated, slack, outside, of.shares_embedding, known, constants);
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
