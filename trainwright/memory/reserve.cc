#include "trainwright/memory/reserve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <utility>

#include "trainwright/base/check.h"

namespace trainwright::detail {
namespace {

constexpr BlockId kNone(-1);
// Streams beside that of all kernels, each with blocks of its own: a block is only used again on
// the stream it was made on. FSDP2 fills flat buffers on one stream and makes sharded gradients on
// another (torch 2.13 _fsdp_collectives.py foreach_all_gather, foreach_reduce).
constexpr StreamId kKernels(0), kGathers(1), kReductions(2);
// Rounds of the steady state that are played, and calls after which a step is cut short.
constexpr std::size_t kRounds = 4;
constexpr std::int64_t kMostCalls = 150'000;

using Blocks = std::vector<BlockId>;

// A micro-batch in flight on a chunk: the blocks of each list's storages.
struct Flight {
  std::vector<Blocks> lists;
  BlockId output = kNone;
  Blocks halves;  // what W needs after I
};

class Player {
 public:
  explicit Player(const ReserveQuestion& question)
      : question_(question), allocator_(question.settings), gathered_(question.chunks.size()) {
    gradients_.resize(question.chunks.size());
    flights_.resize(question.chunks.size());
  }

  Reserved play() {
    make_standing();
    requested_ = allocator_.stats().requested;
    play_step();
    make_states();
    step_with_temporaries();
    drop_gradients();
    const AllocatorStats& stats = allocator_.stats();
    const Bytes first_requested = requested_, first_reserved = stats.reserved_peak;
    play_step();
    step_with_temporaries();
    return {requested_,      stats.allocated_peak, stats.reserved_peak,
            first_requested, first_reserved,       calls_};
  }

 private:
  BlockId make(double bytes, StreamId stream = kKernels) {
    ++calls_;
    ++launched_;
    while (!late_.empty() &&
           static_cast<double>(launched_ - late_.front().launched) > question_.lead) {
      take_back();
    }
    const auto block = allocator_.allocate(Bytes(std::llround(bytes)), stream);
    TW_CHECK(block.has_value(), "an allocator without limit ran out");
    requested_ = std::max(requested_, allocator_.stats().requested - late_bytes_);
    return *block;
  }
  // What a collective used is the program's no more, but not yet free.
  void free_late(BlockId& block, Bytes bytes) {
    if (block == kNone) return;
    late_.push_back({block, launched_, bytes});
    late_bytes_ += bytes;
    block = kNone;
  }
  void take_back() {
    drop(late_.front().block);
    late_bytes_ -= late_.front().bytes;
    late_.pop_front();
  }
  void drop(BlockId& block) {
    if (block == kNone) return;
    ++calls_;
    allocator_.free(block);
    block = kNone;
  }

