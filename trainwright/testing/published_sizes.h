#pragma once
// Parameters of models beside those that were published.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "trainwright/base/text.h"
#include "trainwright/model/model.h"
#include "trainwright/model/published.h"

namespace trainwright::testing {

// What the publication would have counted.
inline Params counted(const Model& model, const Parameters& parts, Counted counts) {
  const Params tokens(checked_mul(model.vocabulary, model.embedding_width));
  const Params head = model.tied ? Params(0) : tokens;
  switch (counts) {
    case Counted::All: return parts.total() + mtp_parameters(model).total();
    case Counted::WithoutMtp: return parts.total();
    case Counted::WithoutEmbedding: return parts.total() - tokens - head;
    case Counted::WithoutInputEmbedding: return parts.total() - head;
    case Counted::WithoutOutput: return parts.total() - head;
    case Counted::TiedTwice: return parts.total() + (tokens - head);
  }
  return parts.total();
}

inline void compare(std::vector<std::string>& found, std::string_view what,
                    std::string_view printed, Params ours, double tolerance) {
  const auto figure = detail::parse_figure(printed);
  if (!figure) return;
  const double difference = static_cast<double>(ours.value()) - figure->value;
  if (std::abs(difference) <= std::max(figure->slack, tolerance * figure->value)) return;
  found.push_back(fmt::format("{} is {}, published {} ({:+.4f} %)", what,
                              with_thousands(ours.value()), printed,
                              100 * difference / figure->value));
}

// One sentence for every published figure that our count does not bear out.
inline std::vector<std::string> disagreements(const ZooEntry& entry) {
  const Model& model = entry.model;
  const Published& published = entry.published;
  std::vector<std::string> found;
  compare(found, "total", published.total, counted(model, parameters(model), published.counts),
          published.tolerance);
  // MTP modules are never counted as active.
  const Counted active =
      published.active_counts == Counted::All ? Counted::WithoutMtp : published.active_counts;
  compare(found, "active", published.active, counted(model, active_parameters(model), active),
          published.active_tolerance);
  compare(found, "mtp", published.mtp, mtp_parameters(model).total(), published.tolerance);
  return found;
}

}  // namespace trainwright::testing
