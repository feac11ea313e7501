// The configuration loader: any text is a configuration or an error that says
// something; and what it says is in force, given again as flags, is the same
// configuration.
//
// Input: a byte that says what the rest is: 0 the file, 1 an environment
// variable after its prefix, 2 a flag.

#include <string>

#include "control/config_loader.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce::control {
namespace {

void CheckRoundTrip(const LoadedConfig& config) {
  ConfigSources again;
  for (const EffectiveValue& value : config.Effective()) {
    again.flags.emplace_back(value.key, value.value);
  }
  const auto reloaded = LoadConfig(again);
  FUZZ_CHECK(reloaded.ok());
  const auto before = config.Effective();
  const auto after = reloaded->Effective();
  FUZZ_CHECK(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    FUZZ_CHECK(before[i].value == after[i].value);
  }
}

// A list's elements are told apart by commas, so one that has a comma cannot be
// given as a flag.
bool HasCommaInList(const LoadedConfig& config) {
  for (const std::string& text : config.values().static_neighbour()) {
    if (text.find(',') != std::string::npos) return true;
  }
  return false;
}

ConfigSources SourcesOf(uint8_t kind, const std::string& text) {
  ConfigSources sources;
  sources.file_name = "f";
  sources.file_text = "port: \"af_packet:eth0\" address: \"10.0.0.1/24\"\n";
  switch (kind % 3) {
    case 0:
      sources.file_text = text;
      break;
    case 1:
      sources.environment = {"OPTIREDUCE_" + text};
      break;
    default: {
      const size_t equals = text.find('=');
      sources.flags.emplace_back(
          text.substr(0, equals),
          equals == std::string::npos ? "" : text.substr(equals + 1));
    }
  }
  return sources;
}

}  // namespace
}  // namespace optireduce::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optireduce::control;  // NOLINT
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto config = LoadConfig(SourcesOf(data[0], text));
  if (!config.ok()) {
    FUZZ_CHECK(!config.status().message().empty());
  } else if (!HasCommaInList(*config)) {
    CheckRoundTrip(*config);
  }
  return 0;
}
