#include "trainwright/search/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "trainwright/testing/layout_cases.h"
#include "trainwright/testing/search_cases.h"
#include "trainwright/testing/slow_search.h"

namespace trainwright {
namespace {

const std::string kData = TRAINWRIGHT_SOURCE_DIR "/data";

using testing::Job8;

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

TEST_CASE("tokens are split between blocks where the trainer can, and whole elsewhere") {
  Job8 job;
  const auto all_have_sp = [&](bool sp) {
    for (const Layout& layout : list_layouts(job.question())) {
      if (layout.tp > 1 && layout.sp != sp) return false;
    }
    return true;
  };
  CHECK(all_have_sp(true));
  for (const char* name : {"deepspeed", "accelerate", "accelerate-deepspeed"}) {
    CAPTURE(name);
    job.trainer = *find_trainer(name, kData);
    CHECK(all_have_sp(false));
  }
}

TEST_CASE("context parallelism is listed in the kind that the trainer has") {
  Job8 job;
  for (const auto& [name, kind] :
       {std::pair("deepspeed", CpKind::Ulysses), std::pair("torchtitan", CpKind::AllGather)}) {
    CAPTURE(name);
    job.trainer = *find_trainer(name, kData);
    std::set<CpKind> kinds;
    for (const Layout& layout : list_layouts(job.question())) {
      if (layout.cp > 1) kinds.insert(layout.cp_kind);
    }
    CHECK(kinds == std::set{kind});
  }
}

// Llama 3.1 405B trained on 16 pipeline ranks of 7, 8, ..., 8, 7 layers (arXiv:2407.21783).

TEST_CASE("a search gives legal layouts that fit, fastest first, and proves the first") {
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
  CHECK(result.end == SearchEnd::Found);
  CHECK(result.proven);
  CHECK(result.bound == result.best.front().time.step);
  CHECK(result.space == std::ssize(list_layouts(question)));
  CHECK(result.space == count_layouts(question));
  CHECK(result.evaluated < result.space);
  CHECK(result.simulated <= result.timed);
  CHECK(result.timed <= result.evaluated);
}

TEST_CASE("a search that remembers gives the same answer and what it was found among") {
  const Job8 job;
  SearchQuestion question = job.question();
  const SearchResult plain = *search(question);
  CHECK(plain.considered.empty());
  question.remember = true;
  const SearchResult result = *search(question);
  REQUIRE(result.best.size() == plain.best.size());
  CHECK(result.best.front().layout == plain.best.front().layout);
  // Thinned out evenly: every third where up to 3 x kMostConsidered were looked at.
  const std::int64_t stride = (result.evaluated + kMostConsidered - 1) / kMostConsidered;
  CHECK(std::ssize(result.considered) == (result.evaluated + stride - 1) / stride);
  for (const Considered& of : result.considered) {
    const PlannedLayout exact = *planned(question, of.layout);
    const Bytes driver = exact.memory.classes[exact.memory.worst].driver;
    CHECK(of.driver <= driver);
    CAPTURE(to_text(of.layout));
    CHECK(of.step <= exact.time.step * (1 + 1e-9));
    if (of.timed) CHECK(of.step / exact.time.step == doctest::Approx(1).epsilon(1e-9));
    if (&of - result.considered.data() > 40) break;  // a replay each
  }
  std::int64_t refused = 0;
  for (const Refusal& of : result.refusals) refused += of.layouts;
  CHECK(result.refused > 0);
  CHECK(refused >= result.refused);  // each by one rule and more
}

TEST_CASE("a budget ends a search with what it has, and the bound holds for what it has not seen") {
  const Job8 job;
  SearchQuestion question = job.question();
  const Seconds optimum = search(question)->best.front().time.step;
  question.budget = 1;
  const SearchResult stopped = *search(question);
  CHECK(!stopped.proven);
  REQUIRE(!stopped.best.empty());
  CHECK(stopped.bound <= optimum);
  CHECK(stopped.best.front().time.step >= optimum);
}

TEST_CASE("a degree that changes takes along what hangs on it") {
  const LayoutContext context{64, {}};
  const auto layout = [&](const char* text) { return parse_layout(text, context)->layout; };
  const Layout today = layout("tp=4,pp=4,zero=1,mbs=1,gbs=64,seq=4096");
  const auto changed = [&](const char* text) { return changed_knobs(today, layout(text)); };
  // dp is 2 then, and etp is tp.
  CHECK(changed("tp=8,pp=4,zero=1,mbs=1,gbs=64,seq=4096") == Flags<Knob>{Knob::Tp});
  CHECK(changed("tp=4,pp=8,vpp=2,zero=1,mbs=1,gbs=64,seq=4096,schedule=interleaved-1f1b") ==
        Flags<Knob>{Knob::Pp});
  CHECK(changed("tp=4,pp=4,vpp=2,zero=1,mbs=1,gbs=64,seq=4096") == Flags<Knob>{Knob::Vpp});
  CHECK(changed("tp=4,pp=4,mbs=2,gbs=64,seq=4096,recompute=full") ==
        Flags<Knob>{Knob::Mbs, Knob::Recompute, Knob::Sharding});
  // With one copy of the weights nobody shares them.
  CHECK(changed("tp=4,pp=16,mbs=1,gbs=64,seq=4096") == Flags<Knob>{Knob::Pp});
  CHECK(value_of(Knob::Sharding, today) == "zero1");
  // Without a pipeline nothing is dealt out, whatever counts as a layer.
  CHECK(changed_knobs(layout("tp=4,mbs=1,gbs=64,seq=4096"),
                      layout("tp=4,mbs=1,gbs=64,seq=4096,count_embedding,count_loss"))
            .empty());
}

TEST_CASE("sizes are divisors of a node, whole nodes, then numbers of small factors") {
  const std::vector<std::int64_t> sizes = sizes_up_to(8 * 20, 8);
  CHECK(sizes == std::vector<std::int64_t>{1,  2,  4,  8,  16,  24,  32,  40,  48,  56, 64,
                                           72, 80, 88, 96, 104, 112, 120, 128, 144, 160});
}

TEST_CASE(
    "the fewest accelerators that reach a rate are fewer for half of it, and none for too much") {
  const Job8 job("32xH100");
  const Hardware hardware = *load_hardware(Job8::kData);
  const ClusterOf of = [&](std::int64_t count) -> std::optional<Cluster> {
    return *parse_cluster(std::to_string(count) + "xH100", hardware);
  };
  const SearchQuestion question = job.question();
  const StepTime all = search(question)->best.front().time;
  const double rate = 4096.0 * 64 / all.step.value();
  const auto half = *fewest(question, of, rate / 2);
  REQUIRE(half.has_value());
  CHECK(accelerator_count(half->cluster) <= 24);
  CHECK(4096.0 * 64 / half->plan.time.step.value() >= rate / 2);
  CHECK(!*fewest(question, of, rate * 1.01));
  // What does not beat the peak is not even tried: 7 B x 6 FLOPs a token.
  CHECK(!*fewest(question, of, 32 * 989e12 / (6 * 6.6e9)));
}

// Of layouts with four pipeline ranks.
std::set<std::int64_t> chunks_listed(const std::string& trainer, const Limits& limits = {},
                                     bool stage_by_stage = false) {
  Job8 job;
  job.trainer = *find_trainer(trainer, Job8::kData);
  SearchQuestion question = job.question();
  question.limits = limits;
  std::set<std::int64_t> chunks;
  for (const Layout& layout : list_layouts(question)) {
    if (layout.pp == 4 && layout.layers.empty() != stage_by_stage) chunks.insert(layout.vpp);
  }
  return chunks;
}

TEST_CASE("chunks whose layers do not come out even are listed where the trainer deals them out") {
  // Megatron's rule even-split-chunks: 32 layers on 4 x vpp stages.
  CHECK(chunks_listed("megatron-core") == std::set<std::int64_t>{1, 2, 4, 8});
  // By a list of all stages the largest of 4 x 3 has 3; of 4 x 5 to 4 x 7 it has 2 as of 4 x 4.
  CHECK(chunks_listed("megatron-core", {}, true) == std::set<std::int64_t>{3});
  // torchtitan counts both ends, 34. The largest of 4 x 2 stages has 5, of 4 x 3 and 4 x 4 3, and
  // of 4 x 5 to 4 x 8 2: the fewest chunks of each.
  CHECK(chunks_listed("torchtitan") == std::set<std::int64_t>{1, 2, 3, 5});
  CHECK(chunks_listed("torchtitan", {*parse_limit("vpp=7", "test")}) == std::set<std::int64_t>{7});
}

// torchtitan 0.3 config: activation_checkpoint.mode is selective by operators unless said
// otherwise.
TEST_CASE("recompute by operators is listed where the trainer has it") {
  for (const auto& [trainer, has] :
       {std::pair("torchtitan", true), {"nemo-automodel", true}, {"megatron-core", false}}) {
    CAPTURE(trainer);
    Job8 job;
    job.trainer = *find_trainer(trainer, Job8::kData);
    const std::vector<Layout> layouts = list_layouts(job.question());
    CHECK(has == std::any_of(layouts.begin(), layouts.end(), [](const Layout& layout) {
            return layout.recompute.kind == RecomputeKind::OpSelective;
          }));
  }
}

// A bound with all switches on speaks for every layout below it (search/late.h).
TEST_CASE("no calibration that is read makes an overlap cost time") {
  for (const StackPrior& known : stack_priors()) {
    CAPTURE(known.name);
    const std::string name(known.name);
    if (name == "exposed" || name == "data_exposed") CHECK(known.most <= 1);
    if (name == "in_node" || name == "network" || name == "reductions") CHECK(known.least >= 1);
  }
}

// data/trainers/megatron-core-0.8.json, 0.12: te-fused computes, keeps and moves least.
TEST_CASE("of losses that can be asked for those are listed that no other one beats") {
  Job8 job;
  SearchQuestion question = job.question();
  question.also = {Also::Loss};
  for (const Layout& layout : list_layouts(question)) CHECK(layout.loss == "te-fused");
  question.limits = {*parse_limit("loss=vocabulary-parallel", "--fix")};
  for (const Layout& layout : list_layouts(question)) {
    CHECK(layout.loss == "vocabulary-parallel");
  }
}

// data/trainers/megatron-core-0.18.json: graphs.experts is "-"; 0.8 has no flag for graphs at all.
TEST_CASE("graphs are listed where the trainer has a setting for them") {
  Job8 job;
  const auto has = [&](Switch what) {
    SearchQuestion question = job.question();
    question.also = {Also::Graphs};
    question.limits = {*parse_limit("mbs=1", "test"), *parse_limit("recompute=none", "test")};
    const std::vector<Layout> all = list_layouts(question);
    return std::any_of(all.begin(), all.end(), [&](const Layout& of) { return of.on.has(what); });
  };
  CHECK((has(Switch::Graphs) && has(Switch::PartGraphs)));
  job.model = *find_model("mixtral-8x7b", kData);
  CHECK((!has(Switch::Graphs) && has(Switch::PartGraphs)));
  job.trainer = *find_trainer("megatron-core@0.8", kData);
  CHECK(!has(Switch::Graphs));
}

TEST_CASE("what changes numerics is listed where it is allowed, and nowhere else") {
  Job8 job;
  SearchQuestion question = job.question();
  question.also = kUsualAxes;
  question.limits = {*parse_limit("tp=2", "test"), *parse_limit("mbs=1", "test")};
  const std::int64_t usual = count_layouts(question);
  question.also.insert(Also::Bf16Gradients);
  CHECK(count_layouts(question) == 2 * usual);
}

TEST_CASE("a space is counted as it is listed") {
  Job8 job;
  job.model = *find_model("mixtral-8x7b", kData);
  SearchQuestion question = job.question();
  question.limits = {*parse_limit("mbs=1", "test"), *parse_limit("recompute=none", "test"),
                     *parse_limit("tp=2", "test")};
  question.also = kUsualAxes;
  const std::vector<Layout> listed = list_layouts(question);
  CHECK(count_layouts(question) == std::ssize(listed));
  std::set<std::string> seen;
  for (const Layout& layout : listed) CHECK(seen.insert(to_text(layout)).second);
}

TEST_CASE("in a hurry a layout that fits is found before the space is met, and its bound holds") {
  Job8 job;
  SearchQuestion question = job.question();
  question.also = {Also::Overlaps, Also::Order};
  const Seconds optimum = search(question)->best.front().time.step;
  // Before any branch was bounded time presses, and soon it is up.
  for (const std::int64_t most : {1, 20, 200}) {
    CAPTURE(most);
    std::int64_t asked = 0;
    question.stop = [&](std::int64_t branches) {
      ++asked;
      return branches > most ? SearchStop::Time : SearchStop::Soon;
    };
    const SearchResult result = *search(question);
    CHECK(result.stopped == SearchStop::Time);
    CHECK(!result.proven);
    REQUIRE(!result.best.empty());
    CHECK(result.bound <= optimum);
    CHECK(result.best.front().time.step >= optimum);
  }
}

TEST_CASE("where nothing fits, a search that is stopped while it looks for the smallest ends") {
  Job8 job("2xRTX-4090");
  job.trainer = *find_trainer("pytorch", kData);
  SearchQuestion question = job.question(16);
  // Asked last while the smallest is looked for, when all has been searched.
  std::int64_t all = 0, asked = 0;
  question.stop = [&](std::int64_t) {
    ++all;
    return SearchStop::Not;
  };
  REQUIRE(search(question)->smallest.has_value());
  question.stop = [&](std::int64_t) { return ++asked >= all ? SearchStop::Time : SearchStop::Not; };
  const SearchResult result = *search(question);
  CHECK(result.stopped == SearchStop::Time);
  CHECK(result.end == SearchEnd::NothingFits);
  CHECK(!result.smallest.has_value());
}

TEST_CASE("recompute that is not looked at unasked is listed where it is fixed") {
  Job8 job;
  job.trainer = *find_trainer("pytorch", Job8::kData);
  SearchQuestion question = job.question();
  for (const char* kind : {"feed-forward", "every-nth"}) {
    CAPTURE(kind);
    const auto is = [&](const Layout& layout) { return name_of(layout.recompute.kind) == kind; };
    question.limits = {};
    const std::vector<Layout> unasked = list_layouts(question);
    CHECK(std::none_of(unasked.begin(), unasked.end(), is));
    question.limits = {*parse_limit(std::string("recompute=") + kind, "--fix")};
    const std::vector<Layout> fixed = list_layouts(question);
    CHECK(!fixed.empty());
    CHECK(std::all_of(fixed.begin(), fixed.end(), is));
  }
}

// docs/trainers.md: with the default loss ten steps end at 2.95288 instead of 2.95261.
TEST_CASE("a split backward comes with a loss under which torchtitan trains as it should") {
  Job8 job;
  job.trainer = *find_trainer("torchtitan@0.3", kData);
  const auto losses = [&](const std::vector<Layout>& layouts, bool split) {
    std::set<std::string> found;
    for (const Layout& layout : layouts) {
      if (facts_of(layout.schedule).splits_backward == split) found.insert(layout.loss);
    }
    return found;
  };
  SearchQuestion question = job.question();
  CHECK(losses(list_layouts(question), true) == std::set<std::string>{"loss-parallel"});
  CHECK(losses(list_layouts(question), false) == std::set<std::string>{""});
  question.limits = {*parse_limit("loss=loss-parallel", "--fix")};
  CHECK(losses(list_layouts(question), false) == std::set<std::string>{"loss-parallel"});
  question.limits = {*parse_limit("loss=chunked", "--fix")};
  CHECK(losses(list_layouts(question), true).empty());
}

TEST_CASE("a search keeps to what is fixed beforehand") {
  const Job8 job;
  SearchQuestion question = job.question();
  for (const char* text : {"tp=2..4", "recompute=full", "mbs=..2"}) {
    question.limits.push_back(*parse_limit(text, "--fix"));
  }
  const std::vector<Layout> listed = list_layouts(question);
  CHECK(!listed.empty());
  for (const Layout& layout : listed) {
    CHECK((layout.tp == 2 || layout.tp == 4));
    CHECK(layout.recompute.kind == RecomputeKind::Full);
    CHECK(layout.mbs <= 2);
  }
  // And leaves out nothing else.
  question.limits.clear();
  std::size_t meeting = 0;
  for (const Layout& layout : list_layouts(question)) {
    meeting += (layout.tp == 2 || layout.tp == 4) && layout.mbs <= 2 &&
               layout.recompute.kind == RecomputeKind::Full;
  }
  CHECK(meeting == listed.size());
}

TEST_CASE("limits are read as they are written, and what is none has a hint") {
  for (const char* text : {"tp=8", "vpp=..4", "mbs=2..", "dp=8..64", "sharding=fsdp",
                           "dispatcher=flex", "on=overlap-ep+part-graphs"}) {
    CHECK(to_text(*parse_limit(text, "--fix")) == text);
  }
  for (const char* text : {"tp", "tp=x", "tp=4..2", "tp=..", "banana=3", "recompute=most",
                           "on=overlap-ep+most", "dispatcher=most"}) {
    const auto limit = parse_limit(text, "--fix");
    REQUIRE(!limit.has_value());
    CHECK(!limit.error().diagnostics.front().hint.empty());
  }
}

TEST_CASE("where nothing fits, the layout that needs least is given") {
  Job8 job("8xA100-40GB");
  job.model = *find_model("llama-3.1-405b", kData);
  const SearchResult result = *search(job.question(8, 2048));
  CHECK(result.best.empty());
  CHECK(result.end == SearchEnd::NothingFits);
  REQUIRE(result.smallest.has_value());
  CHECK(result.smallest->memory.oom > 0.999);
}

TEST_CASE("a search that may take more risk lists what was tight") {
  Job8 job("8xA100-40GB");
  const SearchResult careful = *search(job.question(8, 4096));
  CHECK(careful.tight > 0);
  SearchQuestion bold = job.question(8, 4096);
  bold.risk = 0.5;
  CHECK(search(bold)->tight == 0);
}

TEST_CASE("where nothing divides, that is said") {
  // Three sequences over the 8 ranks that 5 heads and an odd sequence leave to data parallelism.
  Job8 job;
  job.model = testing::gpt({.layers = 1, .hidden = 40, .heads = 5, .kv_heads = 5, .ffn = 35});
  const SearchResult result = *search(job.question(3, 63));
  CHECK(result.space == 0);
  CHECK(result.end == SearchEnd::NothingDivides);
  CHECK(!result.refusal.has_value());
}

}  // namespace
}  // namespace trainwright
