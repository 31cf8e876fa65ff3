#pragma once
// Private: weights that are cut over ranks, while they are whole, and their gradients, until they
// are cut: FSDP and what is like it. A unit is one list of a chunk. Where nothing is cut, all of
// this makes nothing.
#include "trainwright/memory/heap.h"
#include "trainwright/memory/reserve.h"

namespace trainwright::detail {

class ShardedUnits {
 public:
  ShardedUnits(const ReserveQuestion& question, Heap& heap)
      : question_(question),
        heap_(heap),
        gathered_(question.chunks.size()),
        gradients_(question.chunks.size()),
        roots_(question.chunks.size()) {}

  // The unit's weights and, ahead, its neighbour's: the next one forward, the one before backward.
  void gather(std::size_t chunk, std::size_t own, std::size_t ahead);
  // Unless they stay for the backward pass.
  void ungather_after_forward(std::size_t chunk, std::size_t unit);
  void ungather(std::size_t chunk, std::size_t unit);
  // Gradients as autograd makes them, if they are to be cut; else kNone.
  BlockId make_unsharded(std::size_t chunk, std::size_t unit);
  // Copied for the reduction, when that of the unit after it is done; what it gives are the
  // gradients, or is added to them.
  void reduce(std::size_t chunk, std::size_t unit, BlockId unsharded);
  void end_step();  // of a step that is cut short something is still gathered or on its way
  void drop_gradients();

 private:
  void gather_with_buffer(std::size_t chunk, std::size_t own, std::size_t ahead);
  void gather_root(std::size_t chunk);
  void reduce_root(std::size_t chunk);
  void add_gradients(std::size_t chunk, std::size_t unit);
  // Weights that come and go by the unit: not those of the root.
  RealBytes coming(std::size_t chunk, std::size_t unit) const;
  bool in_root(std::size_t chunk, std::size_t unit) const;
  const PortionBytes& portion(std::size_t chunk, std::size_t unit) const {
    return *question_.chunks[chunk].portions[unit];
  }
  const StateRules& rules() const { return question_.rules.states; }

  const ReserveQuestion& question_;
  Heap& heap_;
  std::vector<Blocks> gathered_, gradients_;  // by chunk and unit
  // FSDP2's unit of embedding and head, by chunk: its weights, and gradients that wait for it.
  struct Root {
    BlockId weights = kNone;
    Blocks unsharded;
  };
  std::vector<Root> roots_;
  BlockId filled_ = kNone;  // FSDP2's flat buffer that waits to be copied out
  BlockId reducing_ = kNone;
};

}  // namespace trainwright::detail
