#include "trainwright/memory/passes.h"

#include <algorithm>
#include <utility>

namespace trainwright::detail {
namespace {

BlockId& block_at(Blocks& blocks, std::int32_t storage) {
  return blocks[static_cast<std::size_t>(storage)];
}

}  // namespace

void Passes::run(ActionKind kind, std::size_t chunk, std::int32_t microbatch) {
  switch (kind) {
    case ActionKind::Forward: forward(chunk, flights_[chunk][microbatch]); return;
    case ActionKind::Backward:
      backward(chunk, flights_[chunk][microbatch]);
      flights_[chunk].erase(microbatch);
      return;
    case ActionKind::BackwardInput: {
      Flight& flight = flights_[chunk][microbatch];
      backward(chunk, flight);
      for (const PortionBytes* portion : question_.chunks[chunk].portions) {
        if (portion->half > kNothing) flight.halves.push_back(heap_.make(portion->half));
      }
      return;
    }
    case ActionKind::BackwardWeight:
      heap_.drop(flights_[chunk][microbatch].halves);
      flights_[chunk].erase(microbatch);
      return;
    case ActionKind::SendForward:
    case ActionKind::RecvForward:
    case ActionKind::SendBackward:
    case ActionKind::RecvBackward:
    case ActionKind::Unshard:
    case ActionKind::Reshard:
    case ActionKind::ReduceGrad: return;
  }
}

void Passes::forward(std::size_t chunk, Flight& flight) {
  const ChunkProgram& program = question_.chunks[chunk];
  const PipelineRules& pipeline = question_.rules.pipeline;
  BlockId carried = kNone;  // from list to list
  if (program.bytes->input > kNothing && !pipeline.buffers_per_micro_batch) {
    carried = heap_.make(program.bytes->input);
  }
  flight.lists.resize(program.lists.size());
  for (std::size_t j = 0; j < program.lists.size(); ++j) {
    const StorageEvents& events = *program.lists[j];
    Blocks& blocks = flight.lists[j];
    blocks.assign(static_cast<std::size_t>(events.storages), kNone);
    block_at(blocks, events.input) = carried;
    units_.gather(chunk, j, j + 1);
    play(events.forward, blocks);
    units_.ungather_after_forward(chunk, j);
    carried = std::exchange(block_at(blocks, events.output), kNone);
  }
  if (pipeline.sends_stay && program.content->sends) {
    until_step_end_.push_back(carried);
  } else if (pipeline.outputs_freed_early || program.content->stage.head) {
    heap_.drop(carried);
  } else {
    flight.output = carried;
  }
}

void Passes::backward(std::size_t chunk, Flight& flight) {
  backward_ = true;
  heap_.drop(waiting_);
  const ChunkProgram& program = question_.chunks[chunk];
  const PipelineRules& pipeline = question_.rules.pipeline;
  BlockId carried = kNone;
  if (program.bytes->output > kNothing && !pipeline.buffers_per_micro_batch) {
    carried = heap_.make(program.bytes->output);
  }
  for (std::size_t j = program.lists.size(); j-- > 0;) {
    carried = backward_of_list(chunk, j, flight.lists[j], carried);
  }
  if (pipeline.sends_stay && program.content->receives) {
    until_step_end_.push_back(carried);
  } else if (pipeline.last_gradient_stays && program.content->receives) {
    heap_.drop(sent_);
    sent_ = carried;
  } else {
    heap_.drop(carried);
  }
  heap_.drop(flight.output);
  if (question_.rules.states.sharding.life != GradientLife::AccumulatedKept) heap_.drop(waiting_);
}

// From the gradient of a list's output to that of its input.
BlockId Passes::backward_of_list(std::size_t chunk, std::size_t list, Blocks& blocks,
                                 BlockId gradient) {
  const ChunkProgram& program = question_.chunks[chunk];
  const StorageEvents& events = *program.lists[list];
  if (events.output_gradient >= 0) {
    block_at(blocks, events.output_gradient) = gradient;
  } else {
    heap_.drop(gradient);
  }
  units_.gather(chunk, list, list - 1);
  // The head's gradients come after the loss's.
  const bool late = program.portions[list]->logits;
  BlockId unsharded = late ? kNone : units_.make_unsharded(chunk, list);
  play(events.backward, blocks);
  has_workspace_ = true;
  const BlockId carried = events.input_gradient < 0
                              ? kNone
                              : std::exchange(block_at(blocks, events.input_gradient), kNone);
  make_stand_ins(*program.weights[list]);
  if (late) unsharded = units_.make_unsharded(chunk, list);
  units_.reduce(chunk, list, unsharded);
  units_.ungather(chunk, list);
  for (const std::int32_t storage : events.waiting) {
    waiting_.push_back(std::exchange(block_at(blocks, storage), kNone));
  }
  heap_.drop(blocks);
  return carried;
}

void Passes::play(const std::vector<StorageEvent>& events, Blocks& blocks) {
  int made = 0;
  for (const StorageEvent& event : events) {
    BlockId& block = block_at(blocks, event.storage);
    if (event.made) {
      block = heap_.make(event.bytes);
      make_workspace(++made);
    } else if (event.sent) {
      heap_.drop_sent(block, event.bytes);
    } else {
      heap_.drop(block);
    }
  }
}

// The first product of the backward pass takes its workspace when its result is there, the second
// tensor that the pass makes: wherever the cache has room, for good.
void Passes::make_workspace(int made) {
  if (has_workspace_ || !backward_ || made != 2) return;
  has_workspace_ = true;
  const RealBytes bytes = question_.rules.product_workspace;
  if (bytes > kNothing) heap_.make(bytes);
}

// An empty gradient for each shape that the backward pass meets first.
void Passes::make_stand_ins(const ListWeights& list) {
  for (const MatrixShape& shape : list.stand_ins) {
    if (std::find(stand_ins_.begin(), stand_ins_.end(), shape) != stand_ins_.end()) continue;
    stand_ins_.push_back(shape);
    heap_.make(RealBytes(question_.rules.states.compute * static_cast<double>(shape.in) *
                         static_cast<double>(shape.out)));
  }
}

void Passes::end_step() {
  heap_.wait_for_device();
  for (auto& of_chunk : flights_) {
    for (auto& [microbatch, flight] : of_chunk) {
      for (Blocks& blocks : flight.lists) heap_.drop(blocks);
      heap_.drop(flight.halves);
      heap_.drop(flight.output);
    }
    of_chunk.clear();
  }
  heap_.drop(until_step_end_);
  units_.end_step();
  heap_.drop(sent_);
}

}  // namespace trainwright::detail
