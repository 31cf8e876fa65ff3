#include <doctest/doctest.h>

#include <map>

#include "trainwright/testing/shipped_trainers.h"
#include "trainwright/testing/work_cases.h"

namespace trainwright {
namespace {

struct Replayed {
  Bytes forward, kept, backward;  // peaks, and what is alive between the passes without the output
  bool clean = true;              // nothing is made twice, dropped unmade, or left over
};

// Runs a list alone: its input is there, and so is, backward, the gradient of its output.
Replayed replayed(const OperatorList& list) {
  const StorageEvents events = storage_events(list);
  Replayed of;
  std::map<std::int32_t, Bytes> alive;
  Bytes now, peak;
  const auto make = [&](std::int32_t storage, Bytes bytes) {
    of.clean &= alive.emplace(storage, bytes).second;
    now += bytes;
    peak = std::max(peak, now);
  };
  const auto drop = [&](std::int32_t storage) {
    const auto found = alive.find(storage);
    of.clean &= found != alive.end();
    if (found == alive.end()) return;
    now -= found->second;
    alive.erase(found);
  };
  make(events.input, list.at(list.input).bytes());
  for (const StorageEvent& e : events.forward) e.made ? make(e.storage, e.bytes) : drop(e.storage);
  of.forward = peak;
  drop(events.output);
  of.kept = now;
  peak = now;
  if (events.output_gradient >= 0) make(events.output_gradient, list.at(list.output).bytes());
  for (const StorageEvent& e : events.backward) e.made ? make(e.storage, e.bytes) : drop(e.storage);
  of.backward = peak;
  if (events.input_gradient >= 0) drop(events.input_gradient);
  of.clean &= alive.empty();
  return of;
}

void check_like_totals(const OperatorList& list) {
  const Totals sum = totals(list);
  const Replayed of = replayed(list);
  CHECK(of.clean);
  CHECK(of.forward == sum.forward.bytes);
  CHECK(of.kept == sum.kept);
  CHECK(of.backward == sum.backward.bytes);
}

TEST_CASE("the program of a list has the peaks that its totals say, and leaves nothing behind") {
  for (const char* name : {"megatron@0.12", "pytorch", "torchtitan@0.2"}) {
    const Recipe recipe = recipe_of(picked_trainer(name), PrecisionKind::Bf16);
    for (const Model& model : {gpt_model(1024, 16), llama_model(1024, 16, 4, 4096)}) {
      for (const RecomputeKind kind : {RecomputeKind::None, RecomputeKind::Selective,
                                       RecomputeKind::FeedForwardOnly, RecomputeKind::Full}) {
        Slice slice{.tp = 2, .etp = 2, .mbs = 2, .seq = 512, .sp = true};
        slice.recompute.kind = kind;
        CAPTURE(name);
        CAPTURE(model.name);
        CAPTURE(static_cast<int>(kind));
        check_like_totals(layer_work(model, model.kinds[0], slice, recipe));
        check_like_totals(head_work(model, slice, recipe));
        check_like_totals(embedding_work(model, slice, recipe));
        Recipe adapted = recipe;
        adapted.training.adapters = AdapterRecipe{.rank = 8,
                                                  .targets = matrices_named("linear_qkv"),
                                                  .dtype = Dtype::Fp32,
                                                  .trained = {}};
        for (const bool flows : {false, true}) {
          slice.input_gradient = flows;
          check_like_totals(layer_work(model, model.kinds[0], slice, adapted));
        }
      }
    }
  }
}

TEST_CASE("a layer over tp gives collectives whole tensors, at least as wide as its input") {
  // Without sequence parallelism four sums: attention's and the feed-forward's outputs, the
  // gradients of what the two norms give. With it, forward two gathered inputs and two partial
  // sums; backward the gradients of these four, those of the inputs beside what is gathered again.
  const Recipe recipe = recipe_of(picked_trainer("megatron@0.12"), PrecisionKind::Bf16);
  const Model model = llama_model(1024, 16, 4, 4096);
  for (const bool sp : {false, true}) {
    const Slice slice{.tp = 2, .etp = 2, .mbs = 2, .seq = 512, .sp = sp};
    const StorageEvents events = storage_events(layer_work(model, model.kinds[0], slice, recipe));
    for (const auto* pass : {&events.forward, &events.backward}) {
      std::map<std::int32_t, Bytes> alive;
      std::int64_t summed = 0;
      for (const StorageEvent& e : *pass) {
        if (e.made) alive[e.storage] = e.bytes;
        if (!e.sent) continue;
        CHECK_FALSE(e.made);
        CHECK(alive[e.storage] >= Bytes(2 * 512 * 1024 * 2));
        CHECK(e.bytes == alive[e.storage]);
        ++summed;
      }
      CHECK(summed == (sp ? 4 : 2));
    }
  }
}

}  // namespace
}  // namespace trainwright
