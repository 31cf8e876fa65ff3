#include "trainwright/base/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace trainwright::detail {

void parallel_for(std::size_t n, Threads threads, const void* body,
                  void (*call)(const void*, std::size_t)) {
  if (threads.count == 1 || n < 2) {
    for (std::size_t i = 0; i < n; ++i) call(body, i);
    return;
  }
  tbb::task_arena arena(threads.count > 0 ? threads.count : tbb::task_arena::automatic);
  arena.execute(
      [&] { tbb::parallel_for(std::size_t{0}, n, [&](std::size_t i) { call(body, i); }); });
}

}  // namespace trainwright::detail
