#include "dataplane/sim/command_line.h"

#include <charconv>

namespace optireduce::sim {

CommandLine::CommandLine(const std::vector<std::string>& arguments,
                         const std::set<std::string>& flags,
                         const std::set<std::string>& switches) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) {
      words_.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name =
        argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (switches.contains(name)) {
      if (equals != std::string::npos) Fail("--" + name + " takes no value");
      values_[name] = "";
    } else if (!flags.contains(name)) {
      Fail("unknown flag --" + name);
    } else if (equals != std::string::npos) {
      values_[name] = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      values_[name] = arguments[++i];
    } else {
      Fail("--" + name + " needs a value");
    }
  }
}

std::string CommandLine::Text(const std::string& flag,
                              const std::string& otherwise) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? otherwise : found->second;
}

uint64_t CommandLine::Number(const std::string& flag, uint64_t otherwise) {
  const auto found = values_.find(flag);
  if (found == values_.end()) return otherwise;
  const std::optional<uint64_t> number = ParseNumber(found->second);
  if (!number) Fail("--" + flag + " is not a whole number: " + found->second);
  return number.value_or(otherwise);
}

void CommandLine::Fail(const std::string& what) {
  if (error_.empty()) error_ = what;
}

std::optional<uint64_t> ParseNumber(const std::string& text) {
  const bool hex = text.starts_with("0x");
  const char* const begin = text.data() + (hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number, hex ? 16 : 10);
  if (error != std::errc() || stop != end || begin == end) return std::nullopt;
  return number;
}

std::optional<double> ParseReal(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace optireduce::sim
