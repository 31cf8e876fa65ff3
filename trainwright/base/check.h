#pragma once
// Checks for our own mistakes. A failed check throws InternalError with file and line; nothing
// catches it but the command line's main and the Python layer. What a user typed must never reach
// one: bad input is a Result (result.h).
#include <stdexcept>
#include <string>

namespace trainwright {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}  // namespace detail

}  // namespace trainwright

// On in every build. The message is only built when the check fails.
#define TW_CHECK(condition, message)                                                  \
  do {                                                                                \
    if (!(condition)) [[unlikely]]                                                    \
      ::trainwright::detail::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

// For hot loops: checked in Debug builds only.
#ifdef NDEBUG
#define TW_DCHECK(condition, message) \
  do {                                \
  } while (false)
#else
#define TW_DCHECK(condition, message) TW_CHECK(condition, message)
#endif
