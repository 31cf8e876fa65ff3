#include "trainwright/cli/command_line.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "trainwright/base/text.h"
#include "trainwright/testing/folder.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright::cli {
namespace {

Reply reply_to(std::vector<std::string> words) {
  static const DataDirectory data(kShippedData);
  return run_command_line(words, {.data = data});
}

// The "what" of every fault in a JSON reply.
std::vector<std::string> faults_in(const Reply& reply) {
  const auto json = parse_json(reply.output, "reply");
  REQUIRE(json.has_value());
  std::vector<std::string> faults;
  REQUIRE(json->find("error") != nullptr);
  for (const Json& fault : json->find("error")->items) faults.push_back(fault.find("what")->string);
  return faults;
}

TEST_CASE("help and version are answers, not faults") {
  const Reply help = reply_to({"estimate", "--help"});
  CHECK(help.exit == Exit::Ok);
  CHECK(help.output.find("--layout") != std::string::npos);
  CHECK(reply_to({"--version"}).output.starts_with("trainwright "));
}

TEST_CASE("with --json every fault of the words is JSON, and text for people all the same") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"list", "--json"}, "a command is needed"},
      {{"estimat", "--json"}, "unknown command 'estimat'"},
      {{"estimate", "llama-2-7b", "--on", "8xH100", "--json", "--latout", "tp=8"},
       "unknown option '--latout'"},
      {{"estimate", "llama-2-7b", "tp=8,mbs=1", "--on", "8xH100", "--json"},
       "'tp=8,mbs=1' stands alone"},
      {{"estimate", "llama-2-7b", "--on", "8xH100", "--json"}, "--layout is required"},
      {{"schedule", "make", "1f1b", "--ranks", "four", "--microbatches", "4", "--json"},
       "'four' is not a whole number"},
      {{"show", "model", "lama-2-7b", "--json"},
       "there is no model of this name and no such file"}};
  for (const auto& [words, fault] : cases) {
    const Reply reply = reply_to(words);
    CHECK(reply.exit == Exit::BadInput);
    REQUIRE(faults_in(reply).size() == 1);
    CHECK(faults_in(reply)[0] == fault);
    CHECK(reply.error.find(fault) != std::string::npos);
    std::vector<std::string> plain = words;
    std::erase(plain, "--json");
    CHECK(reply_to(plain).output.empty());
    CHECK(reply_to(plain).error == reply.error);
  }
}

TEST_CASE("all values that are no numbers are told at once") {
  const Reply reply = reply_to({"plan", "llama-2-7b", "--on", "8xH100", "--batch", "sixty", "--seq",
                                "4k", "--risk", "7x", "--price", "cheap", "--json"});
  CHECK(reply.exit == Exit::BadInput);
  CHECK(faults_in(reply).size() == 3);
  // With those of the names beside them.
  const Reply names = reply_to({"plan", "lama-2-7b", "--on", "8xH1000", "--batch", "sixty", "--seq",
                                "4k", "--trainer", "megatroll", "--risk", "7x", "--json"});
  CHECK(faults_in(names).size() == 5);
}

TEST_CASE("behind -- nothing is an option, not even after an option of several values") {
  const Reply name = reply_to({"estimate", "--on", "8xH100", "--layout", "tp=2", "--", "-h"});
  CHECK(name.exit == Exit::BadInput);
  CHECK(name.error.find("-h: there is no model of this name") != std::string::npos);
  // No trial can be started from here, which is said after everything was read.
  const Reply several =
      reply_to({"tune", "run", "llama-2-7b", "--on", "8xH100", "--batch", "64", "--seq", "4k",
                "--history", "nowhere", "--among", "tp=2,mbs=1", "--", "python", "--foo"});
  CHECK(several.error.find("no trial can be started from here") != std::string::npos);
  const Reply model = reply_to({"plan", "--on", "8xH100", "--batch", "64", "--seq", "4k", "--fix",
                                "pp=1", "--", "--version"});
  CHECK(model.error.find("--version: there is no model of this name") != std::string::npos);
}

TEST_CASE("what others wrote gives a terminal no orders") {
  const Reply reply = reply_to({"show", "model", "\x1b[2J\xe2\x80\xae\a"});
  CHECK(reply.error.find("\\u001b[2J\\u202e\\u0007") != std::string::npos);
  for (const char hidden : {'\x1b', '\a'}) CHECK(reply.error.find(hidden) == std::string::npos);
  const Reply drawn =
      reply_to({"schedule", "draw", "1f1b", "--ranks", "2", "--microbatches", "2", "--colour"});
  CHECK(drawn.output.find("\x1b[30;44m") != std::string::npos);
}

