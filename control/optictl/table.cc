#include "control/optictl/table.h"

#include <algorithm>
#include <cstddef>

namespace optireduce::control {

std::string Align(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      text += row[i];
      if (!last) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text.push_back('\n');
  }
  return text;
}

}  // namespace optireduce::control
