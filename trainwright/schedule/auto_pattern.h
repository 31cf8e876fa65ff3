#pragma once
// Building blocks: schedules in which every micro-batch does the same, one period later.
//
// "Pipeline Parallelism with Controllable Memory" (Qi et al. 2024) builds V-Min, V-Half and ZB-V
// from a block of one micro-batch repeated every 3 x chunks slots; the peak memory is the sum of
// lifetimes over the period. Here a block is made by modulo scheduling: F runs down the stages and
// I back up, `step[q]` slots from rank to rank in pass q (one pass per chunk and direction),
// `gap[q]` more slots between pass q and the next; a slot that is taken modulo the period moves a
// node to the next free one, and W goes to the slots left over. Slots are of one length: only the
// order is used, real durations come with the clock.
#include <cstdint>
#include <vector>

#include "trainwright/schedule/auto_problem.h"

namespace trainwright::detail {

// Which of the slots left over go to which W. Early: to the W of the first I first. Turned: to that
// of the last I first. Late: as Early, then whole periods later while the cap allows it, which
// moves work from the start, where ranks wait for F, to the end, where they wait for I (ZB-H1 does
// so).
enum class BlockWeights : std::uint8_t { Early, Turned, Late };

struct BlockShape {
  std::vector<int> step;  // 2 x chunks, each >= 1
  std::vector<int> gap;   // 2 x chunks - 1, each >= 0
  BlockWeights weights = BlockWeights::Early;
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// By kind: the slot in which the first micro-batch runs it. Needs the same number of stages on
// every rank.
std::vector<int> make_block(const PipelineProblem& problem, const BlockShape& shape);
// Whether the block, repeated for ever, stays under every rank's cap.
bool block_fits(const PipelineProblem& problem, const std::vector<int>& block);
PipelineOrder repeat_block(const PipelineProblem& problem, const std::vector<int>& block);

// Shapes worth trying, the most promising first; `index` counts from 0 and never ends. Small ones
// are the blocks of the paper, the rest steps and gaps in a fixed scrambled order.
BlockShape block_shape(int chunks, std::int64_t index);

}  // namespace trainwright::detail
