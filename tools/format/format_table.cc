// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/format_table.h"

#include <algorithm>

#include "tools/format/format_text.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kColumnGap = 2;
constexpr size_t kMinFlexibleWidth = 24;

std::vector<size_t> ColumnWidths(const Table& table, size_t available) {
  std::vector<size_t> widths;
  size_t fixed = 0;
  size_t flexible = table.columns.size();
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t widest = DisplayWidth(table.columns[c].title);
    for (const auto& row : table.rows) widest = std::max(widest, DisplayWidth(row[c]));
    widths.push_back(widest);
    fixed += c == 0 ? 0 : kColumnGap;
    if (table.columns[c].flexible) {
      flexible = c;
    } else {
      fixed += widest;
    }
  }
  if (flexible < widths.size()) {
    const size_t left = available > fixed ? available - fixed : 0;
    widths[flexible] = std::min(widths[flexible], std::max(left, kMinFlexibleWidth));
  }
  return widths;
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
  const std::vector<size_t> widths = ColumnWidths(shown, width > indent ? width - indent : 0);
  std::vector<std::string> titles;
  for (const Column& column : shown.columns) titles.push_back(column.title);
  std::string out;
  AppendLine(titles, shown.columns, widths, indent, &out);
  for (const auto& row : shown.rows) AppendLine(row, shown.columns, widths, indent, &out);
  return out;
}

void AppendCsvRow(const std::vector<std::string>& cells, std::string* out) {
  bool first = true;
  for (const std::string& raw : cells) {
    if (!first) out->push_back(',');
    first = false;
    const std::string cell = ToValidUtf8(raw);
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
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
