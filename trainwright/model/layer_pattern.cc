#include "trainwright/model/layer_pattern.h"

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

using Layers = std::vector<std::int64_t>;

// A reader of the grammar
//   sum     = product { "+" product }
//   product = [ number "*" ] atom { "*" number }
//   atom    = "(" sum ")" | "[" [ number { "," number } ] "]"
// Every function gives nullopt where the text is something else.
class Pattern {
 public:
  Pattern(std::string_view text, std::size_t most) : left_(text), most_(most) {}

  std::optional<Layers> whole() {
    std::optional<Layers> layers = sum();
    if (!left_.empty()) return std::nullopt;
    return layers;
  }

 private:
  bool take(char wanted) {
    if (left_.empty() || left_.front() != wanted) return false;
    left_.remove_prefix(1);
    return true;
  }

  std::optional<std::int64_t> number() {
    const std::size_t digits = left_.find_first_not_of("0123456789");
    const std::string_view text = left_.substr(0, digits);
    left_.remove_prefix(text.size());
    return parse_integer(text);
  }

  std::optional<Layers> repeated(const Layers& once, std::optional<std::int64_t> times) const {
    if (!times || *times < 0) return std::nullopt;
    Layers layers;
    if (once.empty()) return layers;
    if (*times > static_cast<std::int64_t>(most_ / once.size())) return std::nullopt;
    for (std::int64_t i = 0; i < *times; ++i) layers.insert(layers.end(), once.begin(), once.end());
    return layers;
  }

  std::optional<Layers> sum() {
    std::optional<Layers> all = product();
    while (all && take('+')) {
      const std::optional<Layers> more = product();
      if (!more || all->size() + more->size() > most_) return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }

  std::optional<Layers> product() {
    std::int64_t before = 1;
    if (!left_.empty() && left_.front() != '(' && left_.front() != '[') {
      const auto times = number();
      if (!times || !take('*')) return std::nullopt;
      before = *times;
    }
    std::optional<Layers> layers = atom();
    if (layers) layers = repeated(*layers, before);
    while (layers && take('*')) layers = repeated(*layers, number());
    return layers;
  }

  std::optional<Layers> atom() {
    if (take('(')) {
      if (++depth_ > kDeepest) return std::nullopt;
      std::optional<Layers> inner = sum();
      --depth_;
      return take(')') ? inner : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    Layers layers;
    if (take(']')) return layers;
    do {
      const auto value = number();
      if (!value || layers.size() == most_) return std::nullopt;
      layers.push_back(*value);
    } while (take(','));
    if (!take(']')) return std::nullopt;
    return layers;
  }

  static constexpr int kDeepest = 64;
  std::string_view left_;
  std::size_t most_;
  int depth_ = 0;
};

}  // namespace

std::optional<Layers> parse_layer_pattern(std::string_view text, std::size_t most) {
  return Pattern(text, most).whole();
}

}  // namespace trainwright::detail
