#include "trainwright/outside/outside.h"

#include <doctest/doctest.h>

namespace trainwright {
namespace {

constexpr double kMiB = 1048576;

struct Known {
  Hardware hardware = *load_hardware(TRAINWRIGHT_SOURCE_DIR "/data");
  std::vector<Trainer> trainers = *load_trainers(TRAINWRIGHT_SOURCE_DIR "/data");
  OutsideFacts facts = *load_outside_facts(TRAINWRIGHT_SOURCE_DIR "/data");

  const Accelerator& accelerator(std::string_view name) const {
    return *find_accelerator(hardware, name);
  }
  OutsideBytes outside(std::string_view trainer, std::string_view on, std::string_view text,
                       const Model& model = {}) const {
    const Cluster cluster = *parse_cluster(on, hardware);
    const Trainer picked = *pick_trainer(trainer, trainers);
    LayoutContext context;
    context.usual = usual_layout(picked);
    context.world = accelerator_count(cluster);
    const Layout layout = parse_layout(text, context)->layout;
    return outside_bytes(layout, cluster, picked, model, facts);
  }
};
const Known& known() {
  static const Known all;
  return all;
}

double mib(RealBytes bytes) { return bytes.value() / kMiB; }

double one(std::string_view accelerator, CommunicatorShape shape, std::vector<Connection> uses,
           Version nccl, RealBytes BytesRange::* which = &BytesRange::central) {
  return mib(
      communicator_bytes(shape, uses, known().accelerator(accelerator), nccl, known().facts.nccl).*
      which);
}

TEST_CASE("a communicator of NCCL 2.18 on two A100 takes 544 MB as nccl issue 964 measured") {
  // 24 channels x (6 + 6) MiB of ring and a pool of 32 x 8 MiB, connected when it is made; tables
  // are not rounded yet: below 2 MiB.
  const double bytes = one("A100", {2, 2}, {Connection::Ring}, {2, 18, 0});
  CHECK(bytes == doctest::Approx(24 * 12 + 32 * 8).epsilon(0.005));
}

TEST_CASE("buffers of a ring on 8 GB200 are 576 MiB as sglang issue 30908 measured") {
  // 32 x (12 + 3 x 2 MiB of tables), and 4 MiB of the communicator's own.
  CHECK(one("GB200", {8, 4}, {Connection::Ring}, {2, 30, 0}) > 0);
  const double bytes = one("B200", {8, 8}, {Connection::Ring}, {2, 30, 0}, &BytesRange::low);
  CHECK(bytes == doctest::Approx(32 * 18 + 4));
}

TEST_CASE("an all-to-all inside a node connects every pair on 32 channels") {
  // nccl issue 1685: 8 H100, +3.28 GB = 3,128 MiB, NCCL's own code among it. 7 peers x 32 channels
  // x 12 MiB = 2,688; 32 x 6 of tables; 24 x 2 + 2 of NVLS's; 4 of its own.
  const double bytes = one("H100", {8, 8}, {Connection::AllToAll}, {2, 27, 0});
  CHECK(bytes == doctest::Approx(2688 + 192 + 50 + 4));
}

TEST_CASE("connecting everything at once costs more than connecting when needed") {
  for (const CommunicatorShape shape : {CommunicatorShape{8, 8}, {64, 8}, {16, 1}, {16384, 8}}) {
    CHECK(one("H100", shape, {Connection::Ring}, {2, 21, 0}) >
          one("H100", shape, {Connection::Ring}, {2, 22, 0}));
  }
}

TEST_CASE(
    "the table of a communicator grows by 620 bytes per channel and member, nothing else does") {
  // From 16,384 to 131,072 ranks on nodes of 8, 16 channels: 16 x 620 B x 114,688 = 1,085 MiB.
  const double small = one("H100", {16384, 8}, {Connection::Ring}, {2, 27, 0});
  const double large = one("H100", {131072, 8}, {Connection::Ring}, {2, 27, 0});
  CHECK(large - small == doctest::Approx(1085).epsilon(0.04));  // rounded to 2 MiB 48 times
}

TEST_CASE("ranges rise and a group of one costs nothing") {
  for (const auto* accelerator : {"V100", "A100", "H100", "B200", "RTX-4090"}) {
    for (const CommunicatorShape shape : {CommunicatorShape{2, 2}, {8, 8}, {16, 1}, {64, 8}}) {
      for (const Version nccl : {Version{2, 10, 0}, Version{2, 21, 0}, Version{2, 27, 0}}) {
        for (const Connection use : {Connection::Ring, Connection::Tree, Connection::Nvls,
                                     Connection::Pairs, Connection::AllToAll}) {
          const BytesRange range = communicator_bytes(
              shape, {use}, known().accelerator(accelerator), nccl, known().facts.nccl);
          CHECK(range.low.value() >= 0);
          CHECK(range.low <= range.central);
          CHECK(range.central <= range.high);
        }
      }
    }
  }
  CHECK(one("H100", {1, 1}, {Connection::Ring}, {2, 27, 0}) == 0);
}

TEST_CASE("one process without collectives has a context and nothing else") {
  const OutsideBytes alone = known().outside("pytorch", "1x4090", "mbs=1,gbs=1,seq=128");
  CHECK(alone.communicators.empty());
  CHECK(mib(alone.context.central) == doctest::Approx(0.6 * 1024));  // data/outside.json, 8.6
  CHECK(mib(known().outside("pytorch", "1xH100", "mbs=1,gbs=1,seq=128").context.high) ==
        doctest::Approx(1.1 * 1024));
}

TEST_CASE("on a mixed cluster the context is that of the accelerators with least memory") {
  const auto context = [](std::string_view on) {
    return known().outside("pytorch", on, "mbs=1,gbs=16,seq=128").context.central;
  };
  REQUIRE(context("8xH200") != context("8xA100-40GB"));
  CHECK(context("8xH200+8xA100-40GB") == context("8xA100-40GB"));
  CHECK(context("8xA100-40GB+8xH200") == context("8xA100-40GB"));
}

TEST_CASE("a trainer of 2022 loads all kernels with its context") {
  const OutsideBytes old =
      known().outside("megatron-lm-2022", "8xA100-80GB", "tp=8,mbs=1,gbs=8,seq=2048");
  // 1.4 GiB, and 0.1 of the library of collectives.
  CHECK(mib(old.context.central) == doctest::Approx(1.5 * 1024));
}

TEST_CASE("64 H100 with tp 8, pp 4, dp 2 open seven communicators of about 2 GiB") {
  const OutsideBytes outside =
      known().outside("megatron-core@0.16", "64xH100", "tp=8,sp,pp=4,mbs=1,gbs=64,seq=4096");
  std::vector<std::string> groups;
  for (const CommunicatorBytes& each : outside.communicators) groups.push_back(each.group);
  CHECK(groups == std::vector<std::string>{"world", "dp-cp", "dp", "tp", "pp", "model-parallel",
                                           "embedding"});
  const BytesRange inner = sum_of(outside.communicators, false);
  const BytesRange ends = sum_of(outside.communicators, true);
  CHECK(inner.central < ends.central);
  // The worked example of the same job by hand: low 1.4, central 2.2, high 4.0 GiB with the ends.
  CHECK(mib(ends.low) / 1024 == doctest::Approx(1.4).epsilon(0.1));
  CHECK(mib(ends.central) / 1024 == doctest::Approx(2.2).epsilon(0.1));
  CHECK(mib(ends.high) / 1024 == doctest::Approx(4.0).epsilon(0.1));
}

TEST_CASE("a second clone of the world is a second communicator") {
  const OutsideBytes outside =
      known().outside("deepspeed", "8xH100", "zero=1,mbs=1,gbs=8,seq=2048");
  REQUIRE(!outside.communicators.empty());
  CHECK(outside.communicators.front().group == "world");
  CHECK(outside.communicators.front().count == 2);
}

TEST_CASE("other vendors' libraries have a first communicator and further ones") {
  const OutsideBytes amd = known().outside("pytorch", "8xMI250X-GCD", "fsdp,mbs=1,gbs=8,seq=2048");
  REQUIRE(amd.communicators.size() == 2);
  CHECK(mib(amd.communicators[0].bytes.central) == doctest::Approx(1024));
  CHECK(mib(amd.communicators[1].bytes.central) == doctest::Approx(0.65 * 1024));
}

TEST_CASE("facts outside the allocator are diagnosed all at once") {
  const auto json = parse_json(
      R"({"context": {"lazy": {"unit": "MB", "by_capability": {"8.0": [2, 1, 3]}, "by_vendor": {},
          "source": "x"}}, "nccl": {"grain": 0}})",
      "facts");
  REQUIRE(json);
  const auto facts = read_outside_facts(*json, "facts");
  REQUIRE(!facts);
  CHECK(facts.error().diagnostics.size() > 5);
}

