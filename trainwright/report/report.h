#pragma once
// What people read: tables that fit the width they are shown at.
//
// A Table is rows of text cells under headed columns. Columns are as wide as their widest cell; if
// the whole is wider than the page, the columns marked Wrap give way, widest first, and their cells
// continue on the next line. Nothing is ever cut off.
#include <string>
#include <vector>

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

}  // namespace trainwright
