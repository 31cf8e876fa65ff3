#pragma once
// Private to the module: what a rule's texts come to for one row.
#include <string>
#include <string_view>

#include "trainwright/measured/run.h"
#include "trainwright/measured/source.h"

namespace trainwright::detail {

// A cell against one pattern of a condition (source.h).
bool matches(std::string_view cell, std::string_view pattern);
bool holds(const SourceRule& rule, const MeasuredRun& run, Learned learned);
// `top` over `base`: objects member by member, arrays one after the other.
void lay_over(Json& base, const Json& top);

// Texts with their columns filled in; `missing` names a column that is needed and empty.
std::string filled(std::string_view text, const MeasuredRun& run, std::string& missing);
Json filled(const Json& json, const MeasuredRun& run, std::string& missing);

}  // namespace trainwright::detail
