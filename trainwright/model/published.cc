#include "trainwright/model/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainwright/base/text.h"

namespace trainwright {
namespace detail {

std::optional<Figure> parse_figure(std::string_view text) {
  double unit = 1;
  const std::string_view units = "KMBT";
  const std::size_t at = text.empty() ? std::string_view::npos : units.find(text.back());
  if (at != std::string_view::npos) {
    unit = std::pow(1000.0, static_cast<double>(at + 1));
    text.remove_suffix(1);
  }
  const auto number = parse_number(text);
  if (!number || *number <= 0 || text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t point = text.find('.');
  const std::size_t digits = point == std::string_view::npos ? 0 : text.size() - point - 1;
  if (unit == 1 && digits == 0) return Figure{*number, 0};
  return Figure{*number * unit, 0.5 * std::pow(10.0, -static_cast<double>(digits)) * unit};
}

}  // namespace detail

namespace {

// What the publication would have counted.
Params counted(const Model& model, const Parameters& parts, Counted counts) {
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

void compare(std::vector<std::string>& found, std::string_view what, std::string_view printed,
             Params ours, double tolerance) {
  const auto figure = detail::parse_figure(printed);
  if (!figure) return;
  const double difference = static_cast<double>(ours.value()) - figure->value;
  if (std::abs(difference) <= std::max(figure->slack, tolerance * figure->value)) return;
  found.push_back(fmt::format("{} is {}, published {} ({:+.4f} %)", what,
                              with_thousands(ours.value()), printed,
                              100 * difference / figure->value));
}

}  // namespace

std::vector<std::string> disagreements(const ZooEntry& entry) {
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

}  // namespace trainwright
