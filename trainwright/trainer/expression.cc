// Reading and evaluating the expressions of rules: a recursive descent that writes postfix, and a
// pass over that postfix with a small stack.
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/check.h"
#include "trainwright/base/text.h"
#include "trainwright/trainer/rule.h"

namespace trainwright {
namespace {

using Op = Instruction::Op;

constexpr std::size_t kLongestText = 1000;    // characters
constexpr std::size_t kLongestProgram = 200;  // instructions
constexpr int kDeepest = 24;                  // brackets and signs inside each other
constexpr std::size_t kStackSize = 128;       // more than 200 instructions can ever need

struct Token {
  enum class Kind { End, Number, Word, Symbol, Mark, Wrong };
  Kind kind = Kind::End;
  std::string_view text;  // a symbol without its quotes
  std::size_t begin = 0;  // 0-based column
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// The token at or after `from`.
Token token_at(std::string_view text, std::size_t from) {
  while (from < text.size() && (text[from] == ' ' || text[from] == '\t')) ++from;
  const auto run = [&](auto accepts) {
    std::size_t end = from;
    while (end < text.size() && accepts(text[end])) ++end;
    return text.substr(from, end - from);
  };
  if (from == text.size()) return {Token::Kind::End, {}, from};
  const char first = text[from];
  if (is_digit(first)) return {Token::Kind::Number, run(is_digit), from};
  if (is_letter(first)) {
    return {Token::Kind::Word, run([](char c) { return is_letter(c) || is_digit(c); }), from};
  }
  if (first == '\'') {
    const auto close = text.find('\'', from + 1);
    if (close == std::string_view::npos) return {Token::Kind::Wrong, text.substr(from), from};
    return {Token::Kind::Symbol, text.substr(from + 1, close - from - 1), from};
  }
  for (const std::string_view mark : {"==", "!=", "<=", ">="}) {
    if (text.substr(from, 2) == mark) return {Token::Kind::Mark, text.substr(from, 2), from};
  }
  if (std::string_view("+-*/%<>(),").find(first) != std::string_view::npos) {
    return {Token::Kind::Mark, text.substr(from, 1), from};
  }
  return {Token::Kind::Wrong, text.substr(from, 1), from};
}

std::size_t end_of(const Token& token) {
  return token.begin + token.text.size() + (token.kind == Token::Kind::Symbol ? 2 : 0);
}

// Gathers every unknown name it meets; stops at the first fault of form.
class Parser {
 public:
  Parser(std::string_view text, std::string_view where) : text_(text), where_(where) {
    token_ = token_at(text_, 0);
  }

  Result<Expression> parse() {
    if (text_.size() > kLongestText) {
      return fail(where_, fmt::format("an expression of {} characters, at most {} are read",
                                      text_.size(), kLongestText));
    }
    disjunction(0);
    if (!broken_ && token_.kind != Token::Kind::End) expected("an operator or the end");
    if (!broken_ && program_.size() > kLongestProgram) {
      fault(0, "the expression is too long", "split the rule in two");
    }
    if (!faults_.empty()) return fail(std::move(faults_));
    return Expression{std::string(text_), std::move(program_)};
  }

 private:
  void disjunction(int depth) {
    conjunction(depth);
    while (!broken_ && take_word("or")) {
      conjunction(depth);
      emit(Op::Or);
    }
  }

  void conjunction(int depth) {
    negation(depth);
    while (!broken_ && take_word("and")) {
      negation(depth);
      emit(Op::And);
    }
  }

  void negation(int depth) {
    if (depth > kDeepest) return too_deep();
    if (take_word("not")) {
      negation(depth + 1);
      emit(Op::Not);
      return;
    }
    comparison(depth);
  }

  void comparison(int depth) {
    if (kind_ahead()) return kind_comparison();
    sum(depth);
    if (broken_ || token_.kind != Token::Kind::Mark) return;
    constexpr std::pair<std::string_view, Op> kOperators[] = {
        {"==", Op::Equal},  {"!=", Op::NotEqual},  {"<", Op::Less},
        {">", Op::Greater}, {"<=", Op::LessEqual}, {">=", Op::GreaterEqual}};
    for (const auto& [mark, op] : kOperators) {
      if (!take_mark(mark)) continue;
      sum(depth);
      return emit(op);
    }
  }

