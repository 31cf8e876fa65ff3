#include "trainwright/layout/keys.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/base/text.h"
#include "trainwright/layout/entries.h"
#include "trainwright/layout/layout.h"

namespace trainwright {
namespace {

bool has(std::span<const EntryKey> keys, std::string_view name) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const EntryKey& key) { return key.name == name; });
}

TEST_CASE("every key stands in its example, and the example is read") {
  for (const EntryKey& key : layout_keys()) {
    CAPTURE(key.name);
    CHECK(split(key.example, '=').front() == key.name);
    CHECK(parse_layout(key.example).has_value());
    CHECK(!values_text(key).empty());
    CHECK(!key.left_out.empty());
  }
  for (const EntryKey& key : job_keys()) {
    CAPTURE(key.name);
    CHECK(split(key.example, '=').front() == key.name);
    // What describes adapters is read beside some.
    const bool of_adapters = key.name == "base" || key.name == "prepared" ||
                             key.name == "trained" || key.name == "quantised_experts" ||
                             key.name.starts_with("lora_");
    CHECK(parse_job((of_adapters ? "lora=8," : "") + std::string(key.example)).has_value());
    CHECK(!values_text(key).empty());
    CHECK(!key.left_out.empty());
  }
}

TEST_CASE("what a layout and a job are written with is in the tables") {
  for (const JsonMember& member : detail::all_entries(Layout{}).members) {
    CAPTURE(member.key);
    CHECK(has(layout_keys(), member.key));
  }
  const Job job = *parse_job(
      "qlora=8:q_proj,prepared=peft,lora_dtype=fp32,lora_dropout,frozen=router,"
      "trained=head,quantised_experts,loaded=bf16");
  const Json written = to_json(job);
  for (const JsonMember& member : written.members) {
    CAPTURE(member.key);
    CHECK(has(job_keys(), member.key));
  }
}

TEST_CASE("a key that is not in the table is answered with the nearest and where to look") {
  const auto read = parse_layout("tpp=8");
  REQUIRE(!read);
  REQUIRE(read.error().diagnostics.size() == 1);
  CHECK(read.error().diagnostics[0].hint ==
        "did you mean 'tp', 'pp' or 'vpp'? `trainwright help layout` lists the keys");
}

TEST_CASE("sequences may be counted in k, and modules called by Megatron's names") {
  CHECK(parse_layout("seq=4k,gbs=1k")->layout.seq == 4096);
  CHECK(parse_layout("seq=4k,gbs=1k")->layout.gbs == 1024);
  CHECK(parse_layout("recompute=modules:core_attn+layernorm+mla_up_proj+moe_act")->layout ==
        parse_layout("recompute=modules:core-attention+norm+mla-up-projection+moe-activation")
            ->layout);
}

}  // namespace
}  // namespace trainwright