  // Weights list by list, gradients as one buffer, as trainers make them.
  void make_standing() {
    const States& states = question_.terms.states;
    if (question_.rules.states.weights_moved) {
      make_moved();
    } else if (question_.rules.states.by_matrix) {
      make_by_matrix();
    } else {
      each_list(&PortionBytes::gathered, [&](double share) { make(states.weights * share); });
      if (states.gradients > 0) make(states.gradients);
      each_list(&PortionBytes::gradients, [&](double share) { make(states.main_weights * share); });
    }
    if (states.buckets > 0) make(states.buckets);
    if (question_.terms.transport > 0) make(question_.terms.transport);
    if (question_.terms.left_behind > 0) make(question_.terms.left_behind);
    for (int i = 0; i < 2 && question_.terms.gather_buffers > 0; ++i) {
      make(question_.terms.gather_buffers / 2);
    }
    if (question_.terms.workspaces > 0) make(question_.terms.workspaces);
    if (question_.rules.product_workspace > 0) make(question_.rules.product_workspace);
  }
  // Matrix by matrix; then buffers for all of them, into which they are moved. What they leave
  // behind stays in the cache.
  void make_moved() {
    Blocks originals;
    std::array<double, 2> weights{}, gradients{};  // dense, expert
    each_weight([&](const HeldWeight& weight) {
      const double bytes = weight_bytes(weight);
      const BlockId block = make(bytes);
      if (!weight.trained) return;
      originals.push_back(block);
      weights[weight.expert ? 1 : 0] += bytes;
      gradients[weight.expert ? 1 : 0] += bytes_of(weight).gradient * numbers_of(weight.tensor);
    });
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      make(weights[i]);
      make(gradients[i]);
    }
    for (BlockId& block : originals) drop(block);
    make_main_weights();
  }
  // Matrix by matrix, wide at first where the model is built so.
  void make_by_matrix() {
    const StateRules& rules = question_.rules.states;
    Blocks wide;
    std::vector<double> sizes;
    each_weight([&](const HeldWeight& weight) {
      sizes.push_back(weight_bytes(weight));
      wide.push_back(make(std::max(rules.made * numbers_of(weight.tensor), sizes.back())));
    });
    for (std::size_t i = 0; i < wide.size() && rules.made > rules.bytes.weight; ++i) {
      make(sizes[i]);
      drop(wide[i]);
    }
    if (question_.terms.states.gradients > 0) make(question_.terms.states.gradients);
    make_main_weights();
  }
  void make_main_weights() {
    if (question_.terms.states.main_weights <= 0) return;
    each_shard([&](const HeldWeight& weight, double share) {
      make(bytes_of(weight).master * numbers_of(weight.tensor) * share);
    });
  }
  const ParameterBytes& bytes_of(const HeldWeight& weight) const {
    return weight.adapter ? question_.rules.states.adapter : question_.rules.states.bytes;
  }
  double weight_bytes(const HeldWeight& weight) const {
    if (weight.stored > Bytes(0)) return number(weight.stored);
    return bytes_of(weight).weight * numbers_of(weight.tensor);
  }
  template <class Use>
  void each_weight(Use use) {
    for (const ChunkProgram& chunk : question_.chunks) {
      for (const ListWeights* list : chunk.weights) {
        for (const HeldWeight& weight : list->tensors) use(weight);
      }
    }
  }
  // This rank's part of what is trained: the first weights, and a share of the last of them.
  template <class Use>
  void each_shard(Use use) {
    const Sharding& sharding = question_.rules.states.sharding;
    for (const bool expert : {false, true}) {
      const double ways = static_cast<double>((expert ? sharding.expert : sharding.dense).ways);
      const auto mine = [&](const HeldWeight& weight) {
        return weight.trained && weight.expert == expert;
      };
      double left = 0;
      each_weight([&](const HeldWeight& weight) {
        if (mine(weight)) left += numbers_of(weight.tensor) / ways;
      });
      each_weight([&](const HeldWeight& weight) {
        if (!mine(weight) || left < 1) return;
        const double numbers = numbers_of(weight.tensor);
        use(weight, std::min(left, numbers) / numbers);
        left -= numbers;
      });
    }
  }
  // An empty gradient for each shape that the backward pass meets first.
  void make_stand_ins(const ListWeights& list) {
    for (const MatrixShape& shape : list.stand_ins) {
      if (std::find(stand_ins_.begin(), stand_ins_.end(), shape) != stand_ins_.end()) continue;
      stand_ins_.push_back(shape);
      make(question_.rules.states.compute * static_cast<double>(shape.in) *
           static_cast<double>(shape.out));
    }
  }
  // Of every weight that is trained one tensor after the other.
  void make_states() {
    const StateRules& rules = question_.rules.states;
    const double all = question_.terms.states.states - rules.bytes.states.tables;
    if (all <= 0) return;
    if (rules.bytes.states.tables > 0) make(rules.bytes.states.tables);
    if (rules.weights_moved || rules.by_matrix) {
      each_shard([&](const HeldWeight& weight, double share) { make_states_of(weight, share); });
      return;
    }
    double whole = 0;
    each_weight([&](const HeldWeight& weight) {
      if (weight.trained) whole += state_bytes(bytes_of(weight).states, weight.tensor);
    });
    each_weight([&](const HeldWeight& weight) {
      if (weight.trained) make_states_of(weight, all / whole);
    });
  }
  void make_states_of(const HeldWeight& weight, double share) {
    for (const double bytes : state_tensors(bytes_of(weight).states, weight.tensor)) {
      make(bytes * share);
    }
  }
  // Of every weight that is trained, all at once.
  void step_with_temporaries() {
    const double all = question_.terms.states.temporaries;
    if (all <= 0) return;
    double whole = 0;
    const auto bytes = [&](const HeldWeight& weight) {
      return weight.trained ? temporary_bytes(bytes_of(weight).states, weight.tensor) : 0;
    };
    each_weight([&](const HeldWeight& weight) { whole += bytes(weight); });
    Blocks blocks;
    each_weight([&](const HeldWeight& weight) {
      if (bytes(weight) > 0) blocks.push_back(make(bytes(weight) * all / whole));
    });
    for (BlockId& block : blocks) drop(block);
  }
  // Every list has a share of the weights, or of their gradients.
  template <class Use>
  void each_list(double PortionBytes::* of, Use use) {
    double all = 0;
    for (const ChunkProgram& chunk : question_.chunks) {
      for (const PortionBytes* portion : chunk.portions) all += portion->*of;
    }
    for (const ChunkProgram& chunk : question_.chunks) {
      for (const PortionBytes* portion : chunk.portions) {
        if (portion->*of > 0) use(portion->*of / all);
      }
    }
  }

