#pragma once
// Short lists.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace trainwright {

// A list that allocates only beyond N items, which are few.
template <class T, std::size_t N>
class Few {
 public:
  Few() = default;
  Few(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  void push_back(T value) {
    if (more_.empty() && size_ < N) {
      items_[size_++] = value;
      return;
    }
    if (more_.empty()) more_.assign(items_.begin(), items_.end());
    more_.push_back(value);
  }
  const T* begin() const { return more_.empty() ? items_.data() : more_.data(); }
  const T* end() const { return begin() + size(); }
  std::size_t size() const { return more_.empty() ? size_ : more_.size(); }
  bool empty() const { return size() == 0; }
  const T& operator[](std::size_t i) const { return begin()[i]; }
  friend bool operator==(const Few& a, const Few& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, N> items_{};
  std::uint8_t size_ = 0;
  std::vector<T> more_;  // all of them, once they are more than N
};

}  // namespace trainwright
