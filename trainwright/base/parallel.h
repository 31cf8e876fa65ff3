#pragma once
// Parallel loops whose result does not depend on the number of threads: every iteration writes to
// its own index, nothing is accumulated in arrival order. Runs on oneTBB.
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainwright {

// How many threads a loop may use; 0 means all cores.
struct Threads {
  int count = 0;
};

namespace detail {
void parallel_for(std::size_t n, Threads threads, const void* body,
                  void (*call)(const void*, std::size_t));
}  // namespace detail

// Calls body(i) once for each i in [0, n), in any order. An exception of a body is rethrown here.
template <class Body>
void parallel_for(std::size_t n, Threads threads, const Body& body) {
  detail::parallel_for(n, threads, &body, [](const void* erased, std::size_t i) {
    (*static_cast<const Body*>(erased))(i);
  });
}

// {function(0), ..., function(n - 1)}, computed in parallel, in order. The value type must be
// default-constructible.
template <class Function>
auto parallel_map(std::size_t n, Threads threads, const Function& function) {
  using Value = std::decay_t<decltype(function(std::size_t{}))>;
  static_assert(!std::is_same_v<Value, bool>,
                "elements of std::vector<bool> share bytes: let the function give an int or enum");
  std::vector<Value> results(n);
  parallel_for(n, threads, [&](std::size_t i) { results[i] = function(i); });
  return results;
}

}  // namespace trainwright
