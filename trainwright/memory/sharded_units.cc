#include "trainwright/memory/sharded_units.h"

#include <utility>

namespace trainwright::detail {

// A flat buffer for each gather.
void ShardedUnits::gather(std::size_t chunk, std::size_t own, std::size_t ahead) {
  if (!gathers_parts(rules().sharding)) return;
  Blocks& gathered = gathered_[chunk];
  gathered.resize(question_.chunks[chunk].lists.size(), kNone);
  if (rules().sharding.flat_buffers) return gather_with_buffer(chunk, own, ahead);
  for (const std::size_t unit : {own, ahead}) {
    if (unit >= gathered.size() || gathered[unit] != kNone) continue;
    const RealBytes bytes = portion(chunk, unit).gathered;
    if (bytes == kNothing) continue;
    BlockId flat = heap_.make(bytes);
    gathered[unit] = heap_.make(bytes);
    heap_.drop(flat);
  }
}

// FSDP2 copies weights out of a flat buffer. Forward, the buffer goes when that of the next unit is
// there; backward, at once, and that of the unit before is filled meanwhile (torch 2.13
// _fsdp_param_group.py wait_for_unshard, _backward_prefetch).
void ShardedUnits::gather_with_buffer(std::size_t chunk, std::size_t own, std::size_t ahead) {
  Blocks& gathered = gathered_[chunk];
  gather_root(chunk);
  const RealBytes bytes = coming(chunk, own);
  const bool forward = ahead == own + 1;
  if (gathered[own] == kNone && bytes > kNothing) {
    BlockId flat =
        forward || filled_ == kNone ? heap_.make(bytes, kGathers) : std::exchange(filled_, kNone);
    if (forward) heap_.drop(filled_);
    gathered[own] = heap_.make(bytes);
    forward ? std::swap(filled_, flat) : heap_.drop(flat);
  }
  if (forward) return;
  heap_.drop(filled_);
  const bool missing = ahead < gathered.size() && gathered[ahead] == kNone;
  if (missing && coming(chunk, ahead) > kNothing) {
    filled_ = heap_.make(coming(chunk, ahead), kGathers);
  }
}

bool ShardedUnits::in_root(std::size_t chunk, std::size_t unit) const {
  return rules().root_unit && rules().sharding.flat_buffers && portion(chunk, unit).end;
}

RealBytes ShardedUnits::coming(std::size_t chunk, std::size_t unit) const {
  return in_root(chunk, unit) ? kNothing : portion(chunk, unit).gathered;
}

void ShardedUnits::gather_root(std::size_t chunk) {
  if (roots_[chunk].weights != kNone) return;
  RealBytes bytes;
  for (std::size_t unit = 0; unit < question_.chunks[chunk].lists.size(); ++unit) {
    if (in_root(chunk, unit)) bytes += portion(chunk, unit).gathered;
  }
  if (bytes == kNothing) return;
  heap_.drop(filled_);
  filled_ = heap_.make(bytes, kGathers);
  roots_[chunk].weights = heap_.make(bytes);
}

void ShardedUnits::ungather_after_forward(std::size_t chunk, std::size_t unit) {
  const Sharding& sharding = rules().sharding;
  // All units stay, or the last one, whose backward pass comes next.
  if (sharding.gather == Gather::MicroBatch) return;
  if (sharding.flat_buffers && rules().head_stays && portion(chunk, unit).logits) return;
  ungather(chunk, unit);
}

void ShardedUnits::ungather(std::size_t chunk, std::size_t unit) {
  if (!gathers_parts(rules().sharding) || stays_gathered(rules().sharding)) return;
  if (unit < gathered_[chunk].size()) heap_.drop(gathered_[chunk][unit]);
  if (unit == 0) heap_.drop(roots_[chunk].weights);
}

BlockId ShardedUnits::make_unsharded(std::size_t chunk, std::size_t unit) {
  const Sharding& sharding = rules().sharding;
  const bool comes = gathers_parts(sharding) && !stays_gathered(sharding);
  const RealBytes bytes = portion(chunk, unit).unreduced;
  return comes && sharding.gradients && bytes > kNothing ? heap_.make(bytes) : kNone;
}

void ShardedUnits::reduce(std::size_t chunk, std::size_t unit, BlockId unsharded) {
  if (in_root(chunk, unit)) {
    if (unsharded != kNone) roots_[chunk].unsharded.push_back(unsharded);
  } else {
    if (unsharded != kNone) {
      heap_.drop(reducing_);
      reducing_ = heap_.make(portion(chunk, unit).gradients);
      heap_.drop(unsharded);
    }
    add_gradients(chunk, unit);
  }
  if (unit == 0) reduce_root(chunk);
}

void ShardedUnits::reduce_root(std::size_t chunk) {
  RealBytes bytes;
  for (std::size_t unit = 0; unit < question_.chunks[chunk].lists.size(); ++unit) {
    if (in_root(chunk, unit)) bytes += portion(chunk, unit).gradients;
  }
  if (bytes == kNothing) return;
  ungather(chunk, 0);
  if (!roots_[chunk].unsharded.empty()) {
    heap_.drop(reducing_);
    reducing_ = heap_.make(bytes);
    heap_.drop(roots_[chunk].unsharded);
  }
  for (std::size_t unit = 0; unit < question_.chunks[chunk].lists.size(); ++unit) {
    if (in_root(chunk, unit)) add_gradients(chunk, unit);
  }
}

// What a reduction gives are the gradients, or is added to them.
void ShardedUnits::add_gradients(std::size_t chunk, std::size_t unit) {
  const PortionBytes& of = portion(chunk, unit);
  Blocks& gradients = gradients_[chunk];
  gradients.resize(question_.chunks[chunk].lists.size(), kNone);
  const RealBytes all = question_.chunks[chunk].bytes->gradients;
  if (all <= kNothing) return;
  const RealBytes bytes =
      question_.terms.chunks[chunk]->gradients * of.gradients.value() / all.value();
  if (bytes == kNothing) return;
  const bool own_stream = rules().sharding.flat_buffers;
  BlockId reduced = gradients[unit];
  if (reduced == kNone || own_stream) {
    reduced = heap_.make(bytes, own_stream ? kReductions : kKernels);
  }
  if (gradients[unit] == kNone) {
    gradients[unit] = reduced;
  } else if (reduced != gradients[unit]) {
    heap_.drop(reduced);
  }
}

void ShardedUnits::end_step() {
  for (Blocks& blocks : gathered_) heap_.drop(blocks);
  for (Root& root : roots_) {
    heap_.drop(root.weights);
    heap_.drop(root.unsharded);
  }
  heap_.drop(reducing_);
  heap_.drop(filled_);
}

void ShardedUnits::drop_gradients() {
  for (Blocks& blocks : gradients_) heap_.drop(blocks);
}

}  // namespace trainwright::detail
