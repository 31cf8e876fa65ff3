// base/parallel.cc without oneTBB, which has no static library: threads for every outermost loop.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "trainwright/base/parallel.h"

namespace trainwright::detail {
namespace {

// A loop inside a body of another has no cores left to use.
thread_local bool inside_loop = false;

struct Loop {
  std::size_t n;
  const void* body;
  void (*call)(const void*, std::size_t);
  std::atomic<std::size_t> next = 0;
  std::mutex guard = {};
  std::exception_ptr fault = nullptr;  // the first

  void work() {
    inside_loop = true;
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        call(body, i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!fault) fault = std::current_exception();
        next = n;
      }
    }
    inside_loop = false;
  }
};

}  // namespace

void parallel_for(std::size_t n, Threads threads, const void* body,
                  void (*call)(const void*, std::size_t)) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t most = threads.count > 0 ? static_cast<std::size_t>(threads.count) : cores;
  if (inside_loop || std::min(n, most) < 2) {
    for (std::size_t i = 0; i < n; ++i) call(body, i);
    return;
  }
  Loop loop{n, body, call};
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(n, most); ++i) others.emplace_back([&] { loop.work(); });
    loop.work();
  }
  if (loop.fault) std::rethrow_exception(loop.fault);
}

}  // namespace trainwright::detail
