#include "trainwright/base/check.h"

#include <fmt/core.h>

#include "trainwright/base/units.h"

namespace trainwright {

namespace detail {
void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: check failed: {}: {}", file, line, condition, message));
}
}  // namespace detail

void arithmetic_overflow() { throw InternalError("64-bit integer arithmetic overflowed"); }

}  // namespace trainwright
