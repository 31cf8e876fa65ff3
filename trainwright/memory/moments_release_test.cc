#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "trainwright/base/random.h"
#include "trainwright/memory/moments.h"

// Moments are counted here again from the lists, one action at a time, without corners and lines.

namespace trainwright {
namespace {

using detail::InFlight;
using detail::MomentKey;
using detail::Moments;

// Some prices of the counts that are not alike for any two chunks.
std::int64_t price(std::span<const InFlight> counts, std::int64_t seed) {
  std::int64_t sum = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const auto k = static_cast<std::int64_t>(c);
    sum += counts[c].whole * (97 + seed * (k + 1) % 31) + counts[c].half * (41 + seed * k % 53);
  }
  return sum;
}

std::int64_t highest(const Moments& moments, ActionKind kind, std::int32_t chunk,
                     std::int64_t seed) {
  std::int64_t most = -1;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    if (moments.actions[i].kind != kind || moments.actions[i].chunk != chunk) continue;
    most = std::max(most, price(moments.at(i), seed));
  }
  return most;
}

// The highest price over every action of that kind and chunk, straight from the list.
std::int64_t highest_in(const Schedule& schedule, std::size_t rank, ActionKind kind,
                        std::int32_t chunk, std::int64_t seed) {
  std::vector<std::int32_t> chunk_of(schedule.placement.rank_of.size());
  std::int32_t chunks = 0;
  for (std::size_t s = 0; s < chunk_of.size(); ++s) {
    if (schedule.placement.rank_of[s].at() == rank) chunk_of[s] = chunks++;
  }
  std::vector<InFlight> live(static_cast<std::size_t>(chunks));
  std::int64_t most = -1;
  for (const Action& action : schedule.ranks[rank]) {
    const std::int32_t own = chunk_of[action.stage];
    InFlight& of = live[static_cast<std::size_t>(own)];
    if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardInput) --of.whole;
    if (action.kind == ActionKind::BackwardWeight) --of.half;
    if (action.kind == kind && own == chunk) most = std::max(most, price(live, seed));
    if (action.kind == ActionKind::Forward) ++of.whole;
    if (action.kind == ActionKind::BackwardInput) ++of.half;
  }
  return most;
}

constexpr ActionKind kAll[] = {ActionKind::Forward, ActionKind::BackwardInput,
                               ActionKind::BackwardWeight, ActionKind::Backward};

std::int64_t most_in_flight(const Moments& moments) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    std::int64_t sum = 1;  // the action's own micro-batch
    for (const InFlight& chunk : moments.at(i)) sum += chunk.whole;
    most = std::max(most, sum);
  }
  return most;
}

TEST_CASE("1F1B keeps p - r micro-batches on rank r, or all there are") {
  for (const std::int64_t m : {1, 3, 4, 8, 1000000}) {
    const auto moments = detail::moments_of(
        MomentKey{.kind = ScheduleKind::OneFOneB, .ranks = 4, .microbatches = m});
    REQUIRE(moments);
    for (std::int64_t r = 0; r < 4; ++r) {
      CHECK(most_in_flight((*moments)[static_cast<std::size_t>(r)]) == std::min(m, 4 - r));
    }
  }
}

TEST_CASE("micro-batches that come earlier are in flight on every rank, if there are so many") {
  for (const std::int64_t m : {4, 5, 40, 1000000}) {
    const auto moments = detail::moments_of(
        MomentKey{.kind = ScheduleKind::OneFOneB, .ranks = 4, .microbatches = m, .ahead = 2});
    REQUIRE(moments);
    for (std::int64_t r = 0; r < 4; ++r) {
      CHECK(most_in_flight((*moments)[static_cast<std::size_t>(r)]) == std::min(m, 4 - r + 2));
    }
  }
}

TEST_CASE("interleaved 1F1B keeps min(m v, 2(p - r - 1) + (v - 1) p + 1) chunks on rank r") {
  // megatron-core 0.16.1 schedules.py: warm-up and one more.
  for (const auto& [p, v, m] : {std::tuple{4, 2, 8}, {4, 3, 4}, {8, 4, 64}, {2, 8, 6}}) {
    const auto moments = detail::moments_of(MomentKey{
        .kind = ScheduleKind::InterleavedOneFOneB, .ranks = p, .chunks = v, .microbatches = m});
    REQUIRE(moments);
    for (std::int32_t r = 0; r < p; ++r) {
      const std::int64_t expected = std::min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1);
      CHECK(most_in_flight((*moments)[static_cast<std::size_t>(r)]) == expected);
    }
  }
}

