#pragma once
// Private to the module: cutting a group of another size out of a group, and choosing how many
// accelerators of each scale-up domain a job takes.
#include <optional>

#include "trainwright/cluster/cluster.h"

namespace trainwright::detail {

// The accelerators of a group in one job: `domains` domains of `per_domain` each.
struct DomainShape {
  std::int64_t domains = 1;
  std::int64_t per_domain = 1;

  friend bool operator==(const DomainShape&, const DomainShape&) = default;
};

// How accelerators of one kind usually stand: one full domain, with leaf and spine above it that
// have no end yet. `sized` makes it a group.
Group usual_pattern(const Accelerator& accelerator);

// The pattern with `shape.domains` domains, `shape.per_domain` accelerators used of each. The
// network tiers keep their number of domains, so bandwidth per accelerator stays what it was.
// Needs fits(pattern, shape).
Group sized(const Group& pattern, DomainShape shape);

// Whether domains of this shape are whole nodes (or less than one) and not too large.
bool fits(const Group& pattern, DomainShape shape);

// How many accelerators of a domain of this pattern a job usually takes: `job_domain` where domains
// are as large as usual, else all of them.
std::int64_t job_domain(const Group& pattern);

// The shape that a bare count means, or nullopt when nodes or domains would be filled unequally:
// up to one domain is one domain; more are parts of job_domain(), or else whole domains.
std::optional<DomainShape> usual_shape(const Group& pattern, std::int64_t count);

}  // namespace trainwright::detail
