#pragma once
// The libraries a trainer stands on and the communicators it opens. Part of trainer.h: include that
// one.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/names.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {

// Versions decide what lies outside the allocator (outside.h) and how late it gets back what a
// collective has used. 0.0: there is none, or it is not known.
struct LibraryFacts {
  Version torch, nccl, cuda, transformer_engine;
  // Generation of FlashAttention: 1, 2, 3; 0: the accelerator's best kernel. That one also runs
  // from a compute capability on, 0 nowhere (cuDNN's, where PyTorch is told to prefer it).
  std::int64_t flash = 0;
  double best_attention_from = 0;
  double attention_takes = 1;          // of that one's time, where another kernel stands in for it
  bool torch_is_trainer = false;       // PyTorch itself: of the version that is asked for
  bool avoids_record_streams = false;  // TORCH_NCCL_AVOID_RECORD_STREAMS is set
  std::string source;
};
inline constexpr IntegerRange kFlashGenerations{.least = 0, .most = 3};
// The NCCL that PyTorch's own wheels of that version come with.
Version nccl_of_torch(Version torch);
// Tensors of a collective are free again only when the device has come by it, while the host is
// already further: PyTorch before 2.8, which calls recordStream (pull requests 76861 and 148590).
bool records_streams(const LibraryFacts& libraries);
// All kernels are loaded with the context: CUDA before 11.7 cannot load them when first called, and
// before 12.2 only programs that ask for it do, as PyTorch does from 1.13 on (pull request 86509).
bool loads_all_kernels(const LibraryFacts& libraries);

// The ways along which the ranks of a group are connected, as its collectives need them.
enum class Connection : std::uint8_t {
  Ring,      // all-gather, reduce-scatter, large all-reduce
  Tree,      // small all-reduce
  Nvls,      // reductions inside NVLink's switches
  Pairs,     // send and receive between neighbours
  AllToAll,  // every pair
};
std::span<const std::string_view> all_names(Connection);

struct Communicator {
  std::string group;             // of group_names(): "tp", "dp-cp", "p2p"
  std::vector<Connection> uses;  // as `usual_connections` where the file does not say
  std::int64_t count = 1;        // of the same members: copies that a trainer makes
  std::string source;
};
// What the collectives of such a group usually are.
std::vector<Connection> usual_connections(std::string_view group);

}  // namespace trainwright
