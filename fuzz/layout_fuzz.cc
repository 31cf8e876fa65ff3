// Whatever the layout and job parsers accept reads back from its text and from its JSON, and can be
// placed on ranks.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "trainwright/layout/layout.h"

using namespace trainwright;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto read = parse_layout(text, {.world = 1024, .usual = {}})) {
    const auto again = parse_layout(to_text(read->layout));
    require(again && again->layout == read->layout);
    const auto json = read_layout(to_json(read->layout), "fuzz");
    require(json && json->layout == read->layout);
    require(rank_group(read->layout, GroupKind::DpCp).size >= 1);
  }
  if (const auto job = parse_job(text)) {
    require(parse_job(to_text(*job)) == *job);
    require(read_job(to_json(*job), "fuzz") == *job);
  }
  if (const auto json = parse_json(text, "fuzz")) {
    (void)read_layout(*json, "fuzz");
    (void)read_job(*json, "fuzz");
  }
  return 0;
}
