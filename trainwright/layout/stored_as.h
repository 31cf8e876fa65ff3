#pragma once
// Bytes and dtypes of what a job stores: weights as a program loads them, and what is trained. Part
// of layout.h: include that one.
#include <compare>
#include <string_view>

#include "trainwright/cluster/cluster.h"
#include "trainwright/layout/decision.h"

namespace trainwright {

// The dtype that adapters are made in, if not that of the weights beside them; else empty.
std::string_view adapter_dtype(const Job& job, const Trainer& trainer);
// What of a layout the dtypes of weights hang on: FSDP makes what is trained fp32.
struct StoredAs {
  PrecisionKind precision = PrecisionKind::Bf16;
  bool under_fsdp = false;
  StoredAs(PrecisionKind kind, bool fsdp = false) : precision(kind), under_fsdp(fsdp) {}
  explicit StoredAs(const Layout& layout);
  friend auto operator<=>(const StoredAs&, const StoredAs&) = default;
};
// Of the model's own weights, trained or beside adapters.
std::string_view weight_dtype(const Job& job, const StoredAs& storage, const Trainer& trainer);
// What of the model that has not few bits is fp32 beside adapters, as the job says or the program
// does unasked. A whole model that is loaded in fp32 is all fp32.
Prepared prepared_as(const Job& job, const StoredAs& storage, const Trainer& trainer);
// Bytes of one parameter of the model and of one of an adapter. Diagnoses what the trainer does not
// offer.
struct TrainedBytes {
  ParameterBytes model, adapter;
};
Result<TrainedBytes> trained_bytes(const Job& job, const StoredAs& storage, const Trainer& trainer);
// The same on that cluster: unshared gradients may have another dtype (DeepSpeed), weights in low
// precision no transpose (Transformer Engine v2.8 utils.py is_non_tn_fp8_gemm_supported).
Result<TrainedBytes> trained_bytes(const Job& job, const Layout& layout, const Cluster& cluster,
                                   const Trainer& trainer);
// What gradients are added up and reduced in, "bf16"; empty where the trainer lacks the precision.
std::string gradient_dtype(const Layout& layout, const Trainer& trainer);

}  // namespace trainwright
