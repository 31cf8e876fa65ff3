#include "trainwright/model/formula.h"

#include "trainwright/base/text.h"

namespace trainwright::detail {
namespace {

using Number = std::optional<std::int64_t>;

constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";

class Formula {
 public:
  Formula(std::string_view text, const NumberOf& number_of) : left_(text), number_of_(number_of) {}

  Number whole() {
    const Number value = sum();
    skip();
    return left_.empty() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (!left_.empty() && left_.front() == ' ') left_.remove_prefix(1);
  }
  bool take(std::string_view wanted) {
    skip();
    if (!left_.starts_with(wanted)) return false;
    left_.remove_prefix(wanted.size());
    return true;
  }
  std::string_view name() {
    skip();
    const std::string_view text = left_.substr(0, left_.find_first_not_of(kNameCharacters));
    left_.remove_prefix(text.size());
    return text;
  }

  // Far from what 64 bits hold.
  static bool is_small(double value) { return value < 4e18 && value > -4e18; }

  Number sum() {
    Number value = product();
    while (value) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const Number next = product();
      if (!next) return std::nullopt;
      const std::int64_t other = plus ? *next : -*next;
      if (!is_small(static_cast<double>(*value) + static_cast<double>(other))) return std::nullopt;
      *value += other;
    }
    return value;
  }

  Number product() {
    Number value = atom();
    while (value) {
      const bool up = take("^/");
      const bool over = !up && take("/");
      if (!up && !over && !take("*")) break;
      const Number next = atom();
      if (!next || ((up || over) && *next <= 0)) return std::nullopt;
      if (up || over) {
        value = (*value + (up ? *next - 1 : 0)) / *next;
        continue;
      }
      if (!is_small(static_cast<double>(*value) * static_cast<double>(*next))) return std::nullopt;
      *value *= *next;
    }
    return value;
  }

  Number atom() {
    if (take("(")) {
      if (++depth_ > kDeepest) return std::nullopt;
      const Number inner = sum();
      --depth_;
      return take(")") ? inner : std::nullopt;
    }
    const std::string_view word = name();
    if (word.empty()) return std::nullopt;
    if (word.front() >= '0' && word.front() <= '9') return parse_integer(word);
    Number value = number_of_(word);
    if (take(":")) {
      const Number otherwise = parse_integer(name());
      if (!value) value = otherwise;
    }
    return value;
  }

  static constexpr int kDeepest = 32;
  std::string_view left_;
  const NumberOf& number_of_;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate(std::string_view formula, const NumberOf& number_of) {
  return Formula(formula, number_of).whole();
}

std::vector<std::string> names_in(std::string_view formula) {
  std::vector<std::string> names;
  const NumberOf noted = [&](std::string_view name) {
    names.emplace_back(name);
    return Number(1);
  };
  evaluate(formula, noted);
  return names;
}

}  // namespace trainwright::detail
