#include "trainwright/simulate/unspecified.h"

#include <doctest/doctest.h>

#include <cmath>

#include "trainwright/model/model.h"
#include "trainwright/simulate/simulate.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

struct Asked {
  TimeConstants constants = *load_time_constants(kShippedData);
  Hardware hardware = *load_hardware(kShippedData);
  Model model = *find_model("llama-2-7b", kShippedData);
  Trainer trainer = picked_trainer("torchtitan@0.2");

  StepPieces pieces(const std::string& on) const {
    const Cluster cluster = *parse_cluster(on, hardware);
    Layout layout = usual_layout(trainer);
    layout.dp = accelerator_count(cluster);
    layout.mbs = 1, layout.gbs = layout.dp, layout.seq = 1024;
    return *step_pieces({.model = model,
                         .cluster = cluster,
                         .trainer = trainer,
                         .layout = layout,
                         .job = {},
                         .kernels = constants.kernels});
  }
  const StackConstants& stack() const { return stack_of(constants.stacks, trainer).constants; }
};

double width(const StepTime& time) { return std::log(time.high / time.low); }

TEST_CASE("what is specified takes its part out of the interval, and never all of it") {
  const std::array<bool, kUnspecified> none = {}, network = {true, false, false};
  const std::array<double, kUnspecified> half = {0.5, 0, 0}, all = {1, 0, 0};
  CHECK(told_narrows(none, half, 0.5, 0.3) == 1);
  // 1.645 x 0.5 x 0.5 / 0.5 of the width: sqrt(1 - 0.8225^2)
  CHECK(told_narrows(network, half, 0.5, 0.3) == doctest::Approx(0.5687).epsilon(1e-3));
  CHECK(told_narrows(network, all, 0.5, 0.3) == 0.3);
  CHECK(told_narrows(network, all, 0, 0.3) == 1);  // no width, nothing to take
}

TEST_CASE("the network is what an FSDP job over nodes hangs on, and it does not matter in one") {
  const Asked asked;
  const auto open = unspecified_effects(asked.pieces("64xH100"), asked.stack());
  REQUIRE(!open.empty());
  CHECK(open.front().what == Unspecified::Network);
  const StepTime usual = step_time(asked.pieces("64xH100"), asked.stack());
  CHECK(open.front().worse > usual.step);
  CHECK(open.front().high < usual.high);
  for (const UnspecifiedEffect& one : unspecified_effects(asked.pieces("8xH100"), asked.stack())) {
    CHECK(one.what != Unspecified::Network);
  }
}

TEST_CASE("specified as it usually is, a network changes the interval and not the step") {
  const Asked asked;
  const StepTime open = step_time(asked.pieces("64xH100"), asked.stack());
  const StepTime told = step_time(asked.pieces("64xH100,network=8x400G"), asked.stack());
  CHECK(told.step.value() == doctest::Approx(open.step.value()));
  CHECK(width(told) < width(open));
  const auto left = unspecified_effects(asked.pieces("64xH100,network=8x400G"), asked.stack());
  for (const UnspecifiedEffect& one : left) CHECK(one.what != Unspecified::Network);
}

TEST_CASE("a slower network, host or clock makes a slower step") {
  const Asked asked;
  const auto step = [&](const std::string& on) {
    return step_time(asked.pieces(on), asked.stack()).step;
  };
  CHECK(step("64xH100,network=1x100G") > step("64xH100") * 1.2);
  CHECK(step("8xH100,cpu=4") > step("8xH100"));
  // Products settle at sqrt(500 / 700) of their clocks.
  const auto products = [&](const std::string& on) {
    const StepTime time = step_time(asked.pieces(on), asked.stack());
    return time.parts[static_cast<std::size_t>(TimePart::Products)];
  };
  CHECK(products("8xH100,power=500W") > products("8xH100") * 1.1);
  CHECK(products("8xH100,power=500W") < products("8xH100") * std::sqrt(1.4) * 1.001);
}

TEST_CASE("tuned constants are those of a vendor's own recipe") {
  const Asked asked;
  StepPieces recipe = asked.pieces("8xH100");
  const Stacks tuned = as_tuned(asked.constants.stacks);
  const StepTime folded = step_time(recipe, stack_of(tuned, asked.trainer).constants);
  recipe.tuned = true;
  CHECK(folded.step == step_time(recipe, asked.stack()).step);
}

}  // namespace
}  // namespace trainwright
