#include <doctest/doctest.h>

#include <algorithm>

#include "trainwright/cli/plan_details.h"

namespace trainwright::cli {
namespace {

Layout read(const char* text) { return parse_layout(text)->layout; }

TEST_CASE("a layout is said in one sentence: copies, accelerators of each, what is split") {
  CHECK(headline(read("tp=1,pp=1,dp=1,mbs=1,gbs=8,seq=2048")) ==
        "One copy of the model on 1 accelerator.");
  // 8 x 4 x 2 = 64 accelerators for a copy; ZeRO shares over dp x cp = 4 x 2.
  CHECK(headline(read("tp=8,pp=4,cp=2,dp=4,sp,zero=1,mbs=1,gbs=64,seq=8192")) ==
        "4 copies of the model, each on 64 accelerators: every matrix split over 8, layers dealt "
        "to 4 "
        "pipeline ranks and sequences split in 2; optimizer states are shared out over 8 "
        "accelerators.");
}

TEST_CASE("every entry that splits something has a sentence, and one that does not has none") {
  const auto words = plain_words(read("tp=2,pp=4,vpp=2,dp=1,mbs=1,gbs=16,seq=2048"));
  const auto has = [&](const char* entry) {
    return std::any_of(words.begin(), words.end(),
                       [&](const LayoutWord& word) { return word.entry == entry; });
  };
  CHECK(has("tp=2"));
  CHECK(has("pp=4"));
  CHECK(has("vpp=2"));
  CHECK(has("schedule=interleaved-1f1b"));
  CHECK_FALSE(has("cp=1"));
  CHECK_FALSE(has("dp=1"));
}

TEST_CASE("every entry of a layout's text but its sizes and precision is said in words") {
  const char* text =
      "tp=2,pp=4,vpp=2,cp=2,ep=2,etp=1,dp=2,sp,zero=1,mbs=1,gbs=16,seq=2048,recompute=full,"
      "first_layers=7,last_layers=9,count_embedding,count_loss=2,on=grouped-gemm+compile,"
      "off=overlap-gradient-reduce,loss=chunked,dispatcher=flex";
  const auto words = plain_words(read(text));
  for (const std::string entry : {"tp=2",           "sp",
                                  "pp=4",           "vpp=2",
                                  "cp=2",           "ep=2",
                                  "etp=1",          "dp=2",
                                  "zero=1",         "mbs=1",
                                  "recompute=full", "first_layers=7",
                                  "last_layers=9",  "count_embedding=1",
                                  "count_loss=2",   "on=grouped-gemm",
                                  "on=compile",     "off=overlap-gradient-reduce",
                                  "loss=chunked",   "dispatcher=flex"}) {
    CAPTURE(entry);
    CHECK(std::count_if(words.begin(), words.end(), [&](const LayoutWord& word) {
            return word.entry == entry && !word.says.empty();
          }) == 1);
  }
}

}  // namespace
}  // namespace trainwright::cli
