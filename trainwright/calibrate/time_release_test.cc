// What ships still describes the runs that it was fitted to. How it does on runs that it never saw
// is what `validate time` prints (docs/time.md), which takes minutes.
#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/calibrate/calibrate.h"
#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/skip.h"

namespace trainwright {
namespace {

using Means = std::map<std::string, double>;

// Mean |log(predicted / measured)| of each source's sound runs with the constants that ship.
Means mean_errors() {
  const auto runs = read_measured_runs(*testing::shared_path("measurements"));
  const auto known = load_knowledge(kShippedData);
  const auto constants = load_time_constants(kShippedData);
  REQUIRE((runs && known && constants));
  const TimedRuns timed = time_runs(cases_of(*runs, *known), constants->kernels, constants->stacks);
  Means sum, count;
  for (const TimedRun& run : timed.runs) {
    if (run.broken || run.undetermined) continue;
    for (const Stack& stack : constants->stacks.list) {
      if (stack.name != run.stack) continue;
      const double predicted = step_time(run.pieces, stack.constants).step.value();
      sum[run.source] += std::abs(std::log(predicted / run.measured));
      count[run.source] += 1;
    }
  }
  for (auto& [source, mean] : sum) mean /= count.at(source);
  return sum;
}

TEST_CASE("constants that ship describe the runs that they were fitted to") {
  if (!testing::shared_path("measurements")) return;
  Means found = mean_errors();
  // A tenth above what was found when they were fitted.
  for (const auto& [source, bar] : Means{{"aleph-alpha-2023", 0.0711},
                                         {"bigscience_bloom_prequel", 0.181},
                                         {"dgxc_benchmarking", 0.0692},
                                         {"flagperf", 0.0912},
                                         {"internevo", 0.12},
                                         {"korthikanti2022", 0.0606},
                                         {"llm_foundry", 0.0445},
                                         {"megatron_bridge", 0.122},
                                         {"mlperf", 0.0774},
                                         {"nanotron_playbook", 0.273},
                                         {"nemo_24_07", 0.0828},
                                         {"sailor", 0.18},
                                         {"simumax_b200", 0.0563},
                                         {"torchtitan", 0.0763},
                                         {"vocab_parallel", 0.0773},
                                         {"vocab_parallel_artifact", 0.0308},
                                         {"vtrain_multi", 0.1},
                                         {"vtrain_single", 0.0935},
                                         {"zero_bubble", 0.0881}}) {
    CHECK_MESSAGE(found[source] < bar, source, " ", found[source]);
    CHECK(found[source] > 0);
  }
}

}  // namespace
}  // namespace trainwright
