#pragma once
// Device memory that the trainer's allocator does not hold: the context with the kernels that
// libraries load, and the buffers of communicators. nvidia-smi counts both, and both must fit.
//
// The context is one per process and known by generation of accelerator. A communicator is one per
// group of ranks that a trainer opens; two groups with the same members have one each. NCCL
// allocates, in MiB, for a group of n ranks, g of them on each of N nodes, with C channels:
//
//   tables      A (pad(608 B n) + pad(8 B (n + 1 + g)) + pad(4 B n))       A = next power of 2 of C
//   ring        C (s + r)                                on one node
//               C ((g - 1) / g (s + r) + 20 / g)         on several, the mean of a node's ranks
//   tree        twice the links inside the node, 2 (N - 1) / N network links; what a ring has
//               connected already is shared
//   nvls        min(g, 32) x 2 x its channels            in-switch reductions, 3 ranks and more
//   nvls-tree   C 2 (N - 1) / N 20                       the same over several nodes
//   pairs       P (s + r) for each peer on the node, one pool for all peers beyond
//
// with s, r the buffers of a sender and a receiver (2 and 10 MiB over NVLink; 6 and 6 on A100,
// which reads), 20 those of a network link, pad: up to 2 MiB since 2.19. Before 2.22 all of it is
// connected when the communicator is made; since then each way when it is first used.
// Source: NCCL 2.18.5 to 2.30.7, src/init.cc, src/channel.cc, src/transport/{p2p,net,nvls}.cc,
// src/graph; the constants and their sources stand in data/outside.json.
//
// Two more take memory of the device themselves, which stands from their first use on; they are
// listed with the communicators. Of R ranks that exchange tokens, T tokens of a micro-batch on
// each, rows of h numbers, E experts, D ranks of the group in one NVLink domain, n = R / D domains:
//
//   deepep      10 channels x (min(R, 8) x 256 to 720 tokens [+ R / 8 x 2 x 128 tokens]), each of
//               2 h B and 2 KiB of scores and scales
//   hybridep    T R (2 h + 4 E / n + h / 32) B, all tokens of the group [+ T (2 h (3 n - 2) + ...)
//               between domains]; nccl-ep, whose high-throughput mode is made of it, is taken alike
//   userbuffers T tp h (8 x 2 + 4 x 2) B for overlapped tensor parallelism: what products gather,
//               1 B in place of 2 in 8 bits, and reduce; as many as `gather_buffers` and
//               `reduce_buffers` of the trainer's file. A ring's reduction would take twice as much
//
// Source: DeepEP 1.2.1 csrc/config.hpp, deep_ep/buffer.py; DeepEP hybrid-ep
// csrc/hybrid_ep/buffer/{intranode,internode_doca}.cu; Transformer Engine 2.9
// pytorch/module/base.py initialize_ub, common/comm_gemm_overlap/comm_gemm_overlap.cpp. Not
// counted: NVSHMEM's heap.
//
// Which ways a library takes depends on sizes it alone knows, so every figure is a range: low has
// rings only, central what the trainer's collectives usually take, high all ways there are.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"
#include "trainwright/base/units.h"
#include "trainwright/layout/layout.h"

namespace trainwright {

struct BytesRange {
  RealBytes low, central, high;
  friend bool operator==(const BytesRange&, const BytesRange&) = default;
};
BytesRange operator+(const BytesRange& a, const BytesRange& b);
BytesRange operator*(const BytesRange& range, double times);

// The context of one process by NVIDIA's number of the architecture: that of the last entry that is
// not above the accelerator's. Other vendors have one entry each.
struct ContextFacts {
  std::map<double, BytesRange> by_capability;
  std::map<std::string, BytesRange> by_vendor;
  BytesRange all_kernels;         // where all of them are loaded with the context
  BytesRange first_communicator;  // kernels of the library of collectives
};

// NCCL's sizes; bytes unless said otherwise.
struct NcclFacts {
  double grain = 0;                                            // buffers are multiples of it
  double table_member = 0, table_pointer = 0, table_rank = 0;  // per channel and member
  std::map<double, std::int64_t> channels;  // on one node with NVLink, by capability
  std::int64_t channels_pcie = 0;
  std::map<std::int64_t, std::int64_t> channels_across;  // by members on each node
  double send = 0, receive = 0;                          // over NVLink or PCIe
  double send_reading = 0, receive_reading = 0;  // where the receiver reads (capability 8.0)
  double network_link = 0;                       // both ends
  std::int64_t pair_channels = 0;                // to each peer on one node
  double pool_near = 0, pool_far = 0;            // per channel: of peers on one node, and beyond
  double nvls_channel = 0,
         nvls_channel_before = 0;                // per member of the node, since 2.22 and before
  std::map<double, std::int64_t> nvls_channels;  // by capability
  std::int64_t nvls_least = 3, nvls_most = 32;   // members of a node
};

struct OutsideFacts {
  ContextFacts context;
  NcclFacts nccl;
  // Other vendors' libraries: the first communicator of a process and each further one.
  std::map<std::string, std::pair<BytesRange, BytesRange>> others;
};
Result<OutsideFacts> read_outside_facts(const Json& json, const std::string& origin);
Result<OutsideFacts> load_outside_facts(const std::string& data_directory);

// How one communicator lies in the cluster.
struct CommunicatorShape {
  std::int64_t members = 1;   // n
  std::int64_t per_node = 1;  // g
};
// Of one NCCL communicator on one rank, the mean over the ranks of a node. A group of one costs
// nothing.
BytesRange communicator_bytes(const CommunicatorShape& shape, const std::vector<Connection>& uses,
                              const Accelerator& accelerator, Version nccl, const NcclFacts& facts);

struct CommunicatorBytes {
  std::string group;  // as the trainer's file names it
  CommunicatorShape shape;
  std::int64_t count = 1;
  bool ends_only = false;  // only ranks that share an embedding have it: a tied head, MTP
  BytesRange bytes;        // of all `count`
};
struct OutsideBytes {
  BytesRange context;  // with the kernels of collectives, where there are any
  std::vector<CommunicatorBytes> communicators;
};
// What every rank of the job has, on the accelerators of the cluster's first group. Groups of
// experts are opened only where the model has any. O(groups that the trainer opens).
OutsideBytes outside_bytes(const Layout& layout, const Cluster& cluster, const Trainer& trainer,
                           const Model& model, const OutsideFacts& facts);
// Of all communicators of a rank.
BytesRange sum_of(const std::vector<CommunicatorBytes>& communicators, bool shares_embedding);

Json to_json(const BytesRange& range);
Json to_json(const OutsideBytes& outside);

}  // namespace trainwright
