#pragma once
// Private: a question with everything looked up that its classes of ranks share.
#include <map>
#include <vector>

#include "trainwright/memory/peak.h"
#include "trainwright/memory/reserve.h"
#include "trainwright/memory/settle.h"

namespace trainwright::detail {

// Everything of a question that is the same for all of its classes.
struct Prepared {
  const MemoryQuestion& question;
  LayoutRules rules;
  StageInventory inventory;
  Recipe recipe;
  WorkCache cache;
  std::vector<ChunkBytes> chunks;   // by content
  std::vector<ContentTerms> terms;  // likewise
  std::vector<Moments> moments;     // by pipeline rank
  OutsideBytes outside;
};
Result<Prepared> prepare(const MemoryQuestion& question);

OperatorList list_of(const Prepared& work, const ListOf& of);

// Reserved beyond allocated, by replaying ranks of a group. Of more than kMostReplays pipeline
// ranks some are replayed, and the others take the share of what comes and goes that the one before
// had.
inline constexpr std::int64_t kMostReplays = 64;
class SlackReplay {
 public:
  explicit SlackReplay(Prepared& work) : work_(work) {}
  // `coming`: bytes that come and go at the rank's peak.
  Result<SlackBytes> slack(const PipelineGroup& group, const GroupTerms& terms, std::int64_t rank,
                           RealBytes coming);
  // With the host so many kernels ahead.
  Result<Reserved> replayed(const PipelineGroup& group, const GroupTerms& terms, std::int64_t rank,
                            double lead);

 private:
  Result<std::vector<Action>> actions_of(std::int64_t rank);
  void build_programs(const PipelineGroup& group);

  Prepared& work_;
  std::map<const Totals*, StorageEvents> events_ = {};
  std::map<const Totals*, ListWeights> weights_ = {};
  std::optional<Schedule> made_ = {};  // of kinds that are made for all ranks at once
  std::vector<std::int32_t> chunk_of_ = {};
  const PipelineGroup* last_group_ = nullptr;
  // Of what comes and goes, as SlackBytes.
  struct SlackShares {
    double usual = 0, most = 0, first = 0;
  };
  SlackShares last_share_ = {};
};

}  // namespace trainwright::detail
