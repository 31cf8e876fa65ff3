#pragma once
// What a trainer's code does on one rank: kernels, losses, workspaces, pipelines. Part of
// trainer.h: include that one.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/base/names.h"
#include "trainwright/trainer/code_facts.h"
#include "trainwright/trainer/kinds.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {

// Whether a trainer can do a thing, and whether it does so unasked.
enum class Use { Never, OptIn, ByDefault, Always };

// Fused kernels (what is not fused keeps what eager code keeps), and what may be hidden.
// clang-format off
enum class KernelKind {
  FlashAttention, FusedSoftmax, FusedRope, FusedNorm, FusedGatedActivation, FusedBiasActivation,
  FusedBiasDropout, FusedGradientAccumulation, GroupedGemm, FusedRouter, FusedPermute,
  FusedProductGradient,
};
enum class OverlapKind {
  TensorParallel, ContextParallel, GradientReduce, ParameterGather, GatherWithStep, PointToPoint,
  ExpertAllToAll, SharedExpert,
  ActivationOffload,   // copies to the host and back, behind other layers
  Graphs, PartGraphs,  // launches, by CUDA graphs: see Switch
};
// clang-format on
std::span<const std::string_view> all_names(Use);
std::span<const std::string_view> all_names(KernelKind);   // "flash-attention", ...
std::span<const std::string_view> all_names(OverlapKind);  // "tensor-parallel", ...

// Bytes kept for backward per element it reads, per element it writes, and per row: a token of a
// norm, a token and head of attention.
struct Kernel {
  KernelKind kind = KernelKind::FlashAttention;
  Use use = Use::Never;
  double kept_per_input = 0;
  double kept_per_output = 0;
  double kept_per_row = 0;
  double least_capability = 0;                  // compute capability of the accelerator; 0: any
  std::vector<std::string> not_by_default_for;  // model families, see model.h
  std::string setting, source;
};

struct Overlap {
  OverlapKind kind = OverlapKind::TensorParallel;
  Use use = Use::Never;
  // Of tensor parallelism: buffers of a layer's whole input that stand outside the allocator, to
  // gather inputs in and to reduce results in.
  std::int64_t gather_buffers = 0, reduce_buffers = 0;
  std::string setting, source;
};

// A backend of the flex dispatcher. ByDefault: it is what flex means; Always: tokens are dispatched
// so unasked.
struct FlexBackend {
  DispatcherKind kind = DispatcherKind::DeepEp;
  Use use = Use::OptIn;
  std::string setting, source;
};

// Head and loss, in bytes per logit (micro-batch x sequence x vocabulary, over tp when split): the
// most alive in forward, what stays for backward, the most alive in backward; and what earlier
// micro-batches leave behind in the buffers of the last stage, which is beside the others; and what
// its kernels, casts among them, read and write, which is what takes time. Where plain PyTorch runs
// operator by operator the bytes follow from its operators.
struct Loss {
  std::string name;  // "vocabulary-parallel"
  Use use = Use::OptIn;
  double forward = 0;
  double kept = 0;
  double backward = 0;
  double left_behind = 0;
  double moved_forward = 0, moved_backward = 0;
  bool split_by_tp = false;
  bool keeps_logits = false;   // they are part of what stays; so they are if it is as large as they
  bool by_operators = false;   // cast to fp32, log-softmax, likelihood, one after the other
  bool with_compile = false;   // the usual one where the program is compiled
  std::int64_t chunks = 1;     // logits are made and used up piece by piece, head and all
  double hidden_gradient = 0;  // meanwhile, bytes per element of the hidden states' gradient
  // Or whole logits, but the loss works on pieces of them: of so many tokens, or so many pieces. A
  // piece at work has so many bytes per logit beside.
  std::int64_t piece_tokens = 0, pieces = 1;
  double piece = 0;
  std::string setting, source;
};

// Memory that a library takes once and keeps, so many times, in bytes: on NVIDIA's accelerators of
// Hopper's generation, on earlier ones, on later ones under a PyTorch before 2.12 (`after_hopper`;
// from then on as on Hopper), and on AMD's.
struct Workspace {
  std::string library;     // "cublas", "transformer-engine"
  std::int64_t count = 1;  // one per handle and stream
  std::int64_t bytes = 0, before_hopper = 0, after_hopper = 0, amd = 0;
  bool grouped_gemm = false;  // only where experts are one grouped product
  bool own_products = false;  // only on ranks with products of the framework's own: head, routers
  std::string setting, source;
};

struct PipelineFacts {
  bool outputs_freed_early = false;      // a stage's output is dropped once sent
  bool buffers_per_micro_batch = false;  // to receive every micro-batch, not those in flight
  bool sends_live_until_step_end = false;
  bool outputs_stay_with_ddp = false;  // no output is dropped where DDP wraps the stage
  bool last_output_stays = false;      // that of the last stage, as long as its micro-batch
  bool last_gradient_stays = false;    // the input gradient sent last, until the next one is there
  bool last_input_stays = false;  // each chunk's last input and its gradient, between steps too
  bool vocab_parallel = false;    // can spread embedding and head over all ranks of the pipeline
  std::int64_t first_stage_less_layers = 0;  // how many layers the embedding is worth by default
  std::int64_t last_stage_less_layers = 0;   // and the head
  std::string source;
};

// The same from a version of PyTorch on, where PyTorch's own pipelines run.
struct PipelineSince {
  Version torch;
  PipelineFacts facts;
};

struct HostLead {
  std::int64_t alone = 0;     // without a pipeline
  std::int64_t pipeline = 0;  // with one
};
struct AllocatorFacts {
  bool expandable_segments = false;
  // Kernels that the host is ahead of the device, where streams are recorded (libraries.h) and
  // measured runs told it.
  std::optional<HostLead> lead;
  // What the library of products takes from it for each thread on Hopper, at its first product: the
  // one that runs forward, and autograd's. 0: unknown.
  std::int64_t product_workspace = 0;
  std::string setting, source;
};

// Low-rank adapters, where a job asks for them.
struct AdapterFacts {
  std::string dtype;      // as they are made; empty: that of the weights they stand beside
  bool autocast = false;  // torch.autocast: their products run in the precision of all others
  // Where layers are run again, the embedding's result is made to require a gradient.
  bool flows_when_run_again = false;
  std::vector<FrozenBase> bases;   // that the weights beside them may be stored in
  std::vector<Prepared> prepared;  // how the rest may be made fp32 where those have few bits
  // The same unasked, where FSDP does not shard the model; and the dtype of adapters beside a base
  // of bitsandbytes, if another.
  Prepared prepares = Prepared::No;
  std::string dtype_beside_few_bits;
  // Experts of a layer are one parameter and no modules: adapters do not find them unasked,
  // bitsandbytes leaves them as they are. Unless the program can store them in 4 or 8 bits itself.
  bool experts_are_parameters = false, quantises_experts = false;
  bool copies_like_adapters = false;  // modules trained whole beside them are made of their dtype
  std::string setting, source;
};
inline constexpr std::pair<std::string_view, bool AdapterFacts::*> kAdapterFlags[] = {
    {"autocast", &AdapterFacts::autocast},
    {"flows_when_run_again", &AdapterFacts::flows_when_run_again},
    {"experts_are_parameters", &AdapterFacts::experts_are_parameters},
    {"quantises_experts", &AdapterFacts::quantises_experts},
    {"copies_like_adapters", &AdapterFacts::copies_like_adapters}};

}  // namespace trainwright