TEST_CASE("the corners hold the highest moment of every kind of schedule, whatever the prices") {
  for (const KindFacts& facts : kinds()) {
    for (const int p : {1, 2, 3, 4}) {
      for (const int m : {1, 2, 4, 7, 12}) {
        const int v = std::clamp(3, facts.chunks_least, facts.chunks_most);
        const auto schedule = make(facts.kind, {p, m, v});
        if (!schedule) continue;
        const auto moments = detail::moments_of(*schedule, false);
        for (std::size_t r = 0; r < moments.size(); ++r) {
          for (const ActionKind kind : kAll) {
            for (std::int32_t c = 0; c < v; ++c) {
              for (const std::int64_t seed : {1, 7, 19}) {
                REQUIRE(highest(moments[r], kind, c, seed) ==
                        highest_in(*schedule, r, kind, c, seed));
              }
            }
          }
        }
      }
    }
  }
}

// The highest price of the moments of a kind and chunk in which the weights of `gradients` have
// gradients, with `more` micro-batches than were walked.
std::int64_t highest_price(const Moments& moments, ActionKind kind, std::int32_t chunk,
                           std::uint64_t gradients, std::int32_t more, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::array<std::int64_t, 4>> prices(static_cast<std::size_t>(moments.chunks));
  for (auto& of_chunk : prices) {
    for (auto& one : of_chunk) one = random.integer(0, 1000);
  }
  std::int64_t most = -1;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const auto& action = moments.actions[i];
    if (action.kind != kind || action.chunk != chunk) continue;
    if ((action.has_gradient & gradients) != gradients) continue;
    const std::int64_t extra = action.late ? more : 0;
    std::int64_t sum = 0;
    for (std::size_t c = 0; c < prices.size(); ++c) {
      const InFlight& of = moments.at(i)[c];
      sum += of.whole * prices[c][0] + of.half * prices[c][1] +
             (of.forwards + extra) * prices[c][2] + (of.inputs + extra) * prices[c][3];
    }
    most = std::max(most, sum);
  }
  return most;
}

bool price_alike(const Moments& few, const Moments& all, std::int32_t more) {
  for (const ActionKind kind : kAll) {
    for (std::int32_t c = 0; c < few.chunks; ++c) {
      for (std::uint64_t gradients = 0; gradients < 1U << few.chunks; ++gradients) {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          if (highest_price(few, kind, c, gradients, more, seed) !=
              highest_price(all, kind, c, gradients, 0, seed)) {
            return false;
          }
        }
      }
    }
  }
  return true;
}

TEST_CASE("more micro-batches than enough change no moment of any kind") {
  for (const KindFacts& facts : kinds()) {
    for (const int p : {1, 2, 3, 5, 8}) {
      for (const int v : {1, 2, 3}) {
        if (v < facts.chunks_least || v > facts.chunks_most) continue;
        for (const int more : {1, 2, 5, p, 3 * p, 10 * p + 1}) {
          for (const bool sends_stay : {false, true}) {
            MomentKey key{.kind = facts.kind,
                          .ranks = p,
                          .chunks = v,
                          .microbatches = 7 * p + 2 + more,
                          .sends_stay = sends_stay};
            const std::int64_t enough = detail::enough_microbatches(key);
            CAPTURE(facts.name);
            CAPTURE(key.microbatches);
            CAPTURE(enough);
            CAPTURE(p);
            CAPTURE(v);
            // Without sends that stay the counts of what is done are 0 and must remain so.
            const auto more_than =
                static_cast<std::int32_t>(sends_stay ? key.microbatches - enough : 0);
            const auto few = detail::moments_of(key);
            const auto schedule = make(facts.kind, {p, static_cast<int>(key.microbatches), v});
            REQUIRE(few);
            REQUIRE(schedule);
            const auto all = detail::moments_of(*schedule, sends_stay);
            for (std::size_t r = 0; r < all.size(); ++r) {
              REQUIRE(price_alike((*few)[r], all[r], more_than));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("1,024 ranks of 8 chunks and 8,192 micro-batches have few moments") {
  const auto moments = detail::moments_of(MomentKey{
      .kind = ScheduleKind::InterleavedOneFOneB, .ranks = 1024, .chunks = 8, .microbatches = 8192});
  REQUIRE(moments);
  CHECK(most_in_flight((*moments)[0]) == 2 * 1023 + 7 * 1024 + 1);
  for (const Moments& of_rank : *moments) CHECK(of_rank.size() <= 300);
}

}  // namespace
}  // namespace trainwright