std::string written(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path.string();
}

TEST_CASE("no reader lets a name in that is not printable, and each says where it stands") {
  const Folder folder;
  const std::filesystem::path at(folder.path);
  const std::string config = R"("model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32})";
  const std::string groups = R"("groups": [{"accelerator": "H100", "nodes": 1}]})";
  const std::string own = "model,on,trainer,layout,kind,measured\n";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"show", "model", R"({"_name_or_path": "a\nb", )" + config}, "model:1 /_name_or_path"},
      {{"show", "model", R"({"hidden_act": "a\u202eb", )" + config}, "/hidden_act"},
      {{"show", "model",
        std::filesystem::path(written(at / "a\nb/config.json", "{" + config)).parent_path()},
       "config.json"},
      {{"show", "model", written(at / "a\x9b.json", "{" + config)}, ".json"},
      {{"show", "cluster", written(at / "c.json", R"({"name": "a\u0000", )" + groups)},
       "c.json:1 /name"},
      {{"show", "cluster", written(at / "c\u200f.json", "{" + groups)}, ".json:1"},
      {{"show", "trainer", R"({"based_on": "megatron\u0007"})"}, "trainer:1 /based_on"},
      {{"replay", written(at / "t.jsonl", R"({"trainwright_trace": 1, "program": "\u001b[2J"})")},
       "t.jsonl:1 /program"},
      {{"replay", written(at / "u.jsonl", "{\"trainwright_trace\": 1}\n\"\\u001b[2J\"\n")},
       "u.jsonl:2"},
      {{"calibrate",
        written(at / "m.csv", own + "llama-2-7b,8xH100,megatron,\"tp=2\n\",step,1 s\n")},
       "m.csv:2 layout"}};
  for (const auto& [words, place] : cases) {
    CAPTURE(place);
    const Reply reply = reply_to(words);
    CHECK(reply.exit == Exit::BadInput);
    CHECK(reply.error.find(place) != std::string::npos);
    CHECK(reply.error.find("holds ") != std::string::npos);
    CHECK(reply.error.find("hint: ") != std::string::npos);
  }
}

TEST_CASE("estimate takes batch and length as plan does, and not twice") {
  const auto answered = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"estimate", "llama-3.2-1b", "--on", "8xH100"});
    return reply_to(words);
  };
  const Reply apart = answered({"--layout", "mbs=1", "--batch", "64", "--seq", "4k"});
  CHECK(apart.exit == Exit::Ok);
  CHECK(apart.output == answered({"--layout", "mbs=1,gbs=64,seq=4096"}).output);
  const Reply twice = answered({"--layout", "mbs=1,gbs=32,seq=4096", "--batch", "64"});
  CHECK(twice.exit == Exit::BadInput);
  CHECK(twice.error.find("gbs is given twice") != std::string::npos);
  CHECK(twice.error.find("leave one of them out; --batch gives it, too") != std::string::npos);
}

TEST_CASE("a batch may be given in tokens") {
  const auto answered = [](const char* batch) {
    return reply_to({"export", "mbs=1,zero=1", "--model", "llama-3.2-1b", "--on", "8xH100",
                     "--batch", batch, "--seq", "4k"});
  };
  // 2^22 tokens in sequences of 2^12 are 2^10 sequences.
  CHECK(answered("4M-tokens").output == answered("1024").output);
  CHECK(answered("4M-tokens").exit == Exit::Ok);
  const Reply odd = answered("5000-tokens");
  CHECK(odd.exit == Exit::BadInput);
  CHECK(odd.error.find("--batch 1 is 4,096 tokens") != std::string::npos);
  CHECK(answered("many-tokens").error.find("not a whole number") != std::string::npos);
  const Reply huge = answered("9223372036854775807-tokens");
  CHECK(huge.error.find("'9223372036854775807-tokens' is too large") != std::string::npos);
}

TEST_CASE("a step of hours is warned of, and so is an export that does not fit") {
  const Reply slow = reply_to({"estimate", "llama-3.1-8b", "--on", "8xH100", "--layout",
                               "tp=2,zero=1,mbs=1,recompute=full,gbs=4194304,seq=8192"});
  CHECK(slow.error.find("warning: a step takes") != std::string::npos);
  const Reply full =
      reply_to({"export", "mbs=1,gbs=64,seq=4096", "--model", "llama-2-70b", "--on", "16xH100"});
  CHECK(full.exit == Exit::Ok);
  CHECK(full.error.starts_with("warning: this does not fit: peak memory 1.2"));
}

