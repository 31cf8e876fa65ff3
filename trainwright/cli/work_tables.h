#pragma once
// Tables of operators, for people.
#include <string>
#include <vector>

#include "trainwright/work/work.h"

namespace trainwright::cli {

enum class WorkSort { Order, Flops, Kept, Name };

// Equal lists in a row.
struct WorkPiece {
  std::string what;   // "layer"
  std::string title;  // what kind of layer
  std::int64_t count = 1;
  OperatorList list;
  Totals totals;
};

// What the short names of passes and collectives mean.
std::string legend_text(int width);
// The operators of one of them, with a line of totals.
std::string piece_text(const WorkPiece& piece, WorkSort sort, int width);
// FLOPs, bytes moved and kept of all pieces, by kind of operator.
std::string kinds_text(const std::vector<WorkPiece>& pieces, int width);
// Passes, memory, parameters, collectives of a stage.
std::string sums_text(const Totals& sum, int width);

}  // namespace trainwright::cli
