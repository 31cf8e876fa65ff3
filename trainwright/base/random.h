#pragma once
// A small seeded random generator, passed in and never global, whose numbers are the same on every
// machine (the distributions of <random> are not). The algorithm is SplitMix64 (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#include <cstdint>

namespace trainwright {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

  // 64 uniform bits.
  constexpr std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Uniform in [low, high], both included; low <= high. The bias is below 2^-32 for ranges under
  // 2^32.
  constexpr std::int64_t integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t range =
        static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    if (range == 0) return static_cast<std::int64_t>(bits());  // the whole 64-bit range
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + bits() % range);
  }

  // Uniform in [0, 1), with 53 random bits.
  constexpr double real() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

  // A generator with a stream of its own, for one item of a parallel loop.
  constexpr Random split(std::uint64_t index) const {
    Random mixed(state_ ^ (index * 0xd1342543de82ef95ULL + 0x632be59bd9b4e019ULL));
    return Random(mixed.bits());
  }

 private:
  std::uint64_t state_;
};

}  // namespace trainwright
