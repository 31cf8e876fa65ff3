#pragma once
// Public: what a layer keeps for its backward pass, as a formula like those of Korthikanti et al.
// (arXiv:2205.05198, section 4), derived from its operator list:
//
//   a term is one kept tensor: its bytes over s b h, for s tokens, b sequences, h hidden;
//   its power of s is what becomes of it in the list of twice the sequence;
//   its divisor is how many ranks of tp x cp share it out (Tensor::copies);
//   its width has the name of the model's own that it is equal to.
//
// Ratios that are those of the paper's layer (feed-forward f = 4 h, as many heads for keys as for
// queries, heads of h / a) are numbers, others stay letters, with their value beside them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/work/work.h"

namespace trainwright {

enum class TermWidth : std::uint8_t {
  Hidden,        // h, and what has no name of its own, relative to it
  Intermediate,  // f, of the feed-forward
  Queries,       // a d, for heads d wide
  Keys,          // k d, for k heads of keys and values
  Scores,        // a s
  Heads,         // a: statistics of attention
  Token,         // statistics of norms
  Fixed,         // of no token: copies of weights; and what is no power of s
};
struct KeptTerm {
  std::string_view tensor;
  std::size_t need = 0;        // place in the list of the first operator that needs it backward
  std::string_view saved_for;  // and its name
  Bytes bytes;
  TermWidth width = TermWidth::Hidden;
  double coefficient = 0;  // bytes over s b width, times the divisor
  bool over_tp = false, over_cp = false;
  std::string text;  // "2sbh/t"
};
struct KeptFormula {
  std::vector<KeptTerm> terms;
  Bytes bytes;
  std::string text;     // what grows with the layer's width: "sbh/t(34 + 5as/h)"
  std::string smaller;  // what the paper leaves out: "16sb/t"; empty: nothing
  Bytes smaller_bytes;  // of that and of what is fixed
  Bytes fixed_bytes;
  // The letters that occur and what they are here: {"s", 2048}, {"f/h", 2.6875}.
  std::vector<std::pair<std::string, double>> letters;
};

KeptFormula kept_formula(const Model& model, const Recipe& recipe, const ListOf& layer);

}  // namespace trainwright