  void sum(int depth) {
    product(depth);
    while (!broken_) {
      const Op op = token_.text == "+" ? Op::Add : Op::Subtract;
      if (!take_mark("+") && !take_mark("-")) return;
      product(depth);
      emit(op);
    }
  }

  void product(int depth) {
    signed_value(depth);
    while (!broken_) {
      const Op op = token_.text == "*"   ? Op::Multiply
                    : token_.text == "/" ? Op::Divide
                                         : Op::Remainder;
      if (!take_mark("*") && !take_mark("/") && !take_mark("%")) return;
      signed_value(depth);
      emit(op);
    }
  }

  void signed_value(int depth) {
    if (depth > kDeepest) return too_deep();
    if (take_mark("-")) {
      signed_value(depth + 1);
      return emit(Op::Negate);
    }
    value(depth);
  }

  void value(int depth) {
    if (broken_) return;
    if (take_mark("(")) {
      disjunction(depth + 1);
      if (!broken_ && !take_mark(")")) expected("')'");
      return;
    }
    if (token_.kind == Token::Kind::Number) {
      const auto number = parse_integer(token_.text);
      if (!number) return stop("the number is too large");
      emit(Op::Number, *number);
      return advance();
    }
    if (token_.kind == Token::Kind::Word) return load();
    expected("a number, a variable or '('");
  }

  void load() {
    const auto variable = variable_named(token_.text);
    if (!variable) {
      unknown_variable();
    } else if (!symbols(*variable).empty()) {
      fault(token_.begin, fmt::format("{} is a kind, not a number", token_.text),
            fmt::format("compare it: {} == '{}'", token_.text, symbols(*variable).front()));
    }
    emit(Op::Load, variable ? static_cast<std::int64_t>(*variable) : 0);
    advance();
  }

  bool kind_ahead() const {
    if (broken_ || token_.kind != Token::Kind::Word) return false;
    const auto variable = variable_named(token_.text);
    return variable && !symbols(*variable).empty();
  }

  // schedule == 'zb-v', schedule != 'zb-v', schedule in ('zb-v', 'v-half')
  void kind_comparison() {
    const Variable variable = *variable_named(token_.text);
    advance();
    if (take_mark("==")) return one_kind(variable, Op::Equal);
    if (take_mark("!=")) return one_kind(variable, Op::NotEqual);
    if (!take_word("in")) return expected("==, != or in");
    if (!take_mark("(")) return expected("'('");
    one_kind(variable, Op::Equal);
    while (!broken_ && take_mark(",")) {
      one_kind(variable, Op::Equal);
      emit(Op::Or);
    }
    if (!broken_ && !take_mark(")")) expected("',' or ')'");
  }

  void one_kind(Variable variable, Op comparison_op) {
    if (token_.kind != Token::Kind::Symbol) return expected("a kind in single quotes");
    const auto kinds = symbols(variable);
    const auto found = std::find(kinds.begin(), kinds.end(), token_.text);
    if (found == kinds.end()) {
      const std::vector<std::string> names(kinds.begin(), kinds.end());
      fault(token_.begin, fmt::format("{} is not a value of {}", token_.text, name_of(variable)),
            did_you_mean(token_.text, names, "known: " + enumerate(names)));
    }
    emit(Op::Load, static_cast<std::int64_t>(variable));
    emit(Op::Number, found - kinds.begin());
    emit(comparison_op);
    advance();
  }

  void unknown_variable() {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kVariableCount; ++i) {
      names.emplace_back(name_of(static_cast<Variable>(i)));
    }
    fault(token_.begin, fmt::format("unknown variable {}", token_.text),
          did_you_mean(token_.text, names, "trainer/rule.h lists the variables"));
  }

  bool take_mark(std::string_view mark) {
    if (broken_ || token_.kind != Token::Kind::Mark || token_.text != mark) return false;
    advance();
    return true;
  }

  bool take_word(std::string_view word) {
    if (broken_ || token_.kind != Token::Kind::Word || token_.text != word) return false;
    advance();
    return true;
  }

