#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "trainwright/trainer/trainer.h"

using namespace trainwright;

namespace {

// An expression made at random, as text, and its value computed while it is made: the slow, obvious
// evaluator. Numbers stay small enough that only division by zero is unknown.
struct Sample {
  std::string text;
  std::optional<std::int64_t> value;
};

Sample leaf(const Facts& facts) {
  if (*rc::gen::inRange(0, 2) == 0) {
    const int number = *rc::gen::inRange(0, 10);
    return {std::to_string(number), number};
  }
  const auto variable = static_cast<Variable>(*rc::gen::inRange(0, 10));
  return {std::string(name_of(variable)), facts.value(variable)};
}

Sample joined(const Sample& a, const Sample& b, int op) {
  const auto text = [&](const char* mark) { return "(" + a.text + mark + b.text + ")"; };
  const bool known = a.value && b.value;
  const std::int64_t x = a.value.value_or(0);
  const std::int64_t y = b.value.value_or(0);
  const auto if_known = [&](std::int64_t value) {
    return known ? std::optional<std::int64_t>(value) : std::nullopt;
  };
  switch (op) {
    case 0: return {text(" + "), if_known(x + y)};
    case 1: return {text(" - "), if_known(x - y)};
    case 2: return {text(" * "), if_known(x * y)};
    case 3: return {text(" % "), y == 0 ? std::nullopt : if_known(x % y)};
    case 4: return {text(" < "), if_known(x < y)};
    case 5: return {text(" >= "), if_known(x >= y)};
    case 6: return {text(" == "), if_known(x == y)};
    case 7: {
      const bool settled = (a.value && x == 0) || (b.value && y == 0);
      return {text(" and "), settled ? std::optional<std::int64_t>(0) : if_known(1)};
    }
    default: {
      const bool settled = (a.value && x != 0) || (b.value && y != 0);
      return {text(" or "), settled ? std::optional<std::int64_t>(1) : if_known(0)};
    }
  }
}

Sample tree(const Facts& facts, int depth) {
  if (depth == 0 || *rc::gen::inRange(0, 4) == 0) return leaf(facts);
  const Sample a = tree(facts, depth - 1);
  if (*rc::gen::inRange(0, 6) == 0) {
    const bool known = a.value.has_value();
    return {"(not " + a.text + ")",
            known ? std::optional<std::int64_t>(*a.value == 0) : std::nullopt};
  }
  return joined(a, tree(facts, depth - 1), *rc::gen::inRange(0, 9));
}

}  // namespace

TEST_CASE("an expression has the value of the tree it was printed from") {
  CHECK(rc::check([] {
    Facts facts;
    for (int i = 0; i < 10; ++i) {
      // Some variables stay unknown.
      if (*rc::gen::inRange(0, 4) > 0) {
        facts.set(static_cast<Variable>(i), std::int64_t{*rc::gen::inRange(0, 9)});
      }
    }
    const Sample sample = tree(facts, 4);
    const auto expression = parse_expression(sample.text, "sample");
    RC_ASSERT(expression.has_value());
    RC_ASSERT(evaluate(*expression, facts) == sample.value);
  }));
}

TEST_CASE("knowing more never turns a known value into another") {
  CHECK(rc::check([] {
    Facts few;
    Facts more;
    for (int i = 0; i < 10; ++i) {
      const std::int64_t value = *rc::gen::inRange(0, 9);
      more.set(static_cast<Variable>(i), value);
      if (*rc::gen::inRange(0, 2) == 0) few.set(static_cast<Variable>(i), value);
    }
    const Sample sample = tree(few, 4);
    const auto expression = parse_expression(sample.text, "sample");
    RC_ASSERT(expression.has_value());
    const auto before = evaluate(*expression, few);
    const auto after = evaluate(*expression, more);
    RC_ASSERT(!before || before == after);
  }));
}
