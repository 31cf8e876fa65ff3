#pragma once
// What layers keep for their backward pass as formulas, for `show work --formula`.
#include <cstdint>
#include <string>
#include <vector>

#include "trainwright/work/formula.h"

namespace trainwright::cli {

// Layers with one formula.
struct FormulaPiece {
  std::string title;  // what kind of layer
  std::int64_t layers = 1;
  std::int64_t together = 1;  // so many are recomputed as one, which keeps the first one's input
  KeptFormula formula;
};

std::string formula_text(const FormulaPiece& piece, int width);
Json formula_json(const FormulaPiece& piece);

}  // namespace trainwright::cli
