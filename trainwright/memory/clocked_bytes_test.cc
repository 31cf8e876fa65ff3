// The memory model's bytes, run through the clock of schedules.
#include "trainwright/memory/clocked_bytes.h"

#include <doctest/doctest.h>

#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

struct Peaks {
  MemoryEstimate estimate;
  Timeline clock;
  std::vector<Bytes> at_step;
};

Peaks peaks_of(const std::string& trainer, const std::string& layout) {
  Case c = llama_in_80_gib(trainer, layout);
  const MemoryQuestion question = c.question();
  const Layout& of = question.layout;
  const Shape shape{static_cast<int>(of.pp), static_cast<int>(micro_batch_count(of)),
                    static_cast<int>(of.vpp)};
  const auto times = even_costs(shape.ranks * shape.chunks, Seconds(1), Seconds(1), Seconds(1));
  const ClockedBytes bytes = *clocked_bytes(question, times);
  const Schedule schedule = *make(of.schedule, shape);
  return {*estimate_memory(question), simulate(schedule, bytes.costs, {.engine = bytes.engine}),
          bytes.at_step};
}

TEST_CASE("the clock's peak of a rank is what estimate counts as allocated, to the byte") {
  for (const auto& [trainer, layout] : std::vector<std::pair<std::string, std::string>>{
           {"megatron-core@0.12", "tp=1,pp=4,dp=1,mbs=1,gbs=16,seq=2048"},
           {"megatron-core@0.12", "tp=1,pp=4,vpp=2,dp=2,zero=1,mbs=1,gbs=16,seq=2048"},
           {"megatron-core@0.12", "tp=1,pp=2,vpp=2,dp=1,mbs=2,gbs=16,seq=2048,schedule=zb-vpp"},
           {"megatron@0.19",
            "tp=1,pp=4,dp=2,zero=1,mbs=1,gbs=16,seq=2048,gradients=bf16,on=graphs"},
           {"megatron@0.19", "tp=1,pp=4,dp=2,zero=1,mbs=1,gbs=16,seq=2048,on=part-graphs"},
           {"paddlenlp-auto@2.8", "tp=1,pp=4,dp=1,mbs=1,gbs=16,seq=2048,schedule=zb-h1"},
           {"zbpp@1.0", "tp=1,pp=4,dp=1,mbs=1,gbs=16,seq=2048,schedule=zb-h1"},
           {"zbpp@1.0", "tp=1,pp=4,vpp=2,dp=1,mbs=1,gbs=16,seq=2048,schedule=zb-v"},
           {"torchtitan@0.3", "tp=1,pp=4,dp=1,mbs=1,gbs=16,seq=2048,schedule=1f1b"},
           {"torchtitan@0.3", "tp=1,pp=4,vpp=2,dp=1,mbs=1,gbs=16,seq=2048,schedule=zb-v"}}) {
    CAPTURE(trainer);
    CAPTURE(layout);
    const Peaks peaks = peaks_of(trainer, layout);
    for (std::size_t r = 0; r < peaks.clock.ranks.size(); ++r) {
      CAPTURE(r);
      CHECK(std::max(peaks.clock.ranks[r].peak, peaks.at_step[r]) ==
            peaks.estimate.classes[r].allocated);
    }
  }
}

}  // namespace
}  // namespace trainwright