  void play_step() {
    for (BlockId& block : copies_) drop(block);
    copies_.clear();
    const std::int64_t most = calls_ + kMostCalls;
    std::size_t backwards = 0;
    for (const Action& action : question_.actions) {
      const auto chunk = static_cast<std::size_t>(question_.chunk_of[action.stage]);
      ActionKind kind = action.kind;
      if (question_.rules.pipeline.sends_stay && action.stage == 0) {
        if (kind == ActionKind::BackwardInput) continue;
        if (kind == ActionKind::BackwardWeight) kind = ActionKind::Backward;
      }
      run(kind, chunk, action.microbatch);
      if (kind != ActionKind::Forward) ++backwards;
      if (backwards >= kRounds * question_.chunks.size() || calls_ > most) break;
    }
    end_step();
  }

  void run(ActionKind kind, std::size_t chunk, std::int32_t microbatch) {
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
          if (portion->half > 0) flight.halves.push_back(make(portion->half));
        }
        return;
      }
      case ActionKind::BackwardWeight:
        for (BlockId& block : flights_[chunk][microbatch].halves) drop(block);
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

  void forward(std::size_t chunk, Flight& flight) {
    const ChunkProgram& program = question_.chunks[chunk];
    const PipelineRules& pipeline = question_.rules.pipeline;
    BlockId carried = kNone;
    if (program.bytes->input > 0 && !pipeline.buffers_per_micro_batch) {
      carried = make(program.bytes->input);
    }
    flight.lists.resize(program.lists.size());
    for (std::size_t j = 0; j < program.lists.size(); ++j) {
      const StorageEvents& events = *program.lists[j];
      flight.lists[j].assign(static_cast<std::size_t>(events.storages), kNone);
      flight.lists[j][static_cast<std::size_t>(events.input)] = carried;
      gather(chunk, j, j + 1);
      play_events(events.forward, flight.lists[j]);
      if (!stays_for_backward(*program.portions[j])) ungather(chunk, j);
      carried = std::exchange(flight.lists[j][static_cast<std::size_t>(events.output)], kNone);
    }
    if (pipeline.sends_stay && program.content->to_other_rank) {
      until_step_end_.push_back(carried);
    } else if (pipeline.outputs_freed_early || program.content->stage.head) {
      drop(carried);
    } else {
      flight.output = carried;
    }
  }

  void backward(std::size_t chunk, Flight& flight) {
    backward_ = true;
    drop_waiting();
    const ChunkProgram& program = question_.chunks[chunk];
    const PipelineRules& pipeline = question_.rules.pipeline;
    BlockId carried = kNone;
    if (program.bytes->output > 0 && !pipeline.buffers_per_micro_batch) {
      carried = make(program.bytes->output);
    }
    for (std::size_t j = program.lists.size(); j-- > 0;) {
      const StorageEvents& events = *program.lists[j];
      Blocks& blocks = flight.lists[j];
      if (events.output_gradient >= 0) {
        blocks[static_cast<std::size_t>(events.output_gradient)] = carried;
      } else {
        drop(carried);
      }
      gather(chunk, j, j - 1);
      BlockId unsharded = program.portions[j]->logits ? kNone : make_unsharded(chunk, j);
      play_events(events.backward, blocks);
      has_workspace_ = true;
      carried = events.input_gradient < 0
                    ? kNone
                    : std::exchange(blocks[static_cast<std::size_t>(events.input_gradient)], kNone);
      make_stand_ins(*program.weights[j]);
      if (program.portions[j]->logits) unsharded = make_unsharded(chunk, j);
      reduce(chunk, j, unsharded);
      ungather(chunk, j);
      for (const std::int32_t storage : events.waiting) {
        waiting_.push_back(std::exchange(blocks[static_cast<std::size_t>(storage)], kNone));
      }
      for (BlockId& block : blocks) drop(block);
    }
    if (pipeline.sends_stay && program.content->from_other_rank) {
      until_step_end_.push_back(carried);
    } else if (pipeline.last_gradient_stays && program.content->from_other_rank) {
      drop(sent_);
      sent_ = carried;
    } else {
      drop(carried);
    }
    drop(flight.output);
    if (question_.rules.states.sharding.life != GradientLife::AccumulatedKept) drop_waiting();
  }
  void drop_waiting() {
    for (BlockId& block : waiting_) drop(block);
    waiting_.clear();
  }

