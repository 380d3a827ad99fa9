// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/format_table.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "tools/format/format_text.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kColumnGap = 2;
// On a narrow terminal enough to tell one from another.
constexpr size_t kMinFlexibleWidth = 24, kNarrowFlexibleWidth = 16;

std::vector<size_t> NaturalWidths(const Table& table) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t widest = DisplayWidth(table.columns[c].title);
    for (const auto& row : table.rows) widest = std::max(widest, DisplayWidth(row[c]));
    widths.push_back(widest);
  }
  return widths;
}

size_t LineWidth(const std::vector<size_t>& widths) {
  size_t width = 0;
  for (size_t c = 0; c < widths.size(); ++c) width += (c == 0 ? 0 : kColumnGap) + widths[c];
  return width;
}

std::vector<size_t> ColumnWidths(const Table& table, size_t available, bool narrow) {
  std::vector<size_t> widths = NaturalWidths(table);
  const size_t least = narrow ? kNarrowFlexibleWidth : kMinFlexibleWidth;
  const size_t line = LineWidth(widths);
  for (size_t c = 0; c < widths.size() && line > available; ++c) {
    if (!table.columns[c].flexible || widths[c] <= least) continue;
    widths[c] = std::max(least, widths[c] - std::min(widths[c], line - available));
  }
  return widths;
}

// Until the others fit; the titles of those that go.
std::vector<std::string> LeaveOutSpare(size_t available, Table* table) {
  std::vector<std::string> titles;
  while (LineWidth(ColumnWidths(*table, available, true)) > available) {
    const auto spare =
        std::max_element(table->columns.begin(), table->columns.end(),
                         [](const Column& a, const Column& b) { return a.spare < b.spare; });
    if (spare->spare == 0) break;
    titles.push_back(spare->title);
    const ptrdiff_t c = spare - table->columns.begin();
    for (auto& row : table->rows) row.erase(row.begin() + c);
    table->columns.erase(spare);
  }
  return titles;
}

void AppendLine(const std::vector<std::string>& cells, const std::vector<Column>& columns,
                const std::vector<size_t>& widths, size_t indent, std::string* out) {
  std::string line(indent, ' ');
  for (size_t c = 0; c < columns.size(); ++c) {
    if (c > 0) line.append(kColumnGap, ' ');
    const std::string cell =
        columns[c].cut_end ? EndEllipsis(cells[c], widths[c]) : MiddleEllipsis(cells[c], widths[c]);
    const size_t padding = widths[c] - DisplayWidth(cell);
    if (columns[c].align == Align::kRight) line.append(padding, ' ');
    line.append(cell);
    if (columns[c].align == Align::kLeft) line.append(padding, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out->append(line).push_back('\n');
}

}  // namespace

std::string RenderTable(const Table& table, size_t indent, size_t width) {
  Table shown = table;
  for (auto& row : shown.rows) {
    for (auto& cell : row) cell = ToPrintable(cell);
  }
  const bool narrow = WithinTerminal(width) < width;
  width = WithinTerminal(width);
  const size_t available = width > indent ? width - indent : 0;
  std::vector<std::string> left_out;
  if (narrow) left_out = LeaveOutSpare(available, &shown);
  const std::vector<size_t> widths = ColumnWidths(shown, available, narrow);
  std::vector<std::string> titles;
  for (const Column& column : shown.columns) titles.push_back(column.title);
  std::string out;
  AppendLine(titles, shown.columns, widths, indent, &out);
  for (const auto& row : shown.rows) AppendLine(row, shown.columns, widths, indent, &out);
  if (!left_out.empty()) {
    const std::string note = "no room for: " + absl::StrJoin(left_out, ", ");
    out.append(indent, ' ').append(WrapText(note, indent, indent, width)).push_back('\n');
  }
  return out;
}

void AppendCsvRow(const std::vector<std::string>& cells, std::string* out) {
  bool first = true;
  for (const std::string& raw : cells) {
    if (!first) out->push_back(',');
    first = false;
    const std::string cell = ToPrintable(raw);
    if (cell.find_first_of(",\"") == std::string::npos) {
      out->append(cell);
      continue;
    }
    out->push_back('"');
    for (char c : cell) {
      if (c == '"') out->push_back('"');
      out->push_back(c);
    }
    out->push_back('"');
  }
  out->push_back('\n');
}

std::string RenderCsv(const Table& table) {
  std::string out;
  std::vector<std::string> titles;
  for (const Column& column : table.columns) titles.push_back(column.title);
  AppendCsvRow(titles, &out);
  for (const auto& row : table.rows) AppendCsvRow(row, &out);
  return out;
}

}  // namespace gpuprobe::tools
