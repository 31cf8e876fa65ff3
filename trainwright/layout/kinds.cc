#include "trainwright/layout/kinds.h"

namespace trainwright {
namespace detail {

std::span<const std::string_view> all_names(ShardingKind) { return symbols(Variable::Sharding); }
std::span<const std::string_view> all_names(ScheduleKind) { return symbols(Variable::Schedule); }
std::span<const std::string_view> all_names(StagePlacement) { return symbols(Variable::Placement); }
std::span<const std::string_view> all_names(PrecisionKind) { return symbols(Variable::Precision); }
std::span<const std::string_view> all_names(CpKind) { return symbols(Variable::CpKind); }
std::span<const std::string_view> all_names(DispatcherKind) {
  return symbols(Variable::Dispatcher);
}
std::span<const std::string_view> all_names(OptimizerKind) { return symbols(Variable::Optimizer); }
std::span<const std::string_view> all_names(RecomputeKind) { return symbols(Variable::Recompute); }

std::span<const std::string_view> all_names(RecomputeModule) {
  static constexpr std::string_view kNames[] = {"core-attention",    "norm", "mlp",
                                                "mla-up-projection", "moe",  "moe-activation",
                                                "shared-experts"};
  return kNames;
}

std::span<const std::string_view> all_names(Offload) {
  static constexpr std::string_view kNames[] = {"optimizer", "activations", "parameters"};
  return kNames;
}

std::span<const std::string_view> all_names(Switch) {
  static constexpr std::string_view kNames[] = {"overlap-tp",
                                                "overlap-gradient-reduce",
                                                "overlap-parameter-gather",
                                                "overlap-gather-with-step",
                                                "overlap-p2p",
                                                "overlap-ep",
                                                "overlap-shared-experts",
                                                "delay-weight-gradient",
                                                "grouped-gemm",
                                                "compile",
                                                "distribute-saved",
                                                "fp8-parameter-gather"};
  return kNames;
}

std::span<const std::string_view> all_names(Axis) {
  static constexpr std::string_view kNames[] = {"tp", "cp", "ep", "dp", "pp"};
  return kNames;
}

std::span<const std::string_view> all_names(Part) {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(Part::Head); ++i) {
      names.push_back(trainwright::name_of(static_cast<Part>(i)));
    }
    return names;
  }();
  return kNames;
}

std::span<const std::string_view> all_names(GroupKind) {
  static constexpr std::string_view kNames[] = {"tp",    "cp",     "dp",        "pp",    "tp-cp",
                                                "dp-cp", "shard",  "replicate", "model", "ep",
                                                "etp",   "etp-ep", "edp",       "world"};
  return kNames;
}

}  // namespace detail

std::string_view name_of(ShardingKind kind) { return detail::kind_name(kind); }
std::string_view name_of(PrecisionKind kind) { return detail::kind_name(kind); }
std::string_view name_of(CpKind kind) { return detail::kind_name(kind); }
std::string_view name_of(DispatcherKind kind) { return detail::kind_name(kind); }
std::string_view name_of(OptimizerKind kind) { return detail::kind_name(kind); }
std::string_view name_of(RecomputeKind kind) { return detail::kind_name(kind); }
std::string_view name_of(RecomputeModule module) { return detail::kind_name(module); }
std::string_view name_of(Offload what) { return detail::kind_name(what); }
std::string_view name_of(Switch what) { return detail::kind_name(what); }
std::string_view name_of(Axis axis) { return detail::kind_name(axis); }
std::string_view name_of(LayerMatrix matrix) { return detail::kind_name(matrix); }
std::string_view name_of(GroupKind kind) { return detail::kind_name(kind); }

}  // namespace trainwright
