#pragma once
// Private: how layers are dealt out to stages.
#include <cstdint>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright::detail {

enum class SplitKind { Even, Uneven, Explicit };  // as in symbols(Variable::Split)
SplitKind split_of(const Layout& layout);

// The layers of each of pp * vpp stages; they add up to the model's.
Result<std::vector<std::int64_t>> stage_counts(const Layout& layout, const Model& model);

}  // namespace trainwright::detail
