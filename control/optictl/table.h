// Text in columns.

#ifndef OPTIREDUCE_CONTROL_OPTICTL_TABLE_H_
#define OPTIREDUCE_CONTROL_OPTICTL_TABLE_H_

#include <string>
#include <vector>

namespace optireduce::control {

using Row = std::vector<std::string>;

// A line for each row; at least one, all with as many cells as the first.
std::string Align(const std::vector<Row>& rows);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_OPTICTL_TABLE_H_
