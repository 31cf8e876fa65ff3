#pragma once
// Numbers in 4 bits: half a byte each, and a scale for each block of them.
//   nvfp4  a scale in 8 bits for 16 numbers              (Transformer Engine, recipe
//   NVFP4BlockScaling) mxfp4  a scale in 8 bits for 32 numbers              (OCP Microscaling
//   Formats 1.0, section 5.2) nf4    one in 8 bits for 64 and, for 256 of these, one of fp32
//   (QLoRA, arXiv:2305.14314)
// Scales and tables of whole tensors are counted by who stores them.
#include <cstdint>

#include "trainwright/base/units.h"

namespace trainwright {

enum class FourBits : std::uint8_t { Nvfp4, Mxfp4, Nf4 };

constexpr Bytes half_bytes(std::int64_t numbers) { return Bytes(ceil_div(numbers, 2)); }
constexpr Bytes scale_bytes(FourBits format, std::int64_t numbers) {
  switch (format) {
    case FourBits::Nvfp4: return Bytes(ceil_div(numbers, 16));
    case FourBits::Mxfp4: return Bytes(ceil_div(numbers, 32));
    case FourBits::Nf4: break;
  }
  const std::int64_t scales = ceil_div(numbers, 64);
  return Bytes(scales + 4 * ceil_div(scales, 256));
}
constexpr Bytes bytes_of(FourBits format, std::int64_t numbers) {
  return half_bytes(numbers) + scale_bytes(format, numbers);
}

}  // namespace trainwright
