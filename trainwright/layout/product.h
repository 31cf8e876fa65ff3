#pragma once
// Private: products of degrees that are only compared.
#include <cstdint>

namespace trainwright::detail {

// The largest number where it would overflow.
constexpr std::int64_t product_or_most(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace trainwright::detail
