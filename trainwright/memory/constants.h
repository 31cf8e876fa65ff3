#pragma once
// Numbers that memory is estimated with, and what tells how far its figures may be off. Part of
// memory.h: include that one.
//
// A figure's spread, below and above it:
//
//   spread^2 = (tensors x how well their facts are known)^2 + (reserved x what a replay misses)^2
//              + (what comes and goes x doubt)^2
//              + (end of the range - figure)^2 / 1.645^2 for each range
//
// What comes and goes is all but weights and optimizer states. It is in doubt where no published
// run of the trainer was ever held against its bytes, or none with adapters: what is left out of a
// list is found that way, so doubt is twice as large upward as downward.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/layout/layout.h"
#include "trainwright/outside/outside.h"
#include "trainwright/work/expert_load.h"

namespace trainwright {

// Numbers that no list can tell, with unit, bounds and source in data/calibrations/memory.json;
// `calibrate` fits the first ones to runs. As constructed nothing lies outside the allocator.
struct MemoryConstants {
  double outside = 0;           // context and communicators: -1 low, 0 central, 1 high
  double lead_alone = 0;        // kernels that the host is ahead of the device without a pipeline
  double lead_pipeline = 0;     // and with one, whose receives it waits for
  double lead_most = 0;         // at the upper end of what happens
  double expert_imbalance = 1;  // busiest rank's tokens over the mean, beside what routers do:
  ExpertLoad expert_load = {};  // how they deal tokens; as asked, in no file of constants
  double spread_read = 0.02;    // of allocated bytes, as a share, where a trainer's facts were read
  double spread_assumed = 0.04;   // and where some are assumed or learned
  double spread_reserved = 0.03;  // of reserved bytes beside that, as a share
  double spread_late = 0.06;      // the same where tensors of collectives come back late
  // Of what comes and goes, upward: of trainers that no published run was held against; of
  // adapters.
  double doubt_unscored = 0.18, doubt_adapters = 0.3;
  std::vector<std::string> scored = {};    // trainers that published runs were held against
  std::optional<OutsideFacts> facts = {};  // of context and communicators
};
Result<MemoryConstants> read_memory_constants(const Json& json, const std::string& origin);
// Of a data directory; with constants of another file where one is given.
Result<MemoryConstants> load_memory_constants(const std::string& data_directory,
                                              const std::optional<std::string>& file = {});
Json to_json(const MemoryConstants& constants);

// What the figures of a question rest on.
struct Ground {
  bool assumed = false;  // some facts of the trainer are assumed or learned
  bool late = false;     // tensors of collectives come back late
  enum class Doubt : std::uint8_t { None, Unscored, Adapters } doubt = Doubt::None;
};
Ground ground_of(const Trainer& trainer, const Job& job, const MemoryConstants& constants);

}  // namespace trainwright