  // The first product of the backward pass takes its workspace when its result is there, the second
  // tensor that the pass makes: wherever the cache has room, for good.
  void make_workspace(int made) {
    if (has_workspace_ || !backward_ || made != 2) return;
    has_workspace_ = true;
    if (question_.rules.product_workspace > 0) make(question_.rules.product_workspace);
  }

  void play_events(const std::vector<StorageEvent>& events, Blocks& blocks) {
    int made = 0;
    for (const StorageEvent& event : events) {
      BlockId& block = blocks[static_cast<std::size_t>(event.storage)];
      if (event.made) {
        block = make(number(event.bytes));
        make_workspace(++made);
        continue;
      }
      if (event.sent && question_.lead > 0) {
        free_late(block, event.bytes);
      } else {
        drop(block);
      }
    }
  }

  // FSDP: the list's weights and, ahead, its neighbour's; a flat buffer per gather.
  void gather(std::size_t chunk, std::size_t own, std::size_t ahead) {
    const StateRules& states = question_.rules.states;
    if (!gathers_parts(states.sharding)) return;
    auto& gathered = gathered_[chunk];
    gathered.resize(question_.chunks[chunk].lists.size(), kNone);
    if (states.sharding.flat_buffers) return gather_unit(chunk, own, ahead);
    for (const std::size_t j : {own, ahead}) {
      if (j >= gathered.size() || gathered[j] != kNone) continue;
      const double bytes = gathered_bytes(chunk, j);
      if (bytes == 0) continue;
      BlockId flat = make(bytes);
      gathered[j] = make(bytes);
      drop(flat);
    }
  }
  double gathered_bytes(std::size_t chunk, std::size_t j) const {
    return question_.chunks[chunk].portions[j]->gathered;
  }
  // FSDP2 copies weights out of a flat buffer. Forward, the buffer goes when that of the next unit
  // is there; backward, at once, and that of the unit before is filled meanwhile (torch 2.13
  // _fsdp_param_group.py wait_for_unshard, _backward_prefetch).
  void gather_unit(std::size_t chunk, std::size_t own, std::size_t ahead) {
    auto& gathered = gathered_[chunk];
    const double bytes = gathered_bytes(chunk, own);
    const bool forward = ahead == own + 1;
    if (gathered[own] == kNone && bytes > 0) {
      BlockId flat =
          forward || filled_ == kNone ? make(bytes, kGathers) : std::exchange(filled_, kNone);
      if (forward) drop(filled_);
      gathered[own] = make(bytes);
      forward ? std::swap(filled_, flat) : drop(flat);
    }
    if (forward) return;
    drop(filled_);
    const bool missing = ahead < gathered.size() && gathered[ahead] == kNone;
    if (missing && gathered_bytes(chunk, ahead) > 0) {
      filled_ = make(gathered_bytes(chunk, ahead), kGathers);
    }
  }
  // All units, or the last one, whose backward pass comes next.
  bool stays_for_backward(const PortionBytes& portion) const {
    const StateRules& states = question_.rules.states;
    if (states.sharding.gather == Gather::MicroBatch) return true;
    return states.sharding.flat_buffers && states.head_stays && portion.logits;
  }
  void ungather(std::size_t chunk, std::size_t j) {
    const Sharding& sharding = question_.rules.states.sharding;
    if (!gathers_parts(sharding) || stays_gathered(sharding)) return;
    if (j < gathered_[chunk].size()) drop(gathered_[chunk][j]);
  }
  // Gradients of a list as autograd makes them, if they are to be sharded.
  BlockId make_unsharded(std::size_t chunk, std::size_t j) {
    const StateRules& states = question_.rules.states;
    const PortionBytes& portion = *question_.chunks[chunk].portions[j];
    const bool comes = gathers_parts(states.sharding) && !stays_gathered(states.sharding);
    const bool sharded = comes && states.sharding.gradients;
    return sharded && portion.unreduced > 0 ? make(portion.unreduced) : kNone;
  }
  // Copied for the reduction, when that of the list after it is done; what it gives are the
  // gradients, or is added to them.
  void reduce(std::size_t chunk, std::size_t j, BlockId unsharded) {
    const StateRules& states = question_.rules.states;
    const PortionBytes& portion = *question_.chunks[chunk].portions[j];
    if (unsharded != kNone) {
      drop(reducing_);
      reducing_ = make(portion.gradients);
      drop(unsharded);
    }
    auto& gradients = gradients_[chunk];
    gradients.resize(question_.chunks[chunk].lists.size(), kNone);
    const double all = question_.chunks[chunk].bytes->gradients;
    const double bytes =
        all > 0 ? question_.terms.chunks[chunk].gradients * portion.gradients / all : 0;
    if (bytes == 0) return;
    BlockId reduced = gradients[j];
    if (reduced == kNone || states.sharding.flat_buffers) {
      reduced = make(bytes, states.sharding.flat_buffers ? kReductions : kKernels);
    }
    if (gradients[j] == kNone) {
      gradients[j] = reduced;
    } else if (reduced != gradients[j]) {
      drop(reduced);
    }
  }

