#include <doctest/doctest.h>

#include "trainwright/base/check.h"
#include "trainwright/trainer/trainer.h"

using namespace trainwright;

namespace {

std::optional<std::int64_t> value_of(std::string_view text, const Facts& facts = {}) {
  const auto expression = parse_expression(text, "test");
  REQUIRE_MESSAGE(expression.has_value(), to_text(expression.error()));
  return evaluate(*expression, facts);
}

std::string faults_of(std::string_view text) {
  const auto expression = parse_expression(text, "test");
  REQUIRE(!expression.has_value());
  return to_text(expression.error());
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("arithmetic binds before comparison, comparison before not, and, or") {
  CHECK(value_of("1 + 2 * 3") == 7);
  CHECK(value_of("(1 + 2) * 3") == 9);
  CHECK(value_of("7 - 2 - 1") == 4);
  CHECK(value_of("17 / 5 % 2") == 1);
  CHECK(value_of("-3 + 5") == 2);
  CHECK(value_of("--3") == 3);
  CHECK(value_of("1 + 1 == 2") == 1);
  CHECK(value_of("not 1 == 2 and 3 < 4") == 1);
  CHECK(value_of("1 or 0 and 0") == 1);
  CHECK(value_of("(1 or 0) and 0") == 0);
  CHECK(value_of("(2 > 1) + (3 > 1)") == 2);
}

TEST_CASE("variables and kinds are read from the facts") {
  Facts facts;
  facts.set(Variable::Tp, 8);
  facts.set(Variable::Schedule, "zb-v");
  CHECK(value_of("tp * 2", facts) == 16);
  CHECK(value_of("schedule == 'zb-v'", facts) == 1);
  CHECK(value_of("schedule != 'zb-v'", facts) == 0);
  CHECK(value_of("schedule in ('1f1b', 'zb-v')", facts) == 1);
  CHECK(value_of("not schedule in ('1f1b', 'gpipe')", facts) == 1);
}

TEST_CASE("what hangs on an unknown variable is unknown, what does not is known") {
  CHECK(value_of("tp > 1") == std::nullopt);
  CHECK(value_of("tp > 1 and 0") == 0);
  CHECK(value_of("0 and tp > 1") == 0);
  CHECK(value_of("tp > 1 or 1") == 1);
  CHECK(value_of("tp > 1 or 0") == std::nullopt);
  CHECK(value_of("not tp") == std::nullopt);
}

TEST_CASE("division by zero and overflow are unknown, never a crash") {
  CHECK(value_of("1 / 0") == std::nullopt);
  CHECK(value_of("1 % 0") == std::nullopt);
  CHECK(value_of("9223372036854775807 + 1") == std::nullopt);
  CHECK(value_of("9223372036854775807 * 2") == std::nullopt);
  // The smallest number has no positive twin, and divided by -1 it would be too large.
  CHECK(value_of("-(-9223372036854775807 - 1)") == std::nullopt);
  CHECK(value_of("(-9223372036854775807 - 1) / -1") == std::nullopt);
  CHECK(value_of("(-9223372036854775807 - 1) % -1") == std::nullopt);
}

TEST_CASE("every unknown name of an expression is reported, with the nearest known one") {
  const std::string faults = faults_of("kvheads % tp == 0 and schedule == 'zb-w' and hiden > 1");
  CHECK(contains(faults, "unknown variable kvheads"));
  CHECK(contains(faults, "kv_heads"));
  CHECK(contains(faults, "zb-w is not a value of schedule"));
  CHECK(contains(faults, "zb-v"));
  CHECK(contains(faults, "unknown variable hiden"));
  CHECK(contains(faults, "column 1 "));
}

TEST_CASE("faults of form are reported with their column") {
  CHECK(contains(faults_of("1 +"), "expected a number"));
  CHECK(contains(faults_of(""), "expected a number"));
  CHECK(contains(faults_of("(1"), "expected ')'"));
  CHECK(contains(faults_of("1 2"), "expected an operator or the end (column 3"));
  CHECK(contains(faults_of("tp $ 2"), "expected an operator"));
  CHECK(contains(faults_of("schedule"), "expected ==, != or in"));
  CHECK(contains(faults_of("schedule == zb"), "a kind in single quotes"));
  CHECK(contains(faults_of("schedule == 'zb"), "a kind in single quotes"));
  CHECK(contains(faults_of("1 + schedule"), "schedule is a kind, not a number"));
  CHECK(contains(faults_of("99999999999999999999"), "too large"));
}

TEST_CASE("deep and long expressions are refused, not crashed on") {
  CHECK(contains(faults_of(std::string(400, '(') + "1"), "nested too deeply"));
  CHECK(contains(faults_of(std::string(400, '-') + "1"), "nested too deeply"));
  std::string nots;
  for (int i = 0; i < 200; ++i) nots += "not ";
  CHECK(contains(faults_of(nots + "1"), "nested too deeply"));
  std::string sum = "1";
  for (int i = 0; i < 150; ++i) sum += "+1";
  CHECK(contains(faults_of(sum), "too long"));
  CHECK(contains(faults_of(std::string(2000, '1')), "at most"));
}

TEST_CASE("a rule is judged by when and require") {
  Rule rule;
  rule.when = *parse_expression("vpp > 1", "");
  rule.require = *parse_expression("pp > 1", "");
  Facts facts;
  CHECK(evaluate(rule, facts) == Verdict::Unknown);
  facts.set(Variable::Vpp, 1);
  CHECK(evaluate(rule, facts) == Verdict::NotApplicable);
  facts.set(Variable::Vpp, 2);
  CHECK(evaluate(rule, facts) == Verdict::Unknown);
  facts.set(Variable::Pp, 1);
  CHECK(evaluate(rule, facts) == Verdict::Violated);
  facts.set(Variable::Pp, 4);
  CHECK(evaluate(rule, facts) == Verdict::Holds);
}

TEST_CASE("a reason is filled with the layout's values") {
  Facts facts;
  facts.set(Variable::Tp, 8);
  facts.set(Variable::Schedule, "zb-v");
  CHECK(explain("tp {tp}, {schedule}, pp {pp}", facts) == "tp 8, zb-v, pp ?");
  CHECK(explain("no braces", facts) == "no braces");
  CHECK(explain("open { and {nonsense}", facts) == "open { and {nonsense}");
}

TEST_CASE("every variable is found by its own name, and kinds that do not exist are our bug") {
  for (std::size_t i = 0; i < kVariableCount; ++i) {
    const auto variable = static_cast<Variable>(i);
    CHECK(variable_named(name_of(variable)) == variable);
  }
  // The table of names stands apart from the enumeration: a few of both ends and the middle.
  CHECK(name_of(Variable::World) == "world");
  CHECK(name_of(Variable::KvHeads) == "kv_heads");
  CHECK(name_of(Variable::RecomputeMlaUpProjection) == "recompute_mla_up_projection");
  CHECK(name_of(Variable::MaxConnections) == "max_connections");
  CHECK(!variable_named("nonsense"));
  Facts facts;
  CHECK_THROWS_AS(facts.set(Variable::Schedule, "nonsense"), InternalError);
}

TEST_CASE("versions compare as numbers") {
  CHECK(*parse_version("0.9") < *parse_version("0.12"));
  CHECK(*parse_version("0.12") < *parse_version("0.12.1"));
  CHECK(*parse_version("2") == Version{2, 0, 0});
  CHECK(to_text(*parse_version("0.12.1")) == "0.12.1");
  CHECK(to_text(*parse_version("0.12.0")) == "0.12");
  for (const char* text : {"", "a", "1.", ".1", "1.2.3.4", "-1", "1.99999999999"}) {
    CHECK_MESSAGE(!parse_version(text), text);
  }
}
