// optisim's arguments: flags, key=value pairs and words.

#ifndef OPTIREDUCE_DATAPLANE_SIM_COMMAND_LINE_H_
#define OPTIREDUCE_DATAPLANE_SIM_COMMAND_LINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace optireduce::sim {

// --name value and --name=value, in any place; a name without a value at the
// end or before another flag is a switch. Every error is kept, the first one
// counts.
class CommandLine {
 public:
  // Without the program's name. `switches` take no value.
  CommandLine(const std::vector<std::string>& arguments,
              const std::set<std::string>& flags,
              const std::set<std::string>& switches);

  const std::string& error() const { return error_; }
  const std::vector<std::string>& words() const { return words_; }
  bool Has(const std::string& flag) const { return values_.contains(flag); }
  std::string Text(const std::string& flag, const std::string& otherwise) const;
  // A whole number; anything else is an error.
  uint64_t Number(const std::string& flag, uint64_t otherwise);

 private:
  void Fail(const std::string& what);

  std::map<std::string, std::string> values_;
  std::vector<std::string> words_;
  std::string error_;
};

// Decimal, or hexadecimal after 0x; nothing for anything else.
std::optional<uint64_t> ParseNumber(const std::string& text);
// "0.25" or "2.5e-1"; nothing for anything else.
std::optional<double> ParseReal(const std::string& text);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_COMMAND_LINE_H_
