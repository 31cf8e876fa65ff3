#pragma once
// A hash of a few whole numbers, for keys of caches: each is mixed in as Murmur3's finaliser does.
// A hash of text, to tell files apart that nobody has forged: FNV-1a in 64 bits.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainwright {

class Hash {
 public:
  void add(std::int64_t value) {
    hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdU;
    hash_ ^= hash_ >> 32U;
  }
  std::size_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x9e3779b97f4a7c15U;
};

inline constexpr std::uint64_t kHashOfNothing = 0xcbf29ce484222325U;
// Of what `before` is the hash of, with this text behind it.
constexpr std::uint64_t hash_of_text(std::string_view text, std::uint64_t before = kHashOfNothing) {
  for (const char byte : text)
    before = (before ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return before;
}

// Of a key that is nothing but numbers.
struct NumbersHash {
  template <std::size_t N>
  std::size_t operator()(const std::array<std::int64_t, N>& numbers) const {
    Hash hash;
    for (const std::int64_t number : numbers) hash.add(number);
    return hash.value();
  }
};

}  // namespace trainwright
