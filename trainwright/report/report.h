#pragma once
// What people read: tables that fit the width they are shown at, and curves.
//
// A Table is rows of text cells under headed columns. Columns are as wide as their widest cell; if
// the whole is wider than the page, the columns marked Wrap give way, widest first, and their cells
// continue on the next line. Nothing is ever cut off.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trainwright/base/json.h"
#include "trainwright/base/result.h"

namespace trainwright {

enum class Align {
  Left,
  Right,  // numbers
  Wrap,   // left-aligned prose that may be broken between words
};

struct Column {
  std::string heading;
  Align align = Align::Left;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // an empty row draws a rule
};

// Lines no wider than `width` characters where the Wrap columns allow it, each ending in a newline.
// Widths count characters, not bytes. O(cells).
std::string to_text(const Table& table, int width);

// Breaks prose between words into lines of at most `width` characters.
std::vector<std::string> wrapped(const std::string& prose, int width);

// Number of characters (code points) of a UTF-8 text.
int character_count(const std::string& text);

// A quantity that is never negative, over a count of events (ops, ticks).
struct CurveMark {
  std::size_t at = 0;  // index of a value
  std::string label;
};
struct Curve {
  std::string title;
  std::string caption;               // below the drawing
  std::vector<double> values;        // filled
  std::vector<double> values_above;  // a second curve drawn as a line; may be empty
  std::vector<CurveMark> marks;      // in order
  std::string letters;               // one per value, below the chart of blocks; may be empty
  std::string (*label)(double value) = nullptr;  // a value with its unit; required
};

// Block characters, `height` lines of at most `width` characters, with the largest value on the
// left. Each column is the largest value of its part of the curve, so that no peak is lost.
std::string block_chart(const Curve& curve, int width, int height);

// A picture of its own, 1200 x 412.
std::string to_svg(const Curve& curve);

// Rows of coloured pieces on one scale: stacked bars, or what happens when on each of several
// lanes.
struct BarPiece {
  double start = 0, length = 0;
  std::size_t colour = 0;  // of the legend
};
struct Bar {
  std::string label, value;  // before and behind it
  std::vector<BarPiece> pieces;
  double mark = 0;  // a dashed line across it; 0: none
};
struct BarPicture {
  std::string title, caption;
  std::vector<std::string> legend;  // by colour
  std::vector<Bar> bars;
  double most = 0;                               // of the scale, above 0
  std::string (*label)(double value) = nullptr;  // of the scale, with its unit; required
};
// As wide as a Curve's.
std::string to_svg(const BarPicture& picture);

// Points by two quantities. What lies beyond a scale is drawn at its end.
struct Scale {
  double least = 0, most = 1;  // least below most; above 0 where it is logarithmic
  bool logarithmic = false;
  std::vector<std::pair<double, std::string>> ticks = {};
  std::string name = {};  // beside it
};
struct PointGroup {
  std::string name;  // in the legend, with the group's colour
  std::vector<std::pair<double, double>> points;
  bool hollow = false, joined = false;
};
struct PointPicture {
  std::string title, caption;
  Scale x, y;
  std::vector<PointGroup> groups;  // the first on top
  double mark = 0;                 // of x: a dashed line across; 0: none
  double height = 400;             // of the plot, in pixels
};
// As wide as a Curve's.
std::string to_svg(const PointPicture& picture);

// A page that draws what it holds: the data stands in its one script of type application/json, in
// place of kPageData, written so that nothing in it ends the script. Diagnoses a page without that
// place.
inline constexpr std::string_view kPageData = "\"trainwright data\"";
Result<std::string> filled_page(std::string page, const Json& data);

}  // namespace trainwright
