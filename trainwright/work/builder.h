#pragma once
// Private: how a list is put together. A Builder knows the model, the slice and the recipe, and
// adds tensors and operators; `finished` fills in the bytes every operator moves, which follow from
// its tensors.
//
//   const TensorId squared = b.tensor("squared", Dtype::Fp32, rows * width);
//   b.add("square", OperatorKind::Elementwise, {x}, {squared}).saves.push_back({x, Half::Input});
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "trainwright/work/work.h"

namespace trainwright::detail {

// Tokens of a micro-batch on one rank.
struct LocalRows {
  std::int64_t sequence = 1;      // of one sequence after cp: ceil(seq / cp)
  std::int64_t inner = 1;         // mbs x that: inside the parts that tp splits
  std::int64_t outer = 1;         // outside of them: over tp with sequence parallelism
  std::int64_t outer_copies = 1;  // ranks of tp with the same outer rows: 1 with sp, else tp
};

LocalRows local_rows(const Slice& slice);

struct Builder {
  const Model& model;
  const Slice& slice;
  const Recipe recipe;  // settled for the slice
  LocalRows rows;
  OperatorList list = {};
  // Of the operators added next: the part of the model, and the module that recompute may name.
  Part part = Part::Norm;
  Flags<RecomputeModule> modules = {};
  std::vector<Flags<RecomputeModule>> module_of = {};  // of each operator
  // The loss writes the gradient over it: it has no other one, and stays until it was used.
  std::optional<TensorId> overwritten = std::nullopt;

  Builder(const Model& of_model, const Slice& of_slice, const Recipe& of_recipe);

  TensorId tensor(std::string_view name, Dtype dtype, std::int64_t elements,
                  std::int64_t copies = 1);
  // Indices, masks, statistics: no gradient.
  TensorId constant(std::string_view name, Dtype dtype, std::int64_t elements,
                    std::int64_t copies = 1);
  // As large and as spread as another one.
  TensorId like(TensorId other, std::string_view name, Dtype dtype);
  TensorId like(TensorId other, std::string_view name) {
    return like(other, name, at(other).dtype);
  }
  const Tensor& at(TensorId id) const { return list.tensors[id.at()]; }
  // Of what flows from branch to branch.
  Dtype stream() const { return recipe.wide ? Dtype::Fp32 : recipe.compute; }

  // The reference holds until the next one is added. Efforts hold only what tensors do not tell:
  // FLOPs, and bytes of weights.
  Operator& add(std::string_view name, OperatorKind kind, std::initializer_list<TensorId> inputs,
                std::initializer_list<TensorId> outputs);
  Operator& last() { return list.operators.back(); }
  // Whether weights of the part that operators are added for are trained. A tied head is the
  // embedding's.
  bool trains() const {
    const bool tied = part == Part::Head && model.tied;
    return trainwright::trains(recipe, slice, tied ? Part::Embedding : part);
  }
};

// Operators added while it lives belong to that module too.
class InModule {
 public:
  InModule(Builder& b, RecomputeModule module) : b_(b), before_(b.modules) {
    b.modules.insert(module);
  }
  ~InModule() { b_.modules = before_; }
  InModule(const InModule&) = delete;
  InModule& operator=(const InModule&) = delete;

 private:
  Builder& b_;
  Flags<RecomputeModule> before_;
};

// A share of n among `ways`, of the rank with most.
inline std::int64_t share(std::int64_t n, std::int64_t ways) { return ceil_div(n, ways); }
// Ranks that hold the same part when n things are split more ways than there are.
inline std::int64_t copies_of(std::int64_t n, std::int64_t ways) { return n < ways ? ways / n : 1; }

// The first tensor is the input. Settles which gradients are made and, of a layer, what is run
// again; bytes that operators move are added up from their tensors.
OperatorList finished_layer(Builder&& builder, TensorId output);
OperatorList finished_end(Builder&& builder, TensorId output);

// Takes away what serves gradients that nobody makes (gradients.cc).
void settle_gradients(Builder& builder);
// Marks what the slice's recompute runs again (recompute.cc). The list is one whole layer.
void mark_recompute(Builder& builder);

}  // namespace trainwright::detail
