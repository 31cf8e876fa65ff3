#pragma once
// The compact form of a pipeline that the automatic scheduler searches on.
//
// Micro-batches are identical, so running each kind of work (F, I or W of one stage) in micro-batch
// order loses nothing: whatever order two of them are run in, exchanging their names changes no
// time and no memory. A schedule is then one string of kinds per rank, "run the next micro-batch of
// this kind", and the whole state of a partial schedule is one counter per kind.
//
// A node is (kind, micro-batch), numbered kind * micro_batches + micro_batch. Node (k, j) waits for
// (k', j) of at most two other kinds k', plus a delay when they lie on different ranks. Memory is
// taken when a node starts and given back when it ends; the peak of a rank depends on its string
// alone, so a cap is checked without a clock.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trainwright::detail {

// For use as a subscript.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max() / 4;

struct PipelineEdge {
  int kind = -1;     // -1: no edge
  double delay = 0;  // seconds between the end of one and the start of the other
};
using PipelineEdges = std::array<PipelineEdge, 2>;

struct PipelineProblem {
  int ranks = 0;
  int micro_batches = 0;
  int kinds = 0;  // three times the number of stages: F 0..S-1, I 0..S-1, W 0..S-1
  std::vector<int> rank_of;
  std::vector<double> duration;
  std::vector<PipelineEdges> before, after;
  std::vector<std::int64_t> taken, given;    // bytes at the start, at the end
  std::vector<std::vector<int>> rank_kinds;  // by rank; F by stage, then I, then W
  std::vector<std::int64_t> cap;             // by rank
  std::vector<std::int64_t> order_begin;     // where a rank's string starts, ranks + 1 of them

  int stages() const { return kinds / 3; }
  std::int64_t nodes() const { return static_cast<std::int64_t>(kinds) * micro_batches; }
};

// What one stage costs, in the units of the caller.
struct PipelineStage {
  int rank = 0;
  double forward = 0, input = 0, weight = 0;
  std::int64_t kept = 1, released_by_input = 0, released_by_weight = 1;
  double activation_delay = 0, gradient_delay = 0;  // to the next stage; 0 on the same rank
};

PipelineProblem make_problem(int ranks, int micro_batches, const std::vector<PipelineStage>& stages,
                             const std::vector<std::int64_t>& cap);
// The same pipeline with another number of micro-batches. An engine may keep some bytes of every
// micro-batch to the end of the step (`left_over`); what micro-batches that are not there would
// leave is taken off the cap, so that a schedule of fewer can be extended to one of all.
PipelineProblem with_micro_batches(const PipelineProblem& problem, int micro_batches);
// By rank: bytes that one micro-batch takes and never gives back.
std::vector<std::int64_t> left_over(const PipelineProblem& problem);
// Time runs backwards: edges turn round, memory is taken where it was given back. A schedule of the
// mirrored problem read from its end is a schedule of the problem. It starts with what is left
// over.
PipelineProblem mirrored(const PipelineProblem& problem);
// The smallest cap under which rank r can run at all. While the last stage turns from F to I, one
// micro-batch is alive on every stage.
std::vector<std::int64_t> smallest_caps(const PipelineProblem& problem);

// One string of kinds per rank, end to end; rank r owns [order_begin[r], order_begin[r + 1]).
using PipelineOrder = std::vector<std::uint16_t>;

}  // namespace trainwright::detail
