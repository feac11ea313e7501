// The version of everything that is built from this tree.

#ifndef OPTIREDUCE_CONTROL_VERSION_H_
#define OPTIREDUCE_CONTROL_VERSION_H_

namespace optireduce::control {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_VERSION_H_
