#include "trainwright/trainer/known.h"

#include <doctest/doctest.h>

#include <set>

#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

TEST_CASE("a source says how its fact is known, and the weakest word counts") {
  CHECK(how_known("0.12.0 optimizer/distrib_optimizer.py: stage 1") == HowKnown::Read);
  CHECK(how_known("torch.utils.checkpoint is opt-in") == HowKnown::Read);
  CHECK(how_known("--pipeline-model-parallel-size 1") == HowKnown::Read);
  CHECK(how_known("arXiv:2311.05610, table 2") == HowKnown::Published);
  CHECK(how_known("Megatron-LM docs; 0.8.0 training/arguments.py") == HowKnown::Read);
  CHECK(how_known("learned: from B200 rows; 0.12.0 model/gpt.py") == HowKnown::Learned);
  CHECK(how_known("0.8.0 fused_softmax.py; bytes kept are assumed") == HowKnown::Assumed);
  CHECK(how_known("Transformer Engine, from practice") == HowKnown::Assumed);
  CHECK(how_known("NVIDIA data sheet, not opened") == HowKnown::Assumed);
  CHECK(how_known("PyTorch's default") == HowKnown::Assumed);
  CHECK(how_known("") == HowKnown::Assumed);
  // Positions may be learned, facts are learned from runs.
  CHECK(how_known("0.8.0 gpt_model.py: learned positions") == HowKnown::Read);
}

TEST_CASE("the facts of a trainer are told by their place in its file") {
  for (const Trainer& trainer : shipped_trainers()) {
    CAPTURE(trainer.title);
    std::set<std::string> seen;
    for (const KnownFact& fact : known_facts(trainer)) seen.insert(fact.what);
    CHECK(seen.contains("rank_order"));
    for (const Kernel& kernel : trainer.kernels) {
      CHECK(seen.contains("kernels/" + std::string(name_of(kernel.kind))));
    }
    for (const Rule& rule : trainer.rules) CHECK(seen.contains("rules/" + rule.id));
  }
}

}  // namespace
}  // namespace trainwright
