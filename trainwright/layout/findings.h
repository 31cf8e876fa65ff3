#pragma once
// Private: gathering what is wrong with a layout, one idea per file.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainwright/layout/layout.h"

namespace trainwright::detail {

class Findings {
 public:
  // What is found twice (several layers of a model may give the same reason) is reported once.
  void forbid(std::string id, std::string reason, std::string hint = {});
  void advise(std::string id, std::string reason, std::string hint = {});
  void add(LayoutViolation violation);
  bool has(std::string_view id) const;
  bool empty() const { return list_.empty(); }
  std::vector<LayoutViolation> take() { return std::move(list_); }

 private:
  std::vector<LayoutViolation> list_;
};

// Everything a check may look at.
struct Case {
  const Layout& layout;
  const Job& job;
  const Model& model;
  const Cluster& cluster;
  const Trainer& trainer;
  const Schedule* order = nullptr;  // of schedule=csv
};

// Values no other check could divide by; if it finds any, nothing else is looked at.
void check_ranges(const Case& c, Findings& findings);
void check_degrees(const Case& c, Findings& findings);   // ranks, batch, sharding, experts
void check_shapes(const Case& c, Findings& findings);    // heads, widths, sequence, positions
void check_pipeline(const Case& c, Findings& findings);  // layers, schedule, recompute
void check_job(const Case& c, Findings& findings);       // precision on this hardware, LoRA, frozen
void check_named(const Job& job, const Model& model, Findings& findings);  // of that, by name
void check_offered(const Case& c, Findings& findings);                     // what the trainer has
void check_base(const Job& job, const Trainer& trainer, Findings& findings);       // of that
void check_prepared(const Job& job, const Trainer& trainer, Findings& findings);   // of that
void check_loaded(const Job& job, const Trainer& trainer, Findings& findings);     // of that
void check_optimizer(const Job& job, const Trainer& trainer, Findings& findings);  // of that
void check_rules(const Case& c, Findings& findings);  // what the trainer's rules say

// "tp may be 1, 2, 4": the divisors of a number, the nearest twelve to the one that was asked for.
std::string divisors_hint(std::string_view key, std::int64_t number, std::int64_t asked);

}  // namespace trainwright::detail
