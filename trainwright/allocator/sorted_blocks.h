#pragma once
// Free blocks in order of size: a sorted list cut into short pages, so that a change moves a few
// hundred bytes and asks nobody for memory. Private to the module.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
  Iterator end() const { return {*this, order_.size(), 0}; }
  // A last page stays when it is emptied: it will be wanted again.
  bool empty() const { return order_.empty() || page(0).count == 0; }

  // The first that is not smaller.
  Iterator lower_bound(const FreeBlock& key) const {
    const std::size_t place = place_of(key);
    if (place == order_.size()) return end();
    return {*this, place, entry_of(page(place), key)};
  }

  void insert(const FreeBlock& block) {
    if (order_.empty()) add_page(0);
    std::size_t place = order_.size() == 1 ? 0 : std::min(place_of(block), order_.size() - 1);
    if (page(place).count == kMost) {
      split(place);
      if (largest_[place] < block) ++place;
    }
    Page& into = page(place);
    std::size_t at = into.count++;
    for (; at > 0 && block < into.entries[at - 1]; --at) into.entries[at] = into.entries[at - 1];
    into.entries[at] = block;
    largest_[place] = into.entries[into.count - 1];
  }

  void erase(const FreeBlock& block) { erase(lower_bound(block)); }
  void erase(Iterator at) {
    Page& from = page(at.place_);
    const auto first = from.entries.begin() + signed_of(at.entry_);
    std::move(first + 1, from.entries.begin() + signed_of(from.count), first);
    if (--from.count == 0 && order_.size() > 1) {
      unused_.push_back(order_[at.place_]);
      order_.erase(order_.begin() + signed_of(at.place_));
      largest_.erase(largest_.begin() + signed_of(at.place_));
    } else if (from.count > 0) {
      largest_[at.place_] = from.entries[from.count - 1];
    }
  }

 private:
  static std::ptrdiff_t signed_of(std::size_t value) { return static_cast<std::ptrdiff_t>(value); }
  Page& page(std::size_t place) { return pages_[order_[place]]; }
  const Page& page(std::size_t place) const { return pages_[order_[place]]; }

  static std::size_t entry_of(const Page& page, const FreeBlock& key) {
    constexpr std::size_t kFew = 8;
    std::size_t at = 0;
    if (page.count > kFew) {
      const auto first = page.entries.begin();
      return static_cast<std::size_t>(std::lower_bound(first, first + signed_of(page.count), key) -
                                      first);
    }
    while (at < page.count && page.entries[at] < key) ++at;
    return at;
  }

  // Where in the order is the page whose largest entry is not smaller.
  std::size_t place_of(const FreeBlock& key) const {
    if (largest_.size() == 1) return largest_.front() < key ? 1 : 0;
    const auto found = std::lower_bound(largest_.begin(), largest_.end(), key);
    return static_cast<std::size_t>(found - largest_.begin());
  }

  void add_page(std::size_t place) {
    std::size_t made = pages_.size();
    if (unused_.empty()) {
      pages_.emplace_back();
    } else {
      made = unused_.back();
      unused_.pop_back();
      pages_[made].count = 0;
    }
    order_.insert(order_.begin() + signed_of(place), made);
    largest_.insert(largest_.begin() + signed_of(place), FreeBlock{});
  }

  // The upper half of a full page becomes a page of its own.
  void split(std::size_t place) {
    add_page(place + 1);
    Page& lower = page(place);
    Page& upper = page(place + 1);
    std::copy(lower.entries.begin() + kMost / 2, lower.entries.end(), upper.entries.begin());
    lower.count = upper.count = kMost / 2;
    largest_[place + 1] = largest_[place];
    largest_[place] = lower.entries[lower.count - 1];
  }

  std::vector<Page> pages_;
  std::vector<std::size_t> order_;   // of the pages
  std::vector<FreeBlock> largest_;   // entry of each, in the same order
  std::vector<std::size_t> unused_;  // pages to use again
};

}  // namespace trainwright::detail