Model with_experts(std::int64_t hidden, std::int64_t experts) {
  Model model;
  model.hidden = hidden;
  LayerKind kind;
  MixtureOfExperts mixture;
  mixture.experts = experts;
  kind.feed_forward = mixture;
  model.kinds = {kind};
  return model;
}
double buffers_of(const OutsideBytes& outside, std::string_view name) {
  for (const CommunicatorBytes& of : outside.communicators) {
    if (of.group == name) return of.bytes.central.value();
  }
  return 0;
}

TEST_CASE("DeepEP's buffers are those of its own formulas") {
  const Model model = with_experts(7168, 256);
  const auto of = [&](const char* on, const char* layout) {
    return buffers_of(known().outside("megatron@0.16", on, layout, model), "deepep");
  };
  // 10 channels x 8 ranks x 256 tokens of 2 x 7,168 + 8 + 128 x 12 + 128 x 4 B.
  CHECK(of("8xH100", "ep=8,zero=1,seq=4096,dispatcher=deepep") == 10.0 * 8 * 256 * 16392);
  // Over eight nodes 288 tokens, and 10 x 8 x 128 tokens twice with 16 B more each.
  CHECK(of("64xH100", "ep=64,zero=1,seq=4096,dispatcher=deepep") ==
        10.0 * 8 * 288 * 16392 + 10.0 * 8 * 128 * 2 * 16408);
  CHECK(of("8xH100", "ep=8,zero=1,seq=4096") == 0);
  CHECK(of("8xH100", "ep=1,zero=1,seq=4096,dispatcher=deepep") == 0);
}

