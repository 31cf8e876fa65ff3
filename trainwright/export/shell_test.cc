// Scripts read as a shell would, without running them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/read.h"

namespace trainwright {
namespace {

std::string words_of(std::string_view text) {
  std::vector<std::string> groups;
  const detail::Script script = detail::read_script(text, "s.sh").value();
  for (const auto& group : script.groups) {
    std::vector<std::string> words;
    for (const auto& word : group) words.push_back(word.text);
    groups.push_back(join(words, "|"));
  }
  return join(groups, " & ");
}

std::string notes_of(std::string_view text) {
  return join(detail::read_script(text, "s.sh").value().notes, "\n");
}
// Why it is not read.
std::string fault_of(const std::string& text) {
  const auto script = detail::read_script(text, "s.sh");
  return script ? ""
                : script.error().diagnostics[0].where + ' ' + script.error().diagnostics[0].what;
}
std::string repeated(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_CASE("a script's words are those that a shell would make") {
  CHECK(words_of(
            "#!/bin/bash\n"
            "TP=4 # ranks\n"
            "ARGS=(\n  --tensor-model-parallel-size $TP --x 'a b'\\''c' \\\n  --y \"${PP:-2}\"  # "
            "why\n)\n"
            "torchrun --nnodes 2 a.py \"${ARGS[@]}\" --z ${UNSET}\n") ==
        "TP=4 & a.py|--tensor-model-parallel-size|4|--x|a b'c|--y|2|--z|${UNSET}");
}

TEST_CASE("the last option of an array ends with it") {
  const char* script =
      "A=(\n  --num-layers 96\n  --bf16\n)\n"
      "B=(\n\t--tensor-model-parallel-size 8 \n\t--pipeline-model-parallel-size 16 \n)\n"
      "A+=(--context-parallel-size 2)\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py \\\n    ${A[@]} \\\n    ${B[@]}\n";
  CHECK(words_of(script) ==
        " & pretrain_gpt.py|--num-layers|96|--bf16|--context-parallel-size|2|"
        "--tensor-model-parallel-size|8|--pipeline-model-parallel-size|16");
}

TEST_CASE("a string of options is cut at blanks where it is used, unless in quotes") {
  CHECK(words_of("A=\" \\\n  --a 1 \\\n  --b 2 \\\n\"\nA=\"$A --c 3\"\nA+=' --d'\ntorchrun t.py $A "
                 "--e 'x y'") ==
        "A=   --a 1   --b 2  --c 3 --d & t.py|--a|1|--b|2|--c|3|--d|--e|x y");
  CHECK(words_of("A='--a 1'; python t.py \"$A\" --b") == "A=--a 1 & t.py|--a 1|--b");
  // A string that is a command, by itself and for another shell.
  CHECK(words_of("C=\"torchrun t.py --a 1\"\n$C --b 2 > log 2>&1 &") ==
        "C=torchrun t.py --a 1 & t.py|--a|1|--b|2");
  CHECK(words_of("O='--a 1'\nrun=\"python -u t.py ${O}\"\nsrun -l --output=x sh -c \"${run}\"") ==
        "O=--a 1|run=python -u t.py --a 1 & t.py|--a|1");
  CHECK(words_of("A=(--a 1)\neval \"torchrun t.py ${A[*]}\"") == " & t.py|--a|1");
}

TEST_CASE("items of an array are cut at blanks where it stands without quotes, as by bash") {
  const std::string array = "A=(\"--a 1\" \"--b\" '' \"--split 'x,y' \")\n";
  CHECK(words_of(array + "t.py ${A[@]} --z") == " & t.py|--a|1|--b|--split|'x,y'|--z");
  CHECK(words_of(array + "t.py ${A[*]}") == " & t.py|--a|1|--b|--split|'x,y'");
  CHECK(words_of(array + "t.py \"${A[@]}\" --z") == " & t.py|--a 1|--b||--split 'x,y' |--z");
  CHECK(words_of(array + "t.py --q \"${A[*]}\"") == " & t.py|--q|--a 1 --b  --split 'x,y' ");
  CHECK(words_of(array + "B=(${A[@]})\nt.py \"${B[@]}\"") == " & t.py|--a|1|--b|--split|'x,y'");
  CHECK(words_of(array + "B=(\"${A[@]}\")\nt.py \"${B[@]}\"") ==
        " & t.py|--a 1|--b||--split 'x,y' ");
  CHECK(words_of("A=(\"--a 1\" --name 'x y')\n") == " & --a|1|--name|x y");
}

TEST_CASE("integers are computed, and only integers") {
  CHECK(words_of("MBS=2; DP=8\nGBS=$((MBS*$DP * (1+3)/2 % 100))\nt.py --g $GBS") ==
        "DP=8|GBS=32|MBS=2 & t.py|--g|32");
  CHECK(words_of("t.py --g $((2 * N)) --h $((1/0)) --i $(cat 'a b')") ==
        " & t.py|--g|$((2 * N))|--h|$((1/0))|--i|$(cat 'a b')");
}

TEST_CASE("words that nobody knows are left out, or keep their name") {
  CHECK(words_of("t.py --a 8 \"$@\" ${@:2} ${NONE[@]} --b ${X:-${Y:-\"4\"}} ${Z:+--c}") ==
        " & t.py|--a|8|--b|4");
  const auto settings = read_settings("t.py --a 8 $EXTRA --b $TP", "run.sh", SettingsForm::Options);
  REQUIRE(settings.has_value());
  CHECK(settings->at(0).values == std::vector<std::string>{"8"});
  CHECK(settings->at(1).values == std::vector<std::string>{"$TP"});
  CHECK(settings->at(1).where == "run.sh:1");
}

TEST_CASE("a branch is taken if its condition holds with what is not set being empty") {
  const char* script =
      "X=1\nA=(--a)\n"
      "if [ \"$X\" = 1 ]; then\n  A+=(--one)\nelse\n  A+=(--other)\nfi\n"
      "if [[ -n $FP8 && $X -eq 1 ]]; then A+=(--fp8-format hybrid); fi\n"
      "if [ -f there ]; then A+=(--there); elif [ $X -gt 0 ]; then A+=(--gt); fi\n"
      "case $SIZE in\n  7b|8b) A+=(--num-layers 32) ;;\n  *) A+=(--num-layers 40) ;;\nesac\n"
      "[ -z \"$PP\" ] && PP=4\n[ $PP = 4 ] || PP=8\n"
      "[ -n \"$CP\" ] && A+=(--context-parallel-size $CP)\n[ $X = 2 ] && A+=(--two)\n"
      "t.py ${A[@]} --p $PP\n";
  CHECK(words_of(script) == "PP=4|X=1 & t.py|--a|--one|--gt|--num-layers|40|--p|4");
  CHECK(notes_of(script) ==
        "8: --fp8-format under a condition is left out: FP8 is not set in it\n"
        "9: --there under a condition is left out: '[ -f there ]' cannot be known here\n"
        "10: --num-layers under a condition is left out: SIZE is not set in it\n"
        "16: --context-parallel-size under a condition is left out: CP is not set in it");
}

TEST_CASE("the command with most options is the one that trains") {
  CHECK(words_of("pip install --upgrade x\npython prepare.py --input a --output b\n"
                 "torchrun --nnodes 2 train.py --a 1 --b 2 --c 3\necho --a 1 --b 2 --c 3 --d 4 "
                 "train.py\n") == " & train.py|--a|1|--b|2|--c|3");
  CHECK(words_of("export NCCL_DEBUG=INFO X\nA=2 torchrun -m torchtitan.train --a.b 2 c:d") ==
        "A=2|NCCL_DEBUG=INFO & torchtitan.train|--a.b|2|c:d");
  CHECK(words_of("cat <<EOF > x.json\n{\"a\": \"--b\"}\nEOF\nt.py --a 1\n") == " & t.py|--a|1");
  CHECK(words_of("sbatch <<EOF\n#SBATCH --nodes=2\nsrun t.py --a 1\nEOF\n") == " & t.py|--a|1");
  CHECK(notes_of("t.py --a 1 \\\n  # --b 2 \\\n  --c 3\nsource env.sh\n") ==
        "4: env.sh is not read\n"
        "3: --c starts a line that no '\\' joins to a command, and is left out");
}

TEST_CASE("without a command the settings are what arrays, strings and lines hold") {
  CHECK(words_of("mkdir --parents x\nMODEL=(\n --a 1\n --b\n)\nMORE=(c:d)\nS='--e 5'\n") ==
        "S=--e 5 & --a|1|--b & c:d & --e|5");
  CHECK(words_of("--a 1\n--b 2\n") == " & --a|1 & --b|2");
}

TEST_CASE("a script without an end to its brackets, quotes and branches is read") {
  for (const char* bad : {"A=(", "t.py --a ${", "t.py '--a", "if", "fi", "case x in", "esac", "<<",
                          "$((", "t.py --a \"$(\"", "eval eval eval --a", "elif [", "[[ a && b",
                          "A+=", "X=1 X+=2", "`", "\\", "A=A; t.py --a $((A))"}) {
    CHECK(!detail::read_script(bad, "s.sh").value().groups.empty());
  }
}

TEST_CASE("a long condition is decided as a shell decides it") {
  // Each || would copy what is behind it, were its halves lists of their own.
  const std::string either = "[[ " + repeated(20'000, "a == b || ");
  CHECK(words_of(either + "a == a ]] && A=(--yes)\n[ a ] && t.py ${A[@]} --z") ==
        " & t.py|--yes|--z");
  CHECK(words_of(either + "a == c ]] || A=(--no)\nt.py ${A[@]} --z") == " & t.py|--no|--z");
  CHECK(words_of("[[ a == a || " + repeated(20'000, "$X == b && ") + "b ]] && t.py --z") ==
        " & t.py|--z");
  CHECK(words_of("[ " + repeated(40'000, "! ") + "a ] && t.py --z") == " & t.py|--z");
  CHECK(words_of("[ " + repeated(40'001, "! ") + "a ] || t.py --z") == " & t.py|--z");
  CHECK(words_of("[[ a != a && b || ! c == d && e ]] && t.py --z") == " & t.py|--z");
}

TEST_CASE("a script that would grow beyond its limits is told with its line, and not read") {
  std::string twice = "A=(--a)\n";
  for (int i = 0; i < 60; ++i) twice += "A=(${A[@]} ${A[@]})\n";
  CHECK(fault_of(twice + "t.py ${A[@]}").ends_with(" its variables grow to more than 32 MiB"));
  // 60,000 letters, 9,000 times: 540 MB of 80 KB.
  CHECK(fault_of("A=" + std::string(60'000, 'x') + "\nt.py --a " + repeated(9'000, "$A "))
            .ends_with(" its variables grow to more than 32 MiB"));
  // Each $((...)) has ten of the one before: 10^8.
  std::string sums = "A0=1\n";
  for (int i = 1; i < 9; ++i)
    sums += fmt::format("A{}='{}0*A{}'\n", i, repeated(9, fmt::format("A{}+", i - 1)), i - 1);
  CHECK(fault_of(sums + "t.py --a $((A8))") == "s.sh:10 its variables grow to more than 32 MiB");
  CHECK(fault_of(repeated(70, "if [ a ]; then\n")) ==
        "s.sh:65 conditions and loops nest more than 64 deep");
  CHECK(fault_of("t.py --a " + repeated(2'000, "${a:-")) == "s.sh:1 nested more than 12 deep");
  std::string calls = "E0=':'\n";
  for (int i = 1; i < 12; ++i)
    calls += fmt::format("E{}='{}'\n", i, repeated(20, fmt::format("eval \"$E{}\"; ", i - 1)));
  CHECK(fault_of(calls + "eval \"$E11\"").find("eval and -c read more than 1 MiB") !=
        std::string::npos);
}

TEST_CASE("notes repeat little of a script, however often they stand in it") {
  const std::string open = "[ " + repeated(500, "$" + std::string(500, 'A') + " ") + "]";
  const auto script = detail::read_script(open + repeated(5'000, " && x --y"), "s.sh");
  REQUIRE(script.has_value());
  REQUIRE(script->notes.size() == 5'000);
  CHECK(script->notes.back().size() < 300);
}

TEST_CASE("a variable that is unset and set again is held once") {
  CHECK(words_of(repeated(3, "A=1; unset A; ") + "A='--a 1'\n") == "A=--a 1 & --a|1");
}

}  // namespace
}  // namespace trainwright