  void advance() { token_ = token_at(text_, end_of(token_)); }
  void emit(Op op, std::int64_t operand = 0) {
    if (!broken_) program_.push_back({op, operand});
  }

  void fault(std::size_t column, std::string what, std::string hint = {}) {
    faults_.push_back({where_, fmt::format("{} (column {} of \"{}\")", what, column + 1, text_),
                       std::move(hint)});
  }
  void stop(std::string what) {
    if (!broken_) fault(token_.begin, std::move(what));
    broken_ = true;
  }
  void expected(std::string_view what) { stop(fmt::format("expected {}", what)); }
  void too_deep() { stop("nested too deeply"); }

  std::string_view text_;
  std::string where_;
  Token token_;
  std::vector<Instruction> program_;
  Diagnostics faults_;
  bool broken_ = false;
};

using Value = std::optional<std::int64_t>;

// Falsehood settles `and` and truth settles `or`, even when the other side is unknown.
Value both(Value a, Value b) {
  if ((a && *a == 0) || (b && *b == 0)) return 0;
  if (!a || !b) return std::nullopt;
  return 1;
}
Value either(Value a, Value b) {
  if ((a && *a != 0) || (b && *b != 0)) return 1;
  if (!a || !b) return std::nullopt;
  return 0;
}

// Nullopt instead of dividing by zero or overflowing; INT64_MIN / -1 is the one quotient too large.
Value quotient(Op op, std::int64_t a, std::int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  return op == Op::Divide ? a / b : a % b;
}

Value combine(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Op::Add: return __builtin_add_overflow(a, b, &result) ? Value{} : result;
    case Op::Subtract: return __builtin_sub_overflow(a, b, &result) ? Value{} : result;
    case Op::Multiply: return __builtin_mul_overflow(a, b, &result) ? Value{} : result;
    case Op::Divide:
    case Op::Remainder: return quotient(op, a, b);
    case Op::Equal: return a == b;
    case Op::NotEqual: return a != b;
    case Op::Less: return a < b;
    case Op::LessEqual: return a <= b;
    case Op::Greater: return a > b;
    case Op::GreaterEqual: return a >= b;
    case Op::Number:
    case Op::Load:
    case Op::Negate:
    case Op::And:
    case Op::Or:
    case Op::Not: break;
  }
  TW_CHECK(false, "not an operator of two numbers");
  return std::nullopt;
}

Value apply(Op op, Value a, Value b) {
  if (op == Op::And) return both(a, b);
  if (op == Op::Or) return either(a, b);
  if (!a || !b) return std::nullopt;
  return combine(op, *a, *b);
}

Value apply(Op op, Value a) {
  if (!a) return std::nullopt;
  if (op == Op::Not) return *a == 0;
  return *a == INT64_MIN ? Value{} : -*a;
}

}  // namespace

Result<Expression> parse_expression(std::string_view text, std::string_view where) {
  return Parser(text, where).parse();
}

std::optional<std::int64_t> evaluate(const Expression& expression, const Facts& facts) {
  if (expression.program.empty()) return 1;
  // Numbers and flags apart: searches evaluate millions, of a few steps each.
  std::array<std::int64_t, kStackSize> numbers{};
  std::bitset<kStackSize> known;
  const auto at = [&](std::size_t i) { return known[i] ? Value(numbers[i]) : Value(); };
  const auto put = [&](std::size_t i, const Value& value) {
    known[i] = value.has_value();
    numbers[i] = value.value_or(0);
  };
  std::size_t height = 0;
  for (const auto& [op, operand] : expression.program) {
    if (op == Op::Number || op == Op::Load) {
      TW_CHECK(height < kStackSize, "an expression deeper than the parser lets through");
      put(height++, op == Op::Number ? operand : facts.value(static_cast<Variable>(operand)));
      continue;
    }
    const std::size_t operands = op == Op::Not || op == Op::Negate ? 1 : 2;
    TW_CHECK(height >= operands, "an expression that lacks operands");
    const std::size_t result = height - operands;
    put(result, operands == 1 ? apply(op, at(result)) : apply(op, at(result), at(height - 1)));
    height -= operands - 1;
  }
  TW_CHECK(height == 1, "an expression that leaves more than one value");
  return at(0);
}

}  // namespace trainwright