TEST_CASE("HybridEP's buffer holds every token of the group once") {
  const Model model = with_experts(7168, 256);
  const auto of = [&](const char* on, const char* layout) {
    return buffers_of(known().outside("megatron@0.16", on, layout, model), "hybridep");
  };
  // One domain of NVL72: 64 x 4,096 rows of 2 x 7,168 B, fp32 scores of 256 experts, 56 fp32
  // scales.
  CHECK(of("64xGB200", "ep=64,zero=1,seq=4096,dispatcher=hybridep") ==
        64.0 * 4096 * (14336 + 1024 + 224));
  // Two nodes: 16 x 4,096 rows with the scores of 128 experts; 4,096 rows to send, with those of
  // 256; 4,096 received; twice 4,096 on their way back.
  CHECK(of("16xH100", "ep=16,zero=1,seq=4096,dispatcher=hybridep") ==
        16.0 * 4096 * (14336 + 512 + 224) + 4096.0 * (14336 + 1024 + 224) +
            4096.0 * (14336 + 512 + 224) + 2 * 4096.0 * (14336 + 512));
  CHECK(of("8xH100", "ep=8,zero=1,seq=128,dispatcher=hybridep") ==  // at least 512 tokens
        8.0 * 512 * (14336 + 1024 + 224));
}

TEST_CASE("userbuffers hold a layer's whole input twelve times") {
  Model model;
  model.hidden = 16384;
  const auto of = [&](const char* trainer, const char* layout) {
    return buffers_of(known().outside(trainer, "8xH100", layout, model), "userbuffers");
  };
  // Eight of 8,192 x 16,384 numbers to gather in, a byte each in 8 bits, and four to reduce in.
  CHECK(of("megatron@0.16", "tp=8,sp,seq=8192,on=overlap-tp") == 8192.0 * 16384 * (8 * 2 + 4 * 2));
  CHECK(of("megatron@0.16", "tp=8,sp,seq=8192,on=overlap-tp,precision=fp8-tensorwise") ==
        8192.0 * 16384 * (8 + 4 * 2));
  // Transformer Engine before 2.7 gathers in six.
  CHECK(of("megatron@0.12", "tp=8,sp,seq=8192,on=overlap-tp") == 8192.0 * 16384 * (6 * 2 + 4 * 2));
  CHECK(of("megatron@0.16", "tp=8,sp,seq=8192") == 0);
  CHECK(of("torchtitan@0.3", "tp=8,sp,seq=8192,on=overlap-tp") == 0);
}

}  // namespace
}  // namespace trainwright