TEST_CASE("plans of Megatron group the products of experts") {
  const Reply reply = reply_to({"plan", "qwen3-30b-a3b", "--on", "16xH200", "--batch", "64",
                                "--seq", "4k", "--fix", "tp=1", "--fix", "pp=1", "--fix", "mbs=1"});
  REQUIRE(reply.exit == Exit::Ok);
  CHECK(reply.output.find("+grouped-gemm") != std::string::npos);
  // 0.8.0 training/arguments.py: in bf16 only.
  const Reply half = reply_to({"plan",  "qwen3-30b-a3b", "--on",  "16xH200",   "--batch",
                               "64",    "--seq",         "4k",    "--fix",     "tp=1",
                               "--fix", "pp=1",          "--fix", "ep=1",      "--fix",
                               "mbs=1", "--precision",   "fp32",  "--trainer", "megatron@0.12"});
  CHECK(half.output.find("grouped-gemm") == std::string::npos);
}

TEST_CASE("Megatron-Bridge has its distributed optimizer unasked") {
  const auto answered = [](const char* layout) {
    return reply_to({"estimate", "llama-3.1-8b", "--on", "8xH100", "--trainer", "megatron-bridge",
                     "--layout", layout});
  };
  const Reply silent = answered("mbs=1,gbs=8,seq=4096");
  CHECK(silent.output.find("--layout tp=1,pp=1,dp=8,zero=1,mbs=1") != std::string::npos);
  CHECK(silent.output.find("invalid") == std::string::npos);
  // Off, it is said, so that the layout is read as it was written.
  const Reply off = answered("zero=0,off=overlap-parameter-gather,mbs=1,gbs=8,seq=4096");
  CHECK(off.output.find("zero=0") != std::string::npos);
}

TEST_CASE("where a cluster is too small for --within, the fewest that are not are named") {
  const Reply reply =
      reply_to({"plan", "llama-3.2-1b", "--on", "8xH100", "--batch", "512", "--seq", "4k", "--fix",
                "tp=1", "--fix", "pp=1", "--tokens", "3T", "--within", "30"});
  CHECK(reply.output.find("Fewest that do it:") != std::string::npos);
}

TEST_CASE("numbers of a run that nobody can pay are refused, and none is negative") {
  const auto asked = [](const char* tokens, const char* price) {
    return reply_to({"plan", "llama-3.2-1b", "--on", "8xH100", "--batch", "64", "--seq", "4k",
                     "--fix", "tp=1", "--fix", "pp=1", "--top", "1", "--tokens", tokens, "--price",
                     price});
  };
  const Reply refused = asked("1e18T", "1e308");
  CHECK(refused.exit == Exit::BadInput);
  CHECK(refused.error.find("--tokens: '1e18T' is too large") != std::string::npos);
  CHECK(refused.error.find("--price: it is above 1e9") != std::string::npos);
  const Reply most = asked("1e6T", "1e9");
  CHECK(most.exit == Exit::Ok);
  // 1e18 tokens in steps of 2^18.
  CHECK(most.output.find("3,814,697,265,625 steps") != std::string::npos);
  CHECK(most.output.find("-9,223") == std::string::npos);  // an integer that overflowed
}

TEST_CASE(
    "a part of a named cluster is compared with other parts of it, though its name has an x") {
  const Reply parts =
      reply_to({"plan", "llama-3.1-8b", "--on", "32xdgx-h100-superpod", "--batch", "64", "--seq",
                "4k", "--top", "1", "--fix", "tp=1", "--fix", "pp=1", "--pareto"});
  CHECK(parts.output.find("16xdgx-h100-superpod") != std::string::npos);
  CHECK(parts.output.find("16xH100-SXM") == std::string::npos);
  const auto larger = [](const char* on, const char* zero) {
    return reply_to({"plan", "llama-3.1-70b", "--on", on, "--batch", "256", "--seq", "4k", "--top",
                     "1", "--fix", "tp=8", "--fix", "pp=1..4", "--fix", zero})
        .output;
  };
  // 16 bytes and more for each of 70 B parameters: 1.1 TB in all, 32 times 80 GB are 2.5.
  CHECK(larger("8xdgx-h100-superpod", "zero=0").find("Fits on 32xdgx-h100-superpod") !=
        std::string::npos);
}

TEST_CASE("no line of help is wider than a terminal of 80") {
  for (const char* name : {"plan", "estimate", "export", "explain", "tune", "show", "validate",
                           "schedule", "reconcile", "calibrate", "replay", "report", "list"}) {
    const std::string help = reply_to({name, "--help"}).output;
    for (const std::string_view line : split(help, '\n')) {
      CHECK_MESSAGE(line.size() <= 80, name << ": " << line);
    }
    CHECK_MESSAGE(help.find("Examples:") != std::string::npos, name);
  }
}

