#include "trainwright/cli/work_formula.h"

#include <fmt/core.h>

#include "trainwright/base/text.h"
#include "trainwright/report/report.h"

namespace trainwright::cli {
namespace {

std::string_view meaning_of(std::string_view letter) {
  if (letter == "s") return " tokens";
  if (letter == "b") return " sequences";
  if (letter == "h") return " hidden";
  if (letter == "a") return " heads";
  if (letter == "k") return " heads of keys and values";
  if (letter == "d") return " wide each";
  if (letter == "f") return " feed-forward";
  if (letter == "t") return " ways tensor parallel";
  if (letter == "c") return " ways context parallel";
  return "";  // a ratio
}

std::string letters_text(const KeptFormula& formula, int width) {
  std::vector<std::string> parts;
  for (const auto& [letter, value] : formula.letters) {
    const auto whole = static_cast<std::int64_t>(value);
    parts.push_back(fmt::format(
        "{} = {}{}", letter, real(whole) == value ? with_thousands(whole) : significant(value, 5),
        meaning_of(letter)));
  }
  return join(wrapped(join(parts, ", "), width), "\n") + '\n';
}

std::string heading(const FormulaPiece& piece, int width) {
  std::string text = piece.layers == 1 ? "a layer" : fmt::format("{} layers", piece.layers);
  text += ": " + piece.title;
  if (piece.together > 1) {
    text += fmt::format("; {} in a row keep no more than the first one's input", piece.together);
  }
  return join(wrapped(text, width), "\n") + '\n';
}

}  // namespace

std::string formula_text(const FormulaPiece& piece, int width) {
  const KeptFormula& formula = piece.formula;
  std::string text = heading(piece, width) + fmt::format("\n    {}\n\n", formula.text);
  text += letters_text(formula, width) + '\n';
  Table table{
      {{"saved for"}, {"activation", Align::Wrap}, {"term", Align::Right}, {"bytes", Align::Right}},
      {}};
  for (const KeptTerm& term : formula.terms) {
    table.rows.push_back(
        {std::string(term.saved_for), std::string(term.tensor), term.text, to_text(term.bytes)});
  }
  table.rows.emplace_back();
  const Bytes main = formula.bytes - formula.smaller_bytes;
  table.rows.push_back({"formula", "", formula.text, to_text(main)});
  if (!formula.smaller.empty()) {
    table.rows.push_back(
        {"statistics", "", formula.smaller, to_text(formula.smaller_bytes - formula.fixed_bytes)});
  }
  if (formula.fixed_bytes > Bytes(0)) {
    table.rows.push_back({"of no token", "", "", to_text(formula.fixed_bytes)});
  }
  if (main != formula.bytes) {
    table.rows.push_back({"one layer", "", "", to_text(formula.bytes)});
  }
  return text + to_text(table, width);
}

Json formula_json(const FormulaPiece& piece) {
  const KeptFormula& formula = piece.formula;
  Json letters = Json::object();
  for (const auto& [letter, value] : formula.letters) {
    const auto whole = static_cast<std::int64_t>(value);
    letters.add(letter, real(whole) == value ? Json::of(whole) : Json::of(value));
  }
  Json terms = Json::array();
  for (const KeptTerm& term : formula.terms) {
    terms.push(Json::object()
                   .add("saved_for", Json::of(term.saved_for))
                   .add("tensor", Json::of(term.tensor))
                   .add("term", Json::of(term.text))
                   .add("coefficient", Json::of(term.coefficient))
                   .add("bytes", Json::of(term.bytes.value())));
  }
  return Json::object()
      .add("title", Json::of(piece.title))
      .add("layers", Json::of(piece.layers))
      .add("together", Json::of(piece.together))
      .add("formula", Json::of(formula.text))
      .add("statistics", Json::of(formula.smaller))
      .add("letters", std::move(letters))
      .add("terms", std::move(terms))
      .add("formula_bytes", Json::of((formula.bytes - formula.smaller_bytes).value()))
      .add("bytes", Json::of(formula.bytes.value()));
}

}  // namespace trainwright::cli
