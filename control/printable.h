// Names that clients give to things.

#ifndef OPTIREDUCE_CONTROL_PRINTABLE_H_
#define OPTIREDUCE_CONTROL_PRINTABLE_H_

#include <algorithm>
#include <string_view>

namespace optireduce::control {

// They go into logs and onto other people's terminals.
inline bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_PRINTABLE_H_
