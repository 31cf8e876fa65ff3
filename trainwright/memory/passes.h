#pragma once
// Private: forward and backward passes of micro-batches through the chunks of a rank, tensor by
// tensor.
#include <cstdint>
#include <map>
#include <vector>

#include "trainwright/memory/heap.h"
#include "trainwright/memory/reserve.h"
#include "trainwright/memory/sharded_units.h"

namespace trainwright::detail {

class Passes {
 public:
  Passes(const ReserveQuestion& question, Heap& heap)
      : question_(question),
        heap_(heap),
        units_(question, heap),
        flights_(question.chunks.size()) {}

  void run(ActionKind kind, std::size_t chunk, std::int32_t microbatch);
  void end_step();  // what is still in flight when a step is cut short goes in order
  void drop_gradients() { units_.drop_gradients(); }

 private:
  // A micro-batch in flight on a chunk.
  struct Flight {
    std::vector<Blocks> lists;  // by list and storage
    BlockId output = kNone;
    Blocks halves;  // what W needs after I
  };
  void forward(std::size_t chunk, Flight& flight);
  void backward(std::size_t chunk, Flight& flight);
  BlockId backward_of_list(std::size_t chunk, std::size_t list, Blocks& blocks, BlockId gradient);
  void play(const std::vector<StorageEvent>& events, Blocks& blocks);
  void make_workspace(int made);
  void make_stand_ins(const ListWeights& list);

  const ReserveQuestion& question_;
  Heap& heap_;
  ShardedUnits units_;
  std::vector<std::map<std::int32_t, Flight>> flights_;  // by chunk and micro-batch
  Blocks until_step_end_;
  Blocks waiting_;              // autograd's gradients of the backward pass that runs, or ran last
  BlockId sent_ = kNone;        // the input gradient that was sent last
  bool backward_ = false;       // a backward pass has begun
  bool has_workspace_ = false;  // of the backward pass's products
  std::vector<MatrixShape> stand_ins_;
};

}  // namespace trainwright::detail
