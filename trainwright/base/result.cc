#include "trainwright/base/result.h"

namespace trainwright {

std::string to_text(const Diagnostic& diagnostic) {
  std::string text;
  if (!diagnostic.where.empty()) text += diagnostic.where + ": ";
  text += diagnostic.what;
  if (!diagnostic.hint.empty()) text += "\n  hint: " + diagnostic.hint;
  return text;
}

std::string to_text(const Error& error) {
  std::string text;
  for (const Diagnostic& diagnostic : error.diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_text(diagnostic);
  }
  return text;
}

}  // namespace trainwright
