// The smallest change that fits, as it is printed.
#include <doctest/doctest.h>

#include "trainwright/base/random.h"
#include "trainwright/base/text.h"
#include "trainwright/testing/memory_cases.h"

namespace trainwright {
namespace {

using namespace testing;

constexpr std::int64_t kWorld = 8;

const char* one_of(Random& random, std::initializer_list<const char*> texts) {
  return texts.begin()[random.integer(0, std::ssize(texts) - 1)];
}

// As people write layouts: much is left out, and the same is said in different words.
std::string any_words(Random& random) {
  std::vector<std::string> words;
  const auto say = [&](std::initializer_list<const char*> texts) {
    const std::string text = one_of(random, texts);
    if (!text.empty()) words.push_back(text);
  };
  say({"", "tp=1", "tp=2", "tp=2,sp", "tp=4,sp", "tp=2,etp=1", "TP = 2, SP"});
  say({"", "pp=1", "pp=2", "pp=2", "pp=4", "pp=2,vpp=2", "pp=2,schedule=1f1b",
       "pp=2,first_layers=5", "pp=2,count_loss", "pp=4,first_layers=1,last_layers=1",
       "pp=2,count_embedding=0"});
  say({"", "", "cp=2"});
  say({"", "", "dp=2", "dp=4", "dp=8", "dp_shard=4", "dp_shard=8", "dp_shard=2,dp_replicate=2"});
  say({"", "zero=0", "zero=1", "zero=2", "sharding=ddp", "sharding=zero", "fsdp", "fsdp,zero=2",
       "hsdp", "sharding=fsdp,zero=3"});
  say({"mbs=2", "mbs=4", "mbs=6", "mbs=8"});
  say({"", "gbs=16", "gbs=48", "gbs=64"});
  say({"seq=512", "seq=1024"});
  say({"", "", "recompute=none", "recompute=selective", "recompute=modules:norm"});
  say({"", "", "ep=2", "ep=2,etp=1"});
  say({"", "", "", "order=tp-cp-ep-pp-dp", "max_connections=1"});
  return join(words, ",");
}

struct Misfit {
  Case c;
  std::string words;
  LayoutContext context;
};

// Words that mean a legal layout, and an accelerator with too little memory for it.
std::optional<Misfit> any_misfit(Random& random) {
  const GptShape shape{.layers = 8, .hidden = 256, .heads = 8, .kv_heads = 8, .ffn = 1024};
  Misfit of{{.model = random.integer(0, 2) == 0 ? moe(4, 256, 0, 0, shape) : gpt(shape),
             .trainer = picked_trainer(
                 one_of(random, {"megatron@0.12", "megatron@0.14", "torchtitan@0.2", "pytorch",
                                 "deepspeed@0.16", "nanotron", "torchtitan@0.3"})),
             .cluster = h100s(kWorld)},
            any_words(random),
            {}};
  of.context = {.world = kWorld, .usual = usual_layout(of.c.trainer)};
  const auto read = parse_layout(of.words, of.context);
  if (!read) return std::nullopt;
  Case& c = of.c;
  c.layout = read->layout;
  if (!is_legal(violations(c.layout, c.job, c.model, c.cluster, c.trainer))) return std::nullopt;
  const auto estimate = estimate_memory(c.question());
  if (!estimate) return std::nullopt;
  const double share = 0.4 + 0.58 * random.real();
  const double driver = static_cast<double>(estimate->classes[estimate->worst].driver.value());
  c.cluster.groups[0].accelerator.memory_visible = Bytes(static_cast<std::int64_t>(driver * share));
  return of;
}

TEST_CASE("of 5,000 misfits each smallest change, given over the words, is the layout that fits") {
  Random random(7);
  int misfits = 0, changed = 0;
  while (misfits < 5000) {
    const auto of = any_misfit(random);
    if (!of) continue;
    ++misfits;
    const auto change = smallest_change_that_fits(of->c.question());
    if (!change) continue;
    ++changed;
    const std::string what = change_to(of->words, change->layout, of->context);
    INFO(of->words << " + " << what);
    const auto read = parse_layout(amended(of->words, what), of->context);
    REQUIRE(read.has_value());
    REQUIRE(read->layout == change->layout);
    Case c = of->c;
    c.layout = read->layout;
    REQUIRE(is_legal(violations(c.layout, c.job, c.model, c.cluster, c.trainer)));
    REQUIRE(fit_of(c.estimate().oom) == Fit::Fits);
  }
  MESSAGE(changed, " of ", misfits, " misfits have a change");
  CHECK(changed > 4000);
}

}  // namespace
}  // namespace trainwright
