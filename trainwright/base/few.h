#pragma once
// Short lists.
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "trainwright/base/check.h"

namespace trainwright {

// A short list without allocation. Longer than N is our bug.
template <class T, std::size_t N>
class Few {
 public:
  Few() = default;
  Few(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  void push_back(T value) {
    TW_CHECK(size_ < N, "more than a short list holds");
    items_[size_++] = value;
  }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  friend bool operator==(const Few& a, const Few& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, N> items_{};
  std::uint8_t size_ = 0;
};

}  // namespace trainwright
