#pragma once
// Private: which tensors stay, and who needs what again.
#include <cstdint>
#include <vector>

#include "trainwright/work/list.h"

namespace trainwright::detail {

// Of one tensor.
struct Stay {
  std::int32_t writer = -1;  // the operator that makes it; -1: it is there before the list begins
  std::int32_t last_read = -1;  // forward
  std::int32_t released = -1;   // the last operator, backward, that needs it
  bool saved = false;           // for a backward that is not run again
  bool entered = false;         // a segment that is run again, or was stored in one
  bool made_again = false;      // somebody needs it backward, and its segment makes it again
  bool weights = false, inputs = false;  // which halves need it

  bool kept() const { return saved || entered; }  // from forward to backward
};
std::vector<Stay> stays(const OperatorList& list);

inline bool runs_again(Again again) { return again == Again::Rerun || again == Again::Discarded; }

}  // namespace trainwright::detail
