// Files of settings: scripts, TOML, YAML, JSON; each read, and understood as a trainer's.
#include "shapes.h"
#include "trainwright/export/export.h"
#include "trainwright/export/read.h"
#include "trainwright/trainer/trainer.h"

namespace trainwright::growth {
namespace {

bool understood(const std::string& text, SettingsForm form) {
  static const std::vector<Trainer> trainers =
      load_trainers(std::string(TRAINWRIGHT_DATA_DIR)).value();
  const auto settings = read_settings(text, "x", form);
  if (!settings) return false;
  (void)script_notes(text, "x", form);
  (void)accelerate_launch(text, "x", form);
  static const ImportKeys keys = read_import_keys(TRAINWRIGHT_DATA_DIR, "axolotl").value();
  const ClassedKeys classed = class_keys(*settings, keys, "x", false);
  (void)understand_fine_tuning(FineTuner::Axolotl, classed.counted, 16);
  const auto trainer = pick_trainer(trainer_of_settings(*settings, form), trainers);
  const auto target = find_target("", *trainer);
  (void)understand(*settings, *trainer, *target, 16);
  return true;
}
bool script(const std::string& text) { return understood(text, SettingsForm::Options); }
bool toml(const std::string& text) { return understood(text, SettingsForm::Toml); }
bool yaml(const std::string& text) { return understood(text, SettingsForm::Yaml); }
bool json(const std::string& text) { return understood(text, SettingsForm::Json); }

std::vector<Shape> of_scripts() {
  const std::string run = "\npython t.py --tensor-model-parallel-size 2";
  return {
      {"||", "if [[ ", "a == b || ", "a == a ]]; then " + run + "; fi"},
      {"&&", "if [[ ", "a == a && ", "a == a ]]; then " + run + "; fi"},
      {"!", "[ ", "! ", "a ] && " + run},
      {"words", "python t.py --a 1", " a"},
      {"options", "python t.py", " --o@ 1"},
      {"options of one kind", "python t.py", " --tensor-model-parallel-size 1"},
      {"lines of options", "", "--a 1\n"},
      {"dotted options", "torchrun t.py", " --a.b@ 1"},
      {"commands", "", "t.py --a@ 1\n"},
      {"a long command and many short ones", "t.py" + std::string(5'000, ' ') + "--x 1\n",
       "t.py --a\n"},
      {"assignments before a command", "", "A=1 ", run},
      {"variables", "", "A@=1\n", run},
      {"exports", "A=abcdef\n", "export A\n", run},
      {"one variable, often", "A=abcdefgh\npython t.py --a 1", " $A"},
      {"a long variable, often", "A=" + std::string(1000, 'a') + "\npython t.py --a 1", " $A"},
      {"an array, often", "A=(a b c d e f)\npython t.py --a 1", " ${A[@]}"},
      {"an array that grows", "A=(a)\n", "A+=(b)\n", run},
      {"a variable that grows", "A=a\n", "A+=b\n", run},
      {"a variable that is doubled", "A=a\n", "A=$A$A\n", run},
      {"unset and set again", "", "unset A;A=1;", run},
      {"variables that are not set", "[ ", "$A@ ", "] && t.py --x"},
      {"left out, again and again", "[ -f x ]", " && x --y"},
      {"else", "if a; then\n", "else\n", "fi" + run},
      {"nested if", "", "if [ a ]; then\n", run},
      {"then", "if [ a ]; ", "then ", "; fi" + run},
      {"elif", "if [ a = b ]; then :\n", "elif [ a = @ ]; then :\n", "fi" + run},
      {"patterns of case", "case a in\n", "x@) A=1 ;;\n", "esac" + run},
      {"one pattern", "case a in ", "a|", "b) " + run + " ;; esac"},
      {"brackets", "", "("},
      {"open braces", "t.py --a ", "${a:-"},
      {"open sums", "t.py --a ", "$((1+"},
      {"open commands", "t.py --a ", "$("},
      {"a sum", "t.py --a $((", "1+", "1))"},
      {"sums", "t.py --a 1", " $((1+@))"},
      {"back quotes", "t.py --a ", "`"},
      {"single quotes", "t.py --a ", "'"},
      {"double quotes", "t.py --a ", "\""},
      {"quotes in quotes", "t.py --a ", "\"$(\""},
      {"escapes", "t.py --a ", "\\"},
      {"one word", "t.py --a ", "a"},
      {"one word of dashes", "[ -f x ] && t.py ", "--"},
      {"line breaks", "", "\n", run},
      {"joined lines", "t.py", " \\\n", " --a 1"},
      {"comments", "", "# a\n", run},
      {"documents", "", "cat <<E\na\nE\n", run},
      {"a document without end", "cat <<E\n", "a\n"},
      {"redirections", "t.py --a 1", " >a"},
      {"open arrays", "", "A=("},
      {"eval", "", "eval 'A=1'\n", run},
      {"eval of eval", "", "eval ", "t.py --a 1"},
      {"sh -c", "", "sh -c 'A=1'\n", run},
      {"pipes", "a", " | a", run},
      {"shell's words", "python t.py --a", " [[ a"},
      {"loops", "", "for a in b; do\n", run},
      {"done", "", "done\n", run},
  };
}

}  // namespace

std::vector<Reader> settings_readers() {
  return {
      {.name = "script", .read = script, .most = detail::kLongestSettings, .shapes = of_scripts()},
      {.name = "toml",
       .read = toml,
       .most = detail::kLongestSettings,
       .shapes = {{"dots", "", "a.", "a = 1"},
                  {"dots of a header", "[", "a.", "a]"},
                  {"headers", "", "[a@]\n"},
                  {"headers below each other", "", "[a.b.c.d.e.f.g.h@]\n"},
                  {"tables of arrays", "", "[[a]]\n"},
                  {"keys", "", "k@ = 1\n"},
                  {"dotted keys", "", "a.b.c.d.e.f.g@ = 1\n"},
                  {"small values", "a = [", "1,", "1]"},
                  {"open brackets", "a = ", "["},
                  {"open braces", "", "{a = "},
                  {"braces of dots", "a = ", "{a.a.a.a = "},
                  {"one string", "a = \"", "a", "\""},
                  {"one long string", "a = \"\"\"", "a\n", "\"\"\""},
                  {"quotes", "a = ", "\""},
                  {"escapes", "a = \"", "\\\\", "\""},
                  {"one number", "a = ", "1"},
                  {"comments", "", "# a.b.c.d\n", "a = 1"},
                  {"one key", "", "a", " = 1"},
                  {"keys in quotes", "", "\"k.@\" = 1\n"}}},
      {.name = "yaml",
       .read = yaml,
       .most = detail::kLongestSettings,
       .shapes = {{"keys", "", "k@: 1\n"},
                  {"one key again and again", "", "k: 1\n"},
                  {"items", "a:\n", "- 1\n"},
                  {"small values", "a: [", "1,", "1]"},
                  {"open brackets", "a: ", "["},
                  {"open braces", "a: ", "{a: "},
                  {"dashes", "a:\n", "- "},
                  {"questions", "", "? "},
                  {"colons", "", "a: "},
                  {"anchors", "", "k@: &a@ 1\n"},
                  {"aliases", "a: &a 1\nb: [", "*a,", "1]"},
                  {"aliases of a list", "a: &a [1,2,3,4,5,6,7,8,9]\nb: [", "*a,", "1]"},
                  {"one string", "a: \"", "a", "\""},
                  {"quotes", "a: ", "\"\""},
                  {"one word", "a: ", "a"},
                  {"escapes", "a: \"", "\\n", "\""},
                  {"a block", "a: |\n", " a\n"},
                  {"lines of one value", "a:\n", " a\n"},
                  {"comments", "a: 1\n", "# a\n"},
                  {"documents", "", "---\na: 1\n"},
                  {"tags", "a: ", "!a "},
                  {"blanks", "a: 1", " "},
                  {"line breaks", "a: 1", "\n"},
                  {"long lines", "", "a a a a a a a a a a a a a a a a a a a a: b\n"},
                  {"deeper lines in one", "a: {", "a@: {b: 1},", "a: 1}"}}},
      {.name = "settings as json",
       .read = json,
       .most = detail::kLongestSettings,
       .shapes = {{"keys", "{", R"("k@": 1,)", R"("a": 1})"},
                  {"deep", "", R"({"a": )", "1", "}"},
                  {"values below a long key", "{\"" + std::string(900, 'a') + "\": {",
                   R"("k@": 1,)", R"("a": 1}})"},
                  {"values below a longer key", "{\"" + std::string(40'000, 'a') + "\": {",
                   R"("k@": 1,)", R"("a": 1}})"},
                  {"a list", "{\"a\": [", "1,", "1]}"},
                  {"lists in lists", "{\"a\": ", "[", "1", "]"}}},
  };
}

}  // namespace trainwright::growth
