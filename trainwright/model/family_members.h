#pragma once
// Private: the members of a family that files of data/families name, by kind.
#include <span>

#include "trainwright/model/family.h"

namespace trainwright::detail {

template <class Of>
struct Named {
  std::string_view name;
  Of of;
};

std::span<const Named<IntegerField Family::*>> integer_members();
std::span<const Named<BoolField Family::*>> switch_members();
std::span<const Named<bool Family::*>> flag_members();
std::span<const Named<bool CodeStyle::*>> style_members();
std::span<const Named<std::int64_t Family::*>> number_members();
std::span<const Named<Norm Family::*>> norm_members();
std::span<const Named<std::string Family::*>> text_members();
std::span<const Named<LayerPattern Family::*>> pattern_members();
std::span<const Named<std::vector<ExtraField> Family::*>> extra_members();
std::span<const Named<IntegerField LayerPattern::*>> pattern_numbers();
std::span<const Named<std::string LayerPattern::*>> pattern_texts();

}  // namespace trainwright::detail
