// What ships in data/: every fact has a source, and no figure "with sparsity" slipped in.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "trainwright/cluster/cluster.h"

namespace trainwright {
namespace {

const Hardware& known() {
  static const Hardware hardware = load_hardware(TRAINWRIGHT_SOURCE_DIR "/data").value();
  return hardware;
}

const Accelerator& named(std::string_view name) {
  const Accelerator* found = find_accelerator(known(), name);
  REQUIRE_MESSAGE(found != nullptr, name);
  return *found;
}

// peak(a) / peak(b), or 0 where either is missing.
double ratio(const Accelerator& accelerator, ComputeType a, ComputeType b) {
  const auto rate_a = peak(accelerator, a);
  const auto rate_b = peak(accelerator, b);
  return rate_a && rate_b ? *rate_a / *rate_b : 0;
}

// Datasheets round to three digits.
bool near(double value, double wanted) { return std::abs(value / wanted - 1) < 0.025; }

TEST_CASE("the accelerators people train on are known by the names people use") {
  for (const char* name : {"V100",           "V100-16GB", "V100-32GB",   "A100",
                           "A100-40GB",      "A100-80GB", "A100-PCIe",   "A100-80GB-PCIe",
                           "A100-40GB-PCIe", "A800",      "H100",        "H100-SXM",
                           "H100-PCIe",      "H800",      "H20",         "H200",
                           "GH200",          "B200",      "B300",        "GB200",
                           "GB200-NVL72",    "GB300",     "GB300-NVL72", "MI250X",
                           "MI300X",         "MI325X",    "MI355X",      "Ascend-910B",
                           "910C",           "Gaudi2",    "Gaudi-3",     "L40S",
                           "RTX3090",        "RTX-4090",  "VR200",       "MI455X",
                           "GB10",           "A10",       "RTX3060",     "RTX3070",
                           "RTX3080",        "RTX4080",   "RTX5070",     "RTX5080",
                           "A4000",          "MI300A",    "Trainium2",   "Trn3",
                           "Ascend-950"}) {
    CHECK_MESSAGE(find_accelerator(known(), name) != nullptr, name);
  }
  CHECK(named("h100").name == "H100-SXM");
  CHECK(named("A100").name == "A100-SXM-80GB");
  CHECK(find_accelerator(known(), "H1000") == nullptr);
}

TEST_CASE("every fact of every accelerator and cluster has a source") {
  for (const Accelerator& accelerator : known().accelerators) {
    for (const char* fact : {"memory", "memory_visible", "memory_bandwidth", "peak", "scale_up",
                             "host_link", "node"}) {
      const auto source = accelerator.sources.find(fact);
      CHECK_MESSAGE((source != accelerator.sources.end() && source->second.size() > 10),
                    accelerator.name << ": " << fact);
    }
  }
  for (const Cluster& cluster : known().clusters) {
    CHECK_MESSAGE((cluster.sources.contains("nodes") && cluster.sources.contains("network")),
                  cluster.name);
  }
}

// The peak of a matrix unit is units x clock x operations per unit and clock. Those three come from
// architecture papers, not from the datasheets, so a sparse figure would be off by two.
TEST_CASE("16-bit peaks are units times clock times dense operations per clock") {
  struct Silicon {
    const char* name;
    double units;       // SMs or CUs
    double clock;       // boost, Hz
    double operations;  // dense 16-bit FLOPs per unit and clock, summed in fp32
  };
  // Volta, Ampere, Hopper and Ada white papers; CDNA 2, 3 and 4 white papers.
  for (const Silicon& chip :
       {Silicon{"V100-SXM2-32GB", 80, 1.53e9, 1024}, Silicon{"A100-SXM-80GB", 108, 1.41e9, 2048},
        Silicon{"A800", 108, 1.41e9, 2048}, Silicon{"A100-PCIe", 108, 1.41e9, 2048},
        Silicon{"H100-SXM", 132, 1.83e9, 4096}, Silicon{"H100-PCIe", 114, 1.62e9, 4096},
        Silicon{"H200", 132, 1.83e9, 4096}, Silicon{"GH200", 132, 1.83e9, 4096},
        Silicon{"L40S", 142, 2.49e9, 1024}, Silicon{"RTX-3090", 82, 1.695e9, 512},
        Silicon{"RTX-4090", 128, 2.52e9, 512}, Silicon{"RTX-5090", 170, 2.407e9, 512},
        Silicon{"A40", 84, 1.74e9, 1024}, Silicon{"T4", 40, 1.59e9, 1024},
        Silicon{"MI250X", 220, 1.7e9, 1024}, Silicon{"MI250X-GCD", 110, 1.7e9, 1024},
        Silicon{"MI300X", 304, 2.1e9, 2048}, Silicon{"MI325X", 304, 2.1e9, 2048},
        Silicon{"MI355X", 256, 2.4e9, 4096}}) {
    const double derived = chip.units * chip.clock * chip.operations;
    const double stated = peak(named(chip.name), ComputeType::Fp16).value().value();
    CHECK_MESSAGE(near(stated, derived), chip.name << ": " << stated << " against " << derived);
  }
}

TEST_CASE("NVIDIA's accelerators have a compute capability, the others none") {
  for (const Accelerator& accelerator : known().accelerators) {
    CHECK_MESSAGE((accelerator.compute_capability > 0) == (accelerator.vendor == "NVIDIA"),
                  accelerator.name);
  }
  CHECK(named("A100").compute_capability == 8.0);
  CHECK(named("H100").compute_capability == 9.0);
  CHECK(named("GB200").compute_capability == 10.0);
}

TEST_CASE("bf16 is as fast as fp16 wherever both exist") {
  for (const Accelerator& accelerator : known().accelerators) {
    const double share = ratio(accelerator, ComputeType::Fp16, ComputeType::Bf16);
    if (share == 0) continue;
    // Gaudi 3's matrix engine runs fp16 at a quarter of bf16 (white paper, 2024).
    CHECK_MESSAGE(share == doctest::Approx(accelerator.name == "Gaudi-3" ? 0.25 : 1).epsilon(0.001),
                  accelerator.name);
  }
}

TEST_CASE("tf32 is half of bf16") {
  for (const Accelerator& accelerator : known().accelerators) {
    const double share = ratio(accelerator, ComputeType::Tf32, ComputeType::Bf16);
    if (share != 0) CHECK_MESSAGE(near(share, 0.5), accelerator.name);
  }
}

TEST_CASE("fp8 is twice bf16") {
  for (const Accelerator& accelerator : known().accelerators) {
    const double share = ratio(accelerator, ComputeType::Fp8, ComputeType::Bf16);
    if (share == 0) continue;
    // Gaudi 3 gains nothing from fp8 (white paper, 2024); Rubin and Trainium3 were built for fewer
    // bits, Trainium2 is a little below.
    const std::map<std::string, double> otherwise = {
        {"Gaudi-3", 1}, {"VR200", 4.375}, {"Trainium3", 3.75}, {"Trainium2", 1.95}};
    const auto own = otherwise.find(accelerator.name);
    CHECK_MESSAGE(near(share, own == otherwise.end() ? 2 : own->second), accelerator.name);
  }
}

TEST_CASE("fp4 is twice fp8, and three times on Blackwell Ultra") {
  std::set<std::string> seen;
  for (const Accelerator& accelerator : known().accelerators) {
    const double share = ratio(accelerator, ComputeType::Fp4, ComputeType::Fp8);
    if (share == 0) continue;
    const bool ultra = accelerator.name == "B300" || accelerator.name == "GB300";
    // A GeForce sums fp8 up in fp32 at half the rate, fp4 at the whole.
    const bool game = accelerator.name.starts_with("RTX-50") || accelerator.name == "GB10";
    const bool same = accelerator.name == "Trainium3";
    CHECK_MESSAGE(near(share, game ? 4 : ultra ? 3 : same ? 1 : 2), accelerator.name);
    // fp6 shares the unit of fp8 at NVIDIA and that of fp4 at AMD.
    const double six = ratio(accelerator, ComputeType::Fp6, ComputeType::Fp8);
    if (six != 0) CHECK_MESSAGE(near(six, accelerator.vendor == "AMD" ? 2 : 1), accelerator.name);
    seen.insert(accelerator.name);
  }
  CHECK(seen == std::set<std::string>{"Ascend-950DT", "Ascend-950PR", "B200", "B300", "GB10",
                                      "GB200", "GB300", "MI350X", "MI355X", "MI455X", "RTX-5070",
                                      "RTX-5070-Ti", "RTX-5080", "RTX-5090", "RTX-PRO-6000",
                                      "Trainium3", "VR200"});
}

TEST_CASE("Blackwell Ultra gave up fp64 and int8") {
  for (const char* name : {"B300", "GB300"}) {
    CHECK(ratio(named(name), ComputeType::Fp64, ComputeType::Fp32) < 0.05);
    CHECK(ratio(named(name), ComputeType::Int8, ComputeType::Fp8) < 0.05);
  }
  CHECK(near(ratio(named("B200"), ComputeType::Int8, ComputeType::Fp8), 1));
}

// NVIDIA prints 360 PFLOP/s of bf16 and 720 of fp8 for a rack of 72, with sparsity.
TEST_CASE("a rack of 72 is half of what the vendor prints with sparsity") {
  for (const char* name : {"GB200", "GB300"}) {
    CHECK(72 * 2 * peak(named(name), ComputeType::Bf16).value().value() == doctest::Approx(360e15));
    CHECK(72 * 2 * peak(named(name), ComputeType::Fp8).value().value() == doctest::Approx(720e15));
  }
}

// Matrix FLOPs per byte of memory traffic: 37 on the H20, cut down for export, to about 500 on
// MI455X. Dense peaks of training parts lie between 70 and 515; sparse ones reach 590 to 1,000.
TEST_CASE("dense 16-bit peak over memory bandwidth is plausible") {
  for (const Accelerator& accelerator : known().accelerators) {
    const auto half =
        accelerator.peak.contains(ComputeType::Bf16) ? ComputeType::Bf16 : ComputeType::Fp16;
    const double intensity =
        peak(accelerator, half).value().value() / accelerator.memory_bandwidth.value();
    const double least = accelerator.name == "H20" ? 36 : 70;
    CHECK_MESSAGE((intensity >= least && intensity <= 515), accelerator.name << ": " << intensity);
  }
}

TEST_CASE("scale-up links are half of what vendors print for both ways") {
  struct Printed {
    const char* name;
    double both_ways;  // GB/s, datasheets
  };
  for (const Printed& link :
       {Printed{"V100", 300}, Printed{"A100", 600}, Printed{"A800", 400}, Printed{"H100", 900},
        Printed{"H800", 400}, Printed{"H20", 900}, Printed{"H200", 900}, Printed{"B200", 1800},
        Printed{"B300", 1800}, Printed{"GB200", 1800}, Printed{"GB300", 1800},
        Printed{"MI300X", 896}, Printed{"MI325X", 896}, Printed{"MI355X", 1075.2},
        Printed{"Gaudi-3", 1050}}) {
    CHECK_MESSAGE(named(link.name).scale_up.back().bandwidth.value() ==
                      doctest::Approx(link.both_ways / 2 * 1e9),
                  link.name);
  }
}

TEST_CASE("a program sees a little less memory than is built in") {
  for (const Accelerator& accelerator : known().accelerators) {
    const double share = accelerator.memory_visible / accelerator.memory;
    // GDDR memory keeps its check bits in itself: a sixteenth.
    CHECK_MESSAGE((share > 0.9 && share <= 1), accelerator.name << ": " << share);
  }
}

TEST_CASE("memory is faster than links, links faster than adapters") {
  for (const Accelerator& accelerator : known().accelerators) {
    const Group group = usual_group(accelerator, 2, accelerator.scale_up.back().domain);
    // Of an Ascend 950PR, whose memory is cheap, not by much.
    CHECK(accelerator.memory_bandwidth > 1.5 * group.tiers.front().bandwidth);
    for (std::size_t t = 1; t < group.tiers.size(); ++t) {
      CHECK_MESSAGE(group.tiers[t].bandwidth <= group.tiers[t - 1].bandwidth, accelerator.name);
    }
  }
}

}  // namespace
}  // namespace trainwright
