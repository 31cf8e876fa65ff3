#pragma once
// Private: what drawings share.
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace trainwright::detail {

// Text between tags or quotes; XML has no control characters.
std::string escaped(const std::string& text);

// Of the page (web/report/page.css): each has a contrast of 3 on white and on black.
inline constexpr std::array<std::string_view, 15> kColours = {
    "#3175bb", "#3a8bc9", "#6a63c4", "#8f57b3", "#2f855a", "#56912a", "#86821a", "#b7791f",
    "#c05621", "#b5533c", "#a9527e", "#0f8a94", "#7a8691", "#5f7186", "#8d7b6b"};

std::string text_at(double x, double y, std::string_view anchor, const std::string& text);
// The first lines of a picture, with its title at `left`.
std::string begun_svg(double width, double height, double left, const std::string& title);
// Names in rows between two edges, each beside every `stride`th colour.
std::string legend_svg(const std::vector<std::string>& names, double left, double right, double y,
                       std::size_t stride = 1);

}  // namespace trainwright::detail
