#pragma once
// A Llama of 7 B on eight accelerators, the smallest job people plan.
#include <string>

#include "trainwright/search/search.h"

namespace trainwright::testing {

struct Job8 {
  static inline const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";
  Model model = *find_model("llama-2-7b", kData);
  Cluster cluster;
  Trainer trainer = *find_trainer("megatron-core", kData);
  Job job;
  MemoryConstants constants = *load_memory_constants(kData);
  TimeConstants time = *load_time_constants(kData);

  explicit Job8(const char* on = "8xH100") { cluster = *parse_cluster(on, *load_hardware(kData)); }
  SearchQuestion question(std::int64_t gbs = 64, std::int64_t seq = 4096) const {
    return {.model = model,
            .cluster = cluster,
            .trainer = trainer,
            .job = job,
            .gbs = gbs,
            .seq = seq,
            .constants = constants,
            .time = time};
  }
};

}  // namespace trainwright::testing
