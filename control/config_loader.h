// From a file, the environment and flags to one checked configuration.
//
// The keys, their defaults and their ranges are those of proto/config.proto and
// nowhere else. Nothing unknown is passed over, nothing wrong is repaired: the
// first error ends it, and says where, what was found and what was expected.

#ifndef OPTIREDUCE_CONTROL_CONFIG_LOADER_H_
#define OPTIREDUCE_CONTROL_CONFIG_LOADER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/config.pb.h"

namespace optireduce::control {

enum class Origin { kDefault, kFile, kEnvironment, kFlag };
std::string Name(Origin origin);

struct EffectiveValue {
  std::string key;
  std::string value;  // as it would stand in a flag
  Origin origin = Origin::kDefault;
  std::string where;  // FILE:LINE, the variable or the flag; empty: default
};

struct ConfigSources {
  std::string file_name;  // for messages; empty: there is no file
  std::string file_text;
  // NAME=VALUE; what does not begin with OPTIREDUCE_ is passed over, and so is
  // the trainers' OPTIREDUCE_LIBRARY.
  std::vector<std::string> environment;
  // Key and value, in the order given; the last one holds.
  std::vector<std::pair<std::string, std::string>> flags;
};

class LoadedConfig {
 public:
  // Every field has a value: its default, if nothing else was said.
  const config::DaemonConfig& values() const { return values_; }
  // All keys, in the order of the schema.
  std::vector<EffectiveValue> Effective() const;

 private:
  friend class ConfigLoader;

  struct Source {
    Origin origin = Origin::kDefault;
    std::string where;
  };

  config::DaemonConfig values_;
  std::map<std::string, Source> sources_;  // by key; absent: default
};

// INVALID_ARGUMENT for anything that is not right.
absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources);

// All keys, and the text about one of them for --help: what it is, its default
// and its range.
std::vector<std::string> ConfigKeys();
std::string DescribeKey(const std::string& key);

}  // namespace optireduce::control

#endif  // OPTIREDUCE_CONTROL_CONFIG_LOADER_H_
