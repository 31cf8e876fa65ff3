#pragma once
// Strong ids: a rank is not a stage, even though both are small whole numbers.
//
// Graphs are vectors indexed by an id, never pointers. An id is made explicitly and read with
// `.index()`; ids of one kind compare and can be counted up, nothing else.
#include <compare>
#include <cstddef>
#include <cstdint>

namespace trainwright {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t index) : index_(index) {}

  constexpr std::int32_t index() const { return index_; }
  // For use as a subscript.
  constexpr std::size_t at() const { return static_cast<std::size_t>(index_); }

  friend constexpr auto operator<=>(Id, Id) = default;
  constexpr Id& operator++() {
    ++index_;
    return *this;
  }

 private:
  std::int32_t index_ = 0;
};

using RankId = Id<struct RankTag>;              // one accelerator of the job
using StageId = Id<struct StageTag>;            // one contiguous piece of the model's layers
using MicroBatchId = Id<struct MicroBatchTag>;  // one micro-batch of a step

}  // namespace trainwright
