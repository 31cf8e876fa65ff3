#pragma once
// The free blocks of a pool in order of size. Sizes fall into bins, eight for each power of two, so
// that most searches end where they begin. Private to the module.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "trainwright/allocator/sorted_blocks.h"

namespace trainwright::detail {

class FreeBlocks {
 public:
  // Valid until the next change.
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = FreeBlock;
    using difference_type = std::ptrdiff_t;
    using pointer = const FreeBlock*;
    using reference = const FreeBlock&;

    Iterator() = default;
    Iterator(const FreeBlocks& blocks, std::size_t bin, SortedBlocks::Iterator at)
        : blocks_(&blocks), bin_(bin), at_(at) {}
    reference operator*() const { return *at_; }
    pointer operator->() const { return &*at_; }
    Iterator& operator++() {
      if (++at_ == blocks_->bins_[bin_].end()) *this = blocks_->first_from(bin_ + 1);
      return *this;
    }
    Iterator& operator--() {
      if (bin_ == kBins || at_ == blocks_->bins_[bin_].begin()) {
        do --bin_;
        while (!blocks_->has(bin_));
        at_ = blocks_->bins_[bin_].end();
      }
      --at_;
      return *this;
    }
    bool operator==(const Iterator& other) const {
      return bin_ == other.bin_ && (bin_ == kBins || at_ == other.at_);
    }

   private:
    friend class FreeBlocks;
    const FreeBlocks* blocks_ = nullptr;
    std::size_t bin_ = 0;
    SortedBlocks::Iterator at_;
  };

  Iterator begin() const { return first_from(0); }
  Iterator end() const { return {*this, kBins, {}}; }
  auto rend() const { return std::make_reverse_iterator(begin()); }

  // The first that is not smaller.
  Iterator lower_bound(const FreeBlock& key) const {
    const std::size_t bin = bin_of(key.size);
    if (has(bin)) {
      const auto found = bins_[bin].lower_bound(key);
      if (found != bins_[bin].end()) return {*this, bin, found};
    }
    return first_from(bin + 1);
  }

  void insert(const FreeBlock& block) {
    if (bins_.empty()) bins_.resize(kBins);
    const std::size_t bin = bin_of(block.size);
    bins_[bin].insert(block);
    used_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }
  void erase(const FreeBlock& block) {
    const std::size_t bin = bin_of(block.size);
    bins_[bin].erase(block);
    forget_if_empty(bin);
  }
  void erase(Iterator at) {
    bins_[at.bin_].erase(at.at_);
    forget_if_empty(at.bin_);
  }

 private:
  static constexpr std::size_t kBins = std::size_t{61} * 8;  // of sizes below 2^63

  // Sizes below 8 have one each, then the three bits after the first decide.
  static std::size_t bin_of(std::int64_t size) {
    const auto bits = static_cast<std::uint64_t>(size);
    if (bits < 8) return bits;
    const auto log2 = static_cast<std::size_t>(std::bit_width(bits)) - 1;
    return (log2 - 2) * 8 + ((bits >> (log2 - 3)) & 7U);
  }
  bool has(std::size_t bin) const { return (used_[bin / 64] >> (bin % 64) & 1U) != 0; }
  void forget_if_empty(std::size_t bin) {
    if (bins_[bin].empty()) used_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }
  // The smallest block of that bin and those after it.
  Iterator first_from(std::size_t bin) const {
    for (std::size_t word = bin / 64; word < used_.size(); ++word) {
      std::uint64_t left = used_[word];
      if (word == bin / 64) left &= ~std::uint64_t{0} << (bin % 64);
      if (left == 0) continue;
      const std::size_t found = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
      return {*this, found, bins_[found].begin()};
    }
    return end();
  }

  std::vector<SortedBlocks> bins_;                       // none before the first block
  std::array<std::uint64_t, (kBins + 63) / 64> used_{};  // a bit for each bin that has any
};

}  // namespace trainwright::detail
