// Settings written, then read back into our words.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/export/export.h"
#include "trainwright/export/read.h"
#include "trainwright/testing/shipped_trainers.h"

namespace trainwright {
namespace {

// What the file cannot carry is given again.
std::string rest_of(const Layout& layout, const Understood& read) {
  std::string text = read.layout;
  for (const std::string& key : read.not_said) {
    const std::int64_t value = key == "seq" ? layout.seq : key == "gbs" ? layout.gbs : layout.mbs;
    text += fmt::format(",{}={}", key, value);
  }
  return text;
}

// A trainer with what its layouts are judged against, read once.
struct Setup {
  Surroundings around;
  Target target;
};

Setup setup(const char* trainer, const char* model) {
  Diagnostics faults;
  const Words words{.model = model,
                    .on = "16xH100",
                    .trainer = trainer,
                    .layout = {},
                    .job = {},
                    .attention = {},
                    .schedule = {}};
  Setup made{read_surroundings(words, DataDirectory(kShippedData), faults), {}};
  REQUIRE_MESSAGE(faults.empty(), to_text(Error{faults}));
  made.target = *find_target("", *made.around.trainer);
  return made;
}

std::optional<Layout> layout_of(const Setup& setup, const std::string& text) {
  const auto read =
      parse_layout(text, layout_context(*setup.around.cluster, *setup.around.trainer));
  return read ? std::optional(read->layout) : std::nullopt;
}

Translation translated(const Setup& setup, const Layout& layout) {
  return translate({.model = *setup.around.model,
                    .cluster = *setup.around.cluster,
                    .trainer = *setup.around.trainer,
                    .layout = layout,
                    .job = *setup.around.job},
                   setup.target);
}

// Whether a legal layout that can be said was there to be compared.
bool round_trip(const Setup& setup, const std::string& words) {
  const Surroundings& around = setup.around;
  const auto before = layout_of(setup, words);
  if (!before || !is_legal(violations(*before, *around.job, *around.model, *around.cluster,
                                      *around.trainer))) {
    return false;
  }
  const Translation said = translated(setup, *before);
  if (!said.unsayable.empty()) return false;
  const std::string text = settings_text(said.settings, setup.target);
  const auto settings = read_settings(text, "file", setup.target.form);
  REQUIRE_MESSAGE(settings.has_value(), text);
  const auto read = understand(*settings, *around.trainer, setup.target, 16);
  REQUIRE_MESSAGE(read.has_value(), text);
  const auto after = layout_of(setup, rest_of(*before, *read));
  REQUIRE_MESSAGE(after.has_value(), rest_of(*before, *read));
  CHECK_MESSAGE(settings_text(translated(setup, *after).settings, setup.target) == text,
                words << " became " << to_text(*after));
  const auto key_facts = [&](const Layout& one) {
    return std::tuple(one.tp, one.pp, one.cp, one.dp, one.ep, one.vpp, one.mbs, one.gbs, one.seq,
                      one.precision, one.sharding, one.schedule,
                      gradient_dtype(one, *around.trainer));
  };
  CHECK_MESSAGE(key_facts(*before) == key_facts(*after), words << " became " << to_text(*after));
  return true;
}

TEST_CASE("what is exported is read back as the same layout, for every trainer with a reader") {
  const char* shapes[] = {"",
                          "tp=2,sp",
                          "tp=2",
                          "pp=2",
                          "pp=2,tp=2,sp",
                          "cp=2",
                          "tp=2,cp=2,sp",
                          "pp=4,layers=7/8/8/9",
                          "pp=2,vpp=2",
                          "tp=4,pp=2,vpp=4,sp",
                          "ep=4,etp=1"};
  const char* states[] = {"sharding=ddp",
                          "zero=1",
                          "zero=2",
                          "zero=3",
                          "fsdp,zero=2",
                          "fsdp",
                          "hsdp,dp_replicate=2",
                          "sharding=megatron-fsdp"};
  const char* rests[] = {"",
                         "recompute=full",
                         "recompute=selective",
                         "recompute=op-selective",
                         "recompute=modules:norm+mlp,precision=fp16",
                         "recompute=block:2",
                         "recompute=every-nth:2",
                         "precision=fp8-tensorwise",
                         "precision=fp32",
                         "gradients=bf16",
                         "gradients=fp32",
                         "precision=fp8-tensorwise,gradients=bf16",
                         "offload=optimizer",
                         "on=overlap-gradient-reduce",
                         "on=compile",
                         "cp_kind=all-gather",
                         "mbs=2,schedule=zb-v,vpp=2",
                         "dispatcher=deepep",
                         "dispatcher=hybridep",
                         "dispatcher=nccl-ep"};
  for (const char* trainer : {"megatron@0.19", "megatron-bridge", "torchtitan@0.3",
                              "torchtitan@0.2", "deepspeed@0.19.8", "accelerate@1.15"}) {
    int compared = 0;
    for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b"}) {
      const Setup made = setup(trainer, model);
      for (const char* shape : shapes) {
        // DeepSpeed's pipeline is no part of its file.
        if (std::string_view(trainer).starts_with("deepspeed") &&
            std::string_view(shape).find("pp=") == 0)
          continue;
        for (const char* state : states) {
          for (const char* rest : rests) {
            std::string text = fmt::format("gbs=128,seq=4096");
            for (const char* part : {shape, state, rest})
              text += *part == '\0' ? "" : fmt::format(",{}", part);
            compared += round_trip(made, text) ? 1 : 0;
          }
        }
      }
    }
    CHECK_MESSAGE(compared > 20, trainer << ": " << compared);
  }
}

}  // namespace
}  // namespace trainwright
