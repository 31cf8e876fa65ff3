#pragma once
// Errors as values, for input that may be wrong.
//
// A Result<T> holds a T or an Error; an Error is a list of diagnostics, because a person who made
// ten mistakes wants to hear of all ten at once. Each diagnostic says where ("llama.json:12
// /rope_scaling/factor"), what is wrong, and a hint that would mend it.
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace trainwright {

struct Diagnostic {
  std::string where;  // file, line and path, option name or text position; empty if obvious
  std::string what;   // the fault, one sentence, no full stop
  std::string hint;   // what would mend it; may be empty

  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

using Diagnostics = std::vector<Diagnostic>;

struct Error {
  Diagnostics diagnostics;  // at least one

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;

// An Error with one diagnostic, ready to be returned from a function that returns a Result.
inline tl::unexpected<Error> fail(std::string where, std::string what, std::string hint = {}) {
  return tl::unexpected<Error>(
      Error{{Diagnostic{std::move(where), std::move(what), std::move(hint)}}});
}
inline tl::unexpected<Error> fail(Diagnostics diagnostics) {
  return tl::unexpected<Error>(Error{std::move(diagnostics)});
}

// One diagnostic per paragraph: "where: what" and the hint indented below it.
std::string to_text(const Diagnostic& diagnostic);
std::string to_text(const Error& error);

}  // namespace trainwright

// Gives the value of a Result, or returns its error from the enclosing function.
//   auto model = TW_TRY(read_model(path));
#define TW_TRY(...)                                                                \
  __extension__({                                                                  \
    auto tw_result = (__VA_ARGS__);                                                \
    if (!tw_result) {                                                              \
      return ::tl::unexpected<::trainwright::Error>(std::move(tw_result).error()); \
    }                                                                              \
    *std::move(tw_result);                                                         \
  })
