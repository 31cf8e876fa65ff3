// Buffers that dispatchers of tokens and Userbuffers take from the device themselves and keep.
#include "trainwright/outside/standing_buffers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace trainwright::detail {
namespace {

constexpr double real(std::int64_t value) { return static_cast<double>(value); }

// What a rank hands to its dispatcher.
struct Dispatched {
  double tokens = 0;  // of one micro-batch
  double width = 0;   // numbers of a token
  std::int64_t experts = 0;
  std::int64_t ranks = 1;   // that send to each other
  std::int64_t domain = 1;  // of these, in one NVLink domain
};

std::optional<Dispatched> dispatched(const Layout& layout, const Model& model,
                                     const Cluster& cluster) {
  Dispatched of;
  for (const LayerKind& kind : model.kinds) {
    const auto* experts = std::get_if<MixtureOfExperts>(&kind.feed_forward);
    if (experts == nullptr) continue;
    of.experts = std::max(of.experts, experts->experts);
    of.width = std::max(of.width, real(experts->latent > 0 ? experts->latent : model.hidden));
  }
  if (of.experts == 0) return std::nullopt;
  const bool own = layout.sp || layout.tp == 1 || layout.etp != layout.tp;
  of.tokens =
      real(layout.mbs) * real(layout.seq) / (real(layout.cp) * (own ? real(layout.tp) : 1.0));
  const GroupPlacement place = place_group(layout, GroupKind::EtpEp, cluster);
  of.ranks = place.group.size;
  of.domain = std::max<std::int64_t>(1, place.scale_up.together);
  return of;
}

// DeepEP 1.2.1 csrc/config.hpp get_nvl_buffer_size_hint and get_rdma_buffer_size_hint, for the
// larger of deep_ep/buffer.py's configurations: half as many channels as SMs, ranks in groups of 8.
double deepep_bytes(const Dispatched& of) {
  constexpr double kChannels = 10;              // Buffer.num_sms is 20
  constexpr double kTopK = 128, kScales = 128;  // at most
  constexpr double kRdmaTokens = 128, kSourceMeta = 8;
  constexpr std::int64_t kPeers = 8;
  const double nvl = real(std::min(of.ranks, kPeers));
  const double rdma = real(of.ranks / kPeers);
  const double received = of.ranks <= 8 ? 256 : of.ranks <= 64 ? 288 : of.ranks <= 128 ? 560 : 720;
  const double token = 2 * of.width + kSourceMeta + kTopK * (8 + 4) + kScales * 4;
  double bytes = kChannels * nvl * received * token;
  if (of.ranks > kPeers) bytes += kChannels * rdma * kRdmaTokens * 2 * (token + 16);
  return bytes;
}

// DeepEP's branch hybrid-ep, csrc/hybrid_ep/buffer/intranode.cu (dispatch and combine share one
// buffer, as large as if every token of the group came to one rank) and internode_doca.cu.
double hybridep_bytes(const Dispatched& of) {
  const double tokens = std::max(512.0, std::ceil(of.tokens / 16) * 16);
  const double domains = std::max(1.0, real(of.ranks) / real(of.domain));
  const double experts_of_domain = real(of.experts) / domains;
  const double row = 2 * of.width, scores = 4 * experts_of_domain, scales = 4 * of.width / 128;
  double bytes = tokens * real(of.ranks) * (row + scores + scales);
  if (domains > 1) {
    bytes += tokens * (row + scores * domains + scales);        // what is sent
    bytes += tokens * (domains - 1) * (row + scores + scales);  // and received
    bytes += 2 * tokens * (domains - 1) * (row + scores);       // combined likewise
  }
  return bytes;
}

CommunicatorBytes standing(std::string name, std::int64_t members, std::int64_t per_node,
                           double bytes) {
  const RealBytes exact(bytes);
  return {.group = std::move(name),
          .shape = {members, per_node},
          .count = 1,
          .bytes = {exact, exact, exact}};
}

}  // namespace

std::optional<CommunicatorBytes> dispatch_buffers(const Layout& layout, const Model& model,
                                                  const Cluster& cluster) {
  const DispatcherKind kind = layout.dispatcher;
  if (layout.ep == 1 || !is_flex(kind) || kind == DispatcherKind::Flex) return std::nullopt;
  const auto of = dispatched(layout, model, cluster);
  if (!of || of->ranks <= 1) return std::nullopt;
  const double bytes = kind == DispatcherKind::DeepEp ? deepep_bytes(*of) : hybridep_bytes(*of);
  return standing(std::string(name_of(kind)), of->ranks, of->domain, bytes);
}

std::optional<CommunicatorBytes> tensor_buffers(const Layout& layout, const Model& model,
                                                const Cluster& cluster, const Trainer& trainer) {
  const Overlap* overlap = find_kind(trainer.overlaps, OverlapKind::TensorParallel);
  if (overlap == nullptr || layout.tp == 1 || !asks(layout, Switch::OverlapTp, trainer)) {
    return std::nullopt;
  }
  if (overlap->gather_buffers + overlap->reduce_buffers == 0) return std::nullopt;
  // The whole input of a layer; gathered ones in a byte a number where products take eight bits.
  const double numbers = real(layout.mbs) * real(layout.seq) / real(layout.cp) * real(model.hidden);
  const double gathered = layout.precision >= PrecisionKind::Fp8Delayed ? 1 : 2;
  const double bytes =
      numbers * (real(overlap->gather_buffers) * gathered + real(overlap->reduce_buffers) * 2);
  const std::int64_t together = place_group(layout, GroupKind::Tp, cluster).node.together;
  return standing("userbuffers", layout.tp, std::max<std::int64_t>(1, together), bytes);
}

}  // namespace trainwright::detail
