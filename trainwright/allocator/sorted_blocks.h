#pragma once
// Free blocks in order of size: a sorted list cut into short pages, so that a change moves a few
// hundred bytes and asks nobody for memory. Private to the module.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainwright::detail {

// Ordered for best fit: smallest first, lowest address among equals.
struct FreeBlock {
  std::int64_t size = 0;
  std::int64_t address = 0;
  std::int32_t block = -1;

  friend bool operator<(const FreeBlock& a, const FreeBlock& b) {
    // Without branches, which a search for random sizes would mispredict.
    return (a.size < b.size) | ((a.size == b.size) & (a.address < b.address));
  }
};

// Whoever asks for a block knows that there are any.
class SortedBlocks {
  // A page has this many entries at most, and one at least if there are several; 16 and 64 are
  // about as fast.
  static constexpr std::size_t kMost = 32;
  struct Page {
    std::array<FreeBlock, kMost> entries;
    std::size_t count = 0;
  };

 public:
  // Valid until the next change.
  class Iterator {
   public:
    Iterator() = default;
    Iterator(const SortedBlocks& blocks, std::size_t place, std::size_t entry)
        : blocks_(&blocks), place_(place), entry_(entry) {}
    const FreeBlock& operator*() const { return blocks_->page(place_).entries[entry_]; }
    Iterator& operator++() {
      if (++entry_ == blocks_->page(place_).count) {
        ++place_;
        entry_ = 0;
      }
      return *this;
    }
    Iterator& operator--() {
      if (entry_ == 0) entry_ = blocks_->page(--place_).count;
      --entry_;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) {
      return a.place_ == b.place_ && a.entry_ == b.entry_;
    }

   private:
    friend class SortedBlocks;
    const SortedBlocks* blocks_ = nullptr;
    std::size_t place_ = 0, entry_ = 0;
  };

  Iterator begin() const { return {*this, 0, 0}; }
  Iterator end() const { return {*this, pages_.size(), 0}; }
  // A last page stays when it is emptied: it will be wanted again.
  bool empty() const { return pages_.empty() || page(0).count == 0; }

  // The first that is not smaller.
  Iterator lower_bound(const FreeBlock& key) const {
    const std::size_t place = place_of(key);
    if (place == pages_.size()) return end();
    return {*this, place, entry_of(page(place), key)};
  }

  void insert(const FreeBlock& block) {
    if (pages_.empty()) pages_.push_back(std::make_unique<Page>());
    std::size_t place = pages_.size() == 1 ? 0 : std::min(place_of(block), pages_.size() - 1);
    if (page(place).count == kMost) {
      split(place);
      if (largest(place) < block) ++place;
    }
    Page& into = page(place);
    std::size_t at = into.count++;
    for (; at > 0 && block < into.entries[at - 1]; --at) into.entries[at] = into.entries[at - 1];
    into.entries[at] = block;
  }

  void erase(const FreeBlock& block) { erase(lower_bound(block)); }
  void erase(Iterator at) {
    Page& from = page(at.place_);
    --from.count;
    for (std::size_t i = at.entry_; i < from.count; ++i) from.entries[i] = from.entries[i + 1];
    if (from.count == 0 && pages_.size() > 1) {
      pages_.erase(pages_.begin() + static_cast<std::ptrdiff_t>(at.place_));
    }
  }

 private:
  Page& page(std::size_t place) { return *pages_[place]; }
  const Page& page(std::size_t place) const { return *pages_[place]; }
  const FreeBlock& largest(std::size_t place) const {
    return page(place).entries[page(place).count - 1];
  }

  static std::size_t entry_of(const Page& page, const FreeBlock& key) {
    constexpr std::size_t kFew = 8;
    std::size_t at = 0;
    if (page.count > kFew) {
      const auto first = page.entries.begin();
      const auto last = first + static_cast<std::ptrdiff_t>(page.count);
      return static_cast<std::size_t>(std::lower_bound(first, last, key) - first);
    }
    while (at < page.count && page.entries[at] < key) ++at;
    return at;
  }

  // The page whose largest entry is not smaller.
  std::size_t place_of(const FreeBlock& key) const {
    if (pages_.size() == 1) return empty() || largest(0) < key ? 1 : 0;
    const auto found = std::partition_point(
        pages_.begin(), pages_.end(),
        [&](const std::unique_ptr<Page>& of) { return of->entries[of->count - 1] < key; });
    return static_cast<std::size_t>(found - pages_.begin());
  }

  // The upper half of a full page becomes a page of its own.
  void split(std::size_t place) {
    const auto after = pages_.begin() + static_cast<std::ptrdiff_t>(place) + 1;
    pages_.insert(after, std::make_unique<Page>());
    Page& lower = page(place);
    Page& upper = page(place + 1);
    std::copy(lower.entries.begin() + kMost / 2, lower.entries.end(), upper.entries.begin());
    lower.count = upper.count = kMost / 2;
  }

  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace trainwright::detail