  // Gradients for the step, which stay until the next one begins; but the bucket they are flattened
  // into.
  void copy_gradients() {
    const States& states = question_.terms.states;
    if (states.flattened > 0) {
      BlockId bucket = make(states.flattened);
      drop(bucket);
    }
    const double all = copied_gradients(states);
    if (all <= 0) return;
    if (question_.rules.states.weights_moved) {
      each_shard([&](const HeldWeight& weight, double share) {
        const double bytes = bytes_of(weight).gradient_at_step * numbers_of(weight.tensor);
        copies_.push_back(make(bytes * share));
      });
      return;
    }
    each_list(&PortionBytes::gradients,
              [&](double share) { copies_.push_back(make(all * share)); });
  }

  // What is still in flight when a step is cut short goes in order.
  void end_step() {
    while (!late_.empty()) take_back();
    for (auto& of_chunk : flights_) {
      for (auto& [microbatch, flight] : of_chunk) {
        for (Blocks& blocks : flight.lists) {
          for (BlockId& block : blocks) drop(block);
        }
        for (BlockId& block : flight.halves) drop(block);
        drop(flight.output);
      }
      of_chunk.clear();
    }
    for (auto& blocks : gathered_) {
      for (BlockId& block : blocks) drop(block);
    }
    for (BlockId& block : until_step_end_) drop(block);
    until_step_end_.clear();
    drop(reducing_);
    drop(filled_);
    drop(sent_);
    copy_gradients();
    gather_weights();
  }
  // After the step, in which the states are made.
  void drop_gradients() {
    for (auto& blocks : gradients_) {
      for (BlockId& block : blocks) drop(block);
    }
  }

  // After the step: a rank's own part of the weights, the parts of all ranks one by one, and all of
  // them in one buffer.
  void gather_weights() {
    const States& states = question_.terms.states;
    const StateRules& rules = question_.rules.states;
    if (states.gathered <= 0) return;
    Blocks blocks;
    const auto ways = static_cast<double>(rules.sharding.dense.ways);
    const double whole = states.gathered / (rules.step_gathers + 1 / ways);
    // More parts are too small to matter, and nothing may grow with the ranks of a group.
    constexpr double kMostParts = 1024;
    const double parts = std::min(ways, kMostParts);
    for (double i = 0; i <= parts; ++i) blocks.push_back(make(whole / parts));
    for (double i = 1; i < rules.step_gathers; ++i) blocks.push_back(make(whole));
    for (BlockId& block : blocks) drop(block);
  }

  struct Late {
    BlockId block;
    std::int64_t launched;  // kernels before it was let go
    Bytes bytes;
  };

  const ReserveQuestion& question_;
  Allocator allocator_;
  std::vector<std::map<std::int32_t, Flight>> flights_;  // by chunk and micro-batch
  std::vector<Blocks> gathered_, gradients_;             // by chunk and list
  Blocks until_step_end_;
  Blocks copies_;    // of gradients, for the step
  Blocks waiting_;   // autograd's gradients of the backward pass that runs, or ran last
  Bytes requested_;  // the most since all stands that stands
  BlockId reducing_ = kNone;
  BlockId filled_ = kNone;  // FSDP2's flat buffer that waits to be copied out
  BlockId sent_ = kNone;
  bool backward_ = false;       // a backward pass has begun
  bool has_workspace_ = false;  // of the backward pass's products
  std::vector<MatrixShape> stand_ins_;
  std::deque<Late> late_;
  Bytes late_bytes_;
  std::int64_t launched_ = 0;
  std::int64_t calls_ = 0;
};

}  // namespace

Reserved replay_class(const ReserveQuestion& question) { return Player(question).play(); }

AllocatorSettings allocator_settings(const Trainer& trainer) {
  AllocatorSettings settings;
  settings.expandable_segments = trainer.allocator.expandable_segments;
  // Paddle's strategy is a flag of its own.
  if (trainer.allocator.setting.starts_with("FLAGS_allocator_strategy")) {
    settings.strategy = AllocatorStrategy::Paddle;
  }
  return settings;
}

}  // namespace trainwright::detail
