#pragma once
// Quantities that know their unit.
//
// A Quantity is a number with a tag; adding bytes to seconds does not compile, and the only
// products and quotients that exist are the ones that mean something:
//
//   Bytes / BytesPerSecond -> Seconds      Flops / FlopsPerSecond -> Seconds
//   BytesPerSecond * Seconds -> Bytes      FlopsPerSecond * Seconds -> Flops
//   Bytes / Seconds -> BytesPerSecond      Flops / Seconds -> FlopsPerSecond
//   quantity / quantity of the same kind -> a plain number
//
// Bytes, Tokens and Params are 64-bit integers with checked arithmetic: an overflow is a bug and
// throws InternalError, it never wraps. (10^13 parameters x 20 bytes = 2 x 10^14 uses 48 bits.)
// Averages and spreads of bytes are RealBytes: exact up to 2^53, and they cannot overflow.
// Flops are doubles: one micro-batch of a million tokens through 10^13 parameters is 2 x 10^19
// FLOPs, more than 63 bits hold, while every whole number up to 2^53 is still exact.
//
// Bits never appear: link speeds are bytes per second.
#include <compare>
#include <cstdint>

namespace trainwright {

[[noreturn]] void arithmetic_overflow();  // throws InternalError

// Integer arithmetic that throws InternalError instead of wrapping.
constexpr std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) arithmetic_overflow();
  return sum;
}
constexpr std::int64_t checked_sub(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) arithmetic_overflow();
  return difference;
}
constexpr std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) arithmetic_overflow();
  return product;
}
// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }
// A count as a factor; exact up to 2^53.
constexpr double real(std::int64_t count) { return static_cast<double>(count); }

namespace detail {
constexpr std::int64_t add(std::int64_t a, std::int64_t b) { return checked_add(a, b); }
constexpr std::int64_t sub(std::int64_t a, std::int64_t b) { return checked_sub(a, b); }
constexpr std::int64_t mul(std::int64_t a, std::int64_t b) { return checked_mul(a, b); }
constexpr double add(double a, double b) { return a + b; }
constexpr double sub(double a, double b) { return a - b; }
constexpr double mul(double a, double b) { return a * b; }
}  // namespace detail

template <class Tag, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}

  // The bare number; only base, JSON and formatting should need it.
  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(detail::add(a.value_, b.value_));
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(detail::sub(a.value_, b.value_));
  }
  friend constexpr Quantity operator*(Quantity a, Rep factor) {
    return Quantity(detail::mul(a.value_, factor));
  }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return a * factor; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) {
    return Quantity(a.value_ / divisor);
  }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using RealBytes = Quantity<struct BytesTag, double>;  // averages, shares and spreads of bytes
using Tokens = Quantity<struct TokensTag, std::int64_t>;
using Params = Quantity<struct ParamsTag, std::int64_t>;  // a count of trained numbers
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(static_cast<double>(size.value()) / rate.value());
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.value() / rate.value());
}
constexpr BytesPerSecond operator/(Bytes size, Seconds time) {
  return BytesPerSecond(static_cast<double>(size.value()) / time.value());
}
constexpr FlopsPerSecond operator/(Flops work, Seconds time) {
  return FlopsPerSecond(work.value() / time.value());
}
constexpr Flops operator*(FlopsPerSecond rate, Seconds time) {
  return Flops(rate.value() * time.value());
}
// Rounds down to a whole byte.
constexpr Bytes operator*(BytesPerSecond rate, Seconds time) {
  return Bytes(static_cast<std::int64_t>(rate.value() * time.value()));
}

constexpr RealBytes real(Bytes size) { return RealBytes(static_cast<double>(size.value())); }
// The nearest whole byte; beyond 2^60, which no device has, 2^60.
Bytes rounded(RealBytes size);

namespace literals {
using ull = unsigned long long;  // the type the language prescribes for integer literals
constexpr Bytes operator""_B(ull n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(ull n) { return Bytes(static_cast<std::int64_t>(n)) * (1 << 10); }
constexpr Bytes operator""_MiB(ull n) { return Bytes(static_cast<std::int64_t>(n)) * (1 << 20); }
constexpr Bytes operator""_GiB(ull n) { return Bytes(static_cast<std::int64_t>(n)) * (1 << 30); }
constexpr Bytes operator""_GB(ull n) { return Bytes(static_cast<std::int64_t>(n)) * 1'000'000'000; }
constexpr BytesPerSecond operator""_GBps(ull n) {
  return BytesPerSecond(static_cast<double>(n) * 1e9);
}
constexpr FlopsPerSecond operator""_TFLOPS(ull n) {
  return FlopsPerSecond(static_cast<double>(n) * 1e12);
}
constexpr Seconds operator""_s(ull n) { return Seconds(static_cast<double>(n)); }
constexpr Seconds operator""_ms(ull n) { return Seconds(static_cast<double>(n) * 1e-3); }
constexpr Seconds operator""_us(ull n) { return Seconds(static_cast<double>(n) * 1e-6); }
}  // namespace literals

}  // namespace trainwright