TEST_CASE("where ZeRO-3 keeps the host busy, estimate says so") {
  const auto said = [](const char* layout) {
    return reply_to({"estimate", "llama-3.1-8b", "--on", "8xA100-80GB", "--trainer", "deepspeed",
                     "--layout", layout, "--width", "200"})
        .output;
  };
  const char* note = "DeepSpeed takes 0.4 ms of it for each module in every pass";
  CHECK(said("zero=3,mbs=1,gbs=64,seq=512").find(note) != std::string::npos);
  CHECK(said("zero=2,mbs=1,gbs=64,seq=512").find(note) == std::string::npos);
  CHECK(said("zero=3,mbs=4,gbs=64,seq=4096").find(note) == std::string::npos);
}

TEST_CASE("plan --export writes the recommended layout as export does") {
  const Reply reply = reply_to({"plan", "llama-3.2-1b", "--on", "8xH100", "--batch", "64", "--seq",
                                "2k", "--trainer", "torchtitan", "--export", "/nonexistent/run"});
  REQUIRE(reply.exit == Exit::Ok);
  REQUIRE(reply.files.size() == 5);  // and what was written, for the next export
  CHECK(reply.files[0].path == "/nonexistent/run/settings.sh");
  CHECK(reply.files[2].content.find("trainwright estimate llama-3.2-1b --on 8xH100") !=
        std::string::npos);
  CHECK(reply.output.find("/nonexistent/run/launch.sh") != std::string::npos);
}

TEST_CASE("plan --json names the question, and the larger cluster where nothing fits") {
  const Reply reply =
      reply_to({"plan", "llama-2-7b", "--on", "1xA100-40GB", "--batch", "8", "--seq", "2k",
                "--precision", "bf16", "--attention", "flash", "--risk", "0.01", "--json"});
  CHECK(reply.exit == Exit::DoesNotFit);
  const auto json = parse_json(reply.output, "reply");
  REQUIRE(json.has_value());
  const auto text = [&](const char* key) { return json->find(key)->string; };
  CHECK(text("model") == "llama-2-7b");
  CHECK(text("cluster") == "1xA100-SXM-40GB");
  CHECK(text("precision") == "bf16");
  CHECK(text("attention") == "flash");
  CHECK(text("end") == "nothing-fits");
  // 16 bytes for each of 6.74 B parameters, most of them sharded: several cards of 40 GB.
  REQUIRE(json->find("fits_on") != nullptr);
  CHECK(json->find("fits_on")->find("cluster")->string.ends_with("xA100-SXM-40GB"));
}

TEST_CASE("files are given to be written, and nothing is written by a command") {
  const Reply reply = reply_to({"schedule", "make", "1f1b", "--ranks", "2", "--microbatches", "2",
                                "--csv", "/nonexistent/a.csv", "--svg", "b.svg"});
  CHECK(reply.exit == Exit::Ok);
  REQUIRE(reply.files.size() == 2);
  CHECK(reply.files[0].path == "/nonexistent/a.csv");
  CHECK(reply.files[0].content == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(reply.files[1].content.starts_with("<svg"));
}

TEST_CASE("an option that is longer than any file's name is not taken for one") {
  const std::string costs = "F=" + std::string(10'000, '1');
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"schedule", "make", "1f1b", "--ranks", "2", "--microbatches", "2", "--costs", costs},
           {"schedule", "make", costs, "--ranks", "2", "--microbatches", "2"},
           {"show", "model", costs},
           {"replay", costs}}) {
    CHECK(reply_to(words).exit == Exit::BadInput);
  }
}

TEST_CASE("options have the names that training frameworks give them, but not behind --") {
  const std::vector<std::string> ours = {"estimate",  "llama-2-7b", "--on",     "8xH100",
                                         "--trainer", "megatron",   "--batch",  "64",
                                         "--seq",     "4k",         "--layout", "tp=2,mbs=1"};
  const std::vector<std::string> theirs = {
      "estimate",        "llama-2-7b", "--gpus", "8xH100",   "--framework", "megatron",
      "--batch-size=64", "--seq-len",  "4k",     "--layout", "tp=2,mbs=1"};
  CHECK(reply_to(theirs).output == reply_to(ours).output);
  CHECK(reply_to({"help", "--", "--gpus"}).exit == Exit::BadInput);
}

}  // namespace
}  // namespace trainwright::cli
