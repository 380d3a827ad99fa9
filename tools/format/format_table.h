// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One small table model behind every text table and every CSV.
#ifndef GPUPROBE_TOOLS_FORMAT_FORMAT_TABLE_H_
#define GPUPROBE_TOOLS_FORMAT_FORMAT_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpuprobe::tools {

// Columns that the first screen and all sentences keep to.
inline constexpr size_t kReportWidth = 110;
// Tables with many columns and long names.
inline constexpr size_t kWideReportWidth = 120;

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;
  // Takes what the other columns leave of the width; longer cells are cut in the middle. At most
  // one.
  bool flexible = false;
  // Cut at the end instead: for places, of which the line number must not go.
  bool cut_end = false;
  // Left out, the highest first, where a terminal is too narrow for all. 0: never.
  int spare = 0;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // cells in the order of the columns
};

// Header and rows, each line starting with `indent` spaces and ending in a newline, no trailing
// spaces. On a terminal that is narrower than `width` (SetTerminalWidth()) the flexible column has
// less, and a last line names the spare ones that were left out.
std::string RenderTable(const Table& table, size_t indent = 0, size_t width = kReportWidth);

// RFC 4180: header row, CRLF is avoided in favour of LF (what every reader here accepts), cells
// with comma or quote are quoted. Printable (ToPrintable()): a row is a line. JSON has names whole.
std::string RenderCsv(const Table& table);
void AppendCsvRow(const std::vector<std::string>& cells, std::string* out);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FORMAT_FORMAT_TABLE_H_
