#pragma once
// Batches and numbers of accelerators near those asked for that divide better. Part of the public
// face; include trainwright/search/search.h.
//
// dp divides the batch, and with tp, pp and cp the accelerators; tp and cp are powers of two nearly
// always. So an odd factor of the accelerators that the batch lacks (7 of 56, 125 of 1,000) has to
// be split off by pp, evenly or not, or nothing divides at all.
#include <cstdint>
#include <vector>

#include "trainwright/search/sizes.h"

namespace trainwright {

// What is left of a number above 0 without its factors of two.
std::int64_t odd_part(std::int64_t number);
bool splits_badly(std::int64_t gbs, std::int64_t accelerators);

// What dp x mbs has to divide: the batch, and all of its ramp.
std::int64_t shared_batch(const SearchQuestion& question);
// What forbids a layout, with the batch or with a smaller one of its ramp.
std::vector<LayoutViolation> violations(const SearchQuestion& question, const Layout& layout);

// The fastest layout of another batch, or on another number of accelerators.
struct Nearby {
  std::int64_t gbs = 0;
  Sized sized;
};
double tokens_per_second(const StepTime& time);
// At most one smaller and one larger batch, within a quarter: of multiples of the accelerators, of
// their half, quarter and eighth that with most tokens a second. Up to 6 searches.
Result<std::vector<Nearby>> nearby_batches(const SearchQuestion& question);
// At most one smaller number, whose others are spares, with most tokens a second, and the next
// larger whose odd part divides the batch. Whole nodes; up to 3 searches.
Result<std::vector<Nearby>> nearby_sizes(const SearchQuestion& question,
                                         const ClusterOf& cluster_of);

}  // namespace trainwright
