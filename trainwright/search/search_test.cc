#include "trainwright/search/search.h"

#include <doctest/doctest.h>

#include <set>

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

// A Llama of 7 B on eight accelerators, the smallest job people plan.
struct Job8 {
  Model model = *find_model("llama-2-7b", kData);
  Cluster cluster;
  Trainer trainer = *find_trainer("megatron-core", kData);
  Job job;
  MemoryConstants constants = *load_memory_constants(kData);

  explicit Job8(const char* on = "8xH100") { cluster = *parse_cluster(on, *load_hardware(kData)); }
  SearchQuestion question(std::int64_t gbs = 64, std::int64_t seq = 4096) const {
    return {.model = model,
            .cluster = cluster,
            .trainer = trainer,
            .job = job,
            .gbs = gbs,
            .seq = seq,
            .constants = constants};
  }
};

TEST_CASE("every listed layout fills the cluster, divides the batch and is listed once") {
  const Job8 job;
  std::set<std::string> seen;
  for (const Layout& layout : list_layouts(job.question())) {
    CHECK(world_size(layout) == 8);
    CHECK(layout.mbs * layout.dp * micro_batch_count(layout) == 64);
    CHECK(32 % layout.tp == 0);  // heads
    CHECK(seen.insert(to_text(layout)).second);
  }
  CHECK(seen.size() > 100);
}

// Llama 3.1 405B trained on 16 pipeline ranks of 7, 8, ..., 8, 7 layers (arXiv:2407.21783).
TEST_CASE("126 layers are listed on 16 ranks with both ends counted as layers") {
  Job8 job("8192xH100");
  job.model = *find_model("llama-3.1-405b", kData);
  bool listed = false;
  for (const Layout& layout : list_layouts(job.question(2048, 8192))) {
    listed |=
        layout.tp == 8 && layout.pp == 16 && layout.count_embedding == 1 && layout.count_loss == 1;
    if (layout.vpp == 1) continue;
    CHECK((126 + layout.count_embedding + layout.count_loss) % stage_count(layout) == 0);
  }
  CHECK(listed);
}

TEST_CASE("the parts of a rough time add up to the step") {
  const Job8 job;
  const SearchQuestion question = job.question();
  WorkCache work(job.model, recipe_of(job.trainer, PrecisionKind::Bf16));
  for (const char* text : {"dp=8,zero=1,mbs=1,gbs=64,seq=4096", "tp=4,sp,pp=2,gbs=64,seq=4096",
                           "pp=4,vpp=2,cp=2,gbs=64,seq=4096"}) {
    const Layout layout = parse_layout(text, {.world = 8, .usual = {}})->layout;
    const RoughTime time = rough_time(question, layout, work);
    const Seconds sum = time.compute + time.bubble + time.tensor + time.context + time.expert +
                        time.data + time.pipeline;
    CHECK(sum.value() == doctest::Approx(time.step.value()));
  }
}

TEST_CASE("without parallelism but data's, compute is the model's FLOPs at half of the peak") {
  const Job8 job;
  WorkCache work(job.model, recipe_of(job.trainer, PrecisionKind::Bf16));
  const Layout layout =
      parse_layout("dp=8,mbs=1,gbs=64,seq=4096", {.world = 8, .usual = {}})->layout;
  const RoughTime time = rough_time(job.question(), layout, work);
  // 64 x 4096 tokens over 8 ranks at 989.5 / 2 TFLOP/s; the flash kernel computes causal pairs.
  const Flops token = token_flops(job.model, Tokens(4096), AttentionPairs::Causal).train();
  const double rate = peak(job.cluster.groups.front().accelerator, ComputeType::Bf16)->value() / 2;
  CHECK(time.compute.value() ==
        doctest::Approx(token.value() * 64 * 4096 / 8 / rate).epsilon(0.02));
  CHECK(time.bubble == Seconds(0));
}

TEST_CASE("adapters cost no weight gradients of the base, in time or on the wire") {
  Job8 job;
  const Layout layout =
      parse_layout("dp=8,mbs=1,gbs=64,seq=4096", {.world = 8, .usual = {}})->layout;
  const auto time = [&] {
    WorkCache work(job.model, recipe_of(job.trainer, PrecisionKind::Bf16, job.job));
    return rough_time(job.question(), layout, work);
  };
  const RoughTime all = time();
  job.job = parse_job("lora=16").value();
  const RoughTime lora = time();
  // Forward and input gradients, and the first layer's are the adapters' only; rank 16 beside
  // matrices 4,096 wide adds a hundredth. The attention core has no weights: both its gradients
  // stay.
  CHECK(lora.compute / all.compute == doctest::Approx(2.0 / 3).epsilon(0.05));
  // 40 million of 6.7 billion parameters: r (in + out) for 4 + 3 matrices of 32 layers.
  const double adapters = 32.0 * 16 * (4 * 8192 + 3 * (4096 + 11008));
  CHECK(lora.data / all.data ==
        doctest::Approx(adapters / static_cast<double>(parameters(job.model).total().value()))
            .epsilon(0.001));
}

TEST_CASE("the bubble is (p - 1) / (m v) of the work") {
  const Job8 job;
  WorkCache work(job.model, recipe_of(job.trainer, PrecisionKind::Bf16));
  const Layout layout =
      parse_layout("pp=8,vpp=2,dp=1,gbs=64,seq=4096", {.world = 8, .usual = {}})->layout;
  const RoughTime time = rough_time(job.question(), layout, work);
  CHECK(time.bubble / (time.compute + time.tensor) == doctest::Approx(7.0 / (64 * 2)));
}

TEST_CASE("a search gives legal layouts that fit, fastest first, and accounts for all others") {
  const Job8 job;
  const SearchQuestion question = job.question();
  const SearchResult result = *search(question);
  REQUIRE(result.best.size() == 10);
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const PlannedLayout& plan = result.best[i];
    CHECK(plan.memory.oom <= question.risk);
    CHECK(is_legal(violations(plan.layout, job.job, job.model, job.cluster, job.trainer)));
    if (i > 0) CHECK(result.best[i - 1].time.step <= plan.time.step);
  }
  CHECK(result.listed == static_cast<std::int64_t>(result.best.size()) + result.too_large +
                             result.refused + result.not_asked);
}

TEST_CASE("where nothing fits, the layout that needs least is given") {
  Job8 job("8xA100-40GB");
  job.model = *find_model("llama-3.1-405b", kData);
  const SearchResult result = *search(job.question(8, 2048));
  CHECK(result.best.empty());
  REQUIRE(result.smallest.has_value());
  CHECK(result.smallest->memory.oom > 0.999);
}

}  // namespace
}  // namespace trainwright
