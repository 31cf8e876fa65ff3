#pragma once
// Questions about memory that are quick to write, for tests.
#include <doctest/doctest.h>

#include <string>

#include "trainwright/memory/memory.h"
#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/work_cases.h"

namespace trainwright::testing {

// A question that owns what it asks about. Nothing outside the allocator, no slack.
struct Case {
  Model model;
  Trainer trainer;
  Cluster cluster = h100s(8);
  Layout layout = {};
  Job job = {};
  std::optional<AttentionKernel> attention = std::nullopt;
  MemoryConstants constants = {};
  Slack slack = Slack::None;

  MemoryQuestion question() const {
    return {model, cluster, trainer, layout, job, attention, constants, nullptr, slack};
  }
  MemoryEstimate estimate() const {
    auto made = estimate_memory(question());
    REQUIRE_MESSAGE(made.has_value(), to_text(made.error()));
    return *std::move(made);
  }
};

inline Layout layout_of(const std::string& text) {
  auto read = parse_layout(text);
  REQUIRE_MESSAGE(read.has_value(), to_text(read.error()));
  return read->layout;
}

inline Model deeper(Model model, std::size_t layers) {
  model.layers.assign(layers, LayerKindId(0));
  return model;
}

inline Bytes bytes_of(const RankClass& of, Category category) {
  return of.bytes[static_cast<std::size_t>(category)];
}

// Megatron as the papers count it: norms keep no statistics.
inline Trainer paper_megatron() {
  Trainer trainer = picked_trainer("megatron@0.8");
  for (Kernel& kernel : trainer.kernels) {
    if (kernel.kind == KernelKind::FusedNorm) kernel.kept_per_row = 0;
  }
  return trainer;
}

inline Case llama_in_80_gib(const std::string& trainer, const std::string& layout) {
  Case c{.model = deeper(llama_model(2048, 16, 16, 5632), 16),
         .trainer = picked_trainer(trainer),
         .layout = layout_of(layout)};
  c.cluster = h100s(world_size(c.layout));
  c.cluster.groups[0].accelerator.memory_visible = Bytes(std::int64_t{80} << 30);
  return c;
}

}  // namespace trainwright::testing
