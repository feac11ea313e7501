#include "control/config_loader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "control/config_rules.h"
#include "control/config_value.h"
#include "control/suggest.h"

namespace optireduce::control {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr char kPrefix[] = "OPTIREDUCE_";
// Where trainers find liboptireduce: no business of the daemon's, which may run
// in the same environment.
constexpr char kClientVariable[] = "OPTIREDUCE_LIBRARY";

const google::protobuf::Descriptor& Schema() {
  return *config::DaemonConfig::descriptor();
}

std::string VariableOf(const std::string& key) {
  std::string name = absl::StrCat(kPrefix, key);
  for (char& c : name) {
    c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::vector<std::string> Variables() {
  std::vector<std::string> names;
  for (const std::string& key : ConfigKeys()) names.push_back(VariableOf(key));
  return names;
}

// The word that a line of a configuration file begins with.
std::string FirstWord(const std::string& line) {
  const size_t start = line.find_first_not_of(" \t{,;");
  if (start == std::string::npos) return "";
  size_t end = start;
  while (end < line.size() &&
         (isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_')) {
    ++end;
  }
  return line.substr(start, end - start);
}

// The name in quotes that follows `introduction` in a message of the parser.
std::string Quoted(const std::string& message,
                   const std::string& introduction) {
  const size_t found = message.find(introduction + "\"");
  if (found == std::string::npos) return "";
  const size_t start = found + introduction.size() + 1;
  return message.substr(start, message.find('"', start) - start);
}

// Keeps the first error of the text parser, in our words.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(const ConfigSources& sources) : sources_(sources) {}

  void AddError(int line, google::protobuf::io::ColumnNumber,
                const std::string& message) override {
    if (!text_.empty()) return;
    const std::string unknown = Quoted(message, "has no field named ");
    if (!unknown.empty()) {
      text_ = absl::StrCat(Place(line), "unknown key \"", unknown, "\"",
                           Suggestion(unknown, ConfigKeys()));
      return;
    }
    // About some values the parser complains when it stands behind them.
    std::string key = Quoted(message, "field ");
    if (key.empty()) {
      key = FirstWord(LineOf(line));
    } else {
      while (line > 0 && FirstWord(LineOf(line)) != key) --line;
    }
    const FieldDescriptor* field = Schema().FindFieldByName(key);
    text_ = absl::StrCat(Place(line), message);
    if (field != nullptr) {
      absl::StrAppend(&text_, " (", key, " takes ", Expected(*field), ")");
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string Place(int line) const {
    return absl::StrCat(sources_.file_name, ":", line + 1, ": ");
  }
  std::string LineOf(int line) const {
    std::istringstream lines(sources_.file_text);
    std::string result;
    for (int i = 0; i <= line && std::getline(lines, result); ++i) {
    }
    return result;
  }

  const ConfigSources& sources_;
  std::string text_;
};

}  // namespace

class ConfigLoader {
 public:
  explicit ConfigLoader(const ConfigSources& sources) : sources_(sources) {}

  absl::StatusOr<LoadedConfig> Load() {
    absl::Status status = LoadFile();
    if (status.ok()) status = LoadEnvironment();
    if (status.ok()) status = LoadFlags();
    if (status.ok()) status = CheckSchema();
    if (status.ok()) status = CheckRules(config_.values_);
    if (!status.ok()) return status;
    return config_;
  }

 private:
  absl::Status LoadFile() {
    if (sources_.file_name.empty()) return absl::OkStatus();
    FirstError error(sources_);
    TextFormat::ParseInfoTree tree;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.WriteLocationsTo(&tree);
    if (!parser.ParseFromString(sources_.file_text, &config_.values_)) {
      return absl::InvalidArgumentError(error.text());
    }
    for (int i = 0; i < Schema().field_count(); ++i) {
      const FieldDescriptor& field = *Schema().field(i);
      const int line =
          tree.GetLocation(&field, field.is_repeated() ? 0 : -1).line;
      if (line < 0) continue;
      config_.sources_[field.name()] = {
          Origin::kFile, absl::StrCat(sources_.file_name, ":", line + 1)};
    }
    return absl::OkStatus();
  }

  absl::Status LoadEnvironment() {
    for (const std::string& variable : sources_.environment) {
      if (variable.rfind(kPrefix, 0) != 0) continue;
      const size_t equals = variable.find('=');
      const std::string name = variable.substr(0, equals);
      const std::string value =
          equals == std::string::npos ? "" : variable.substr(equals + 1);
      if (name == kClientVariable) continue;
      const std::vector<std::string> known = Variables();
      const auto it = std::find(known.begin(), known.end(), name);
      if (it == known.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("environment: unknown variable \"", name, "\"",
                         Suggestion(name, known)));
      }
      const FieldDescriptor& field =
          *Schema().field(static_cast<int>(it - known.begin()));
      absl::Status status =
          Set(field, value, {Origin::kEnvironment, name}, "environment");
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status LoadFlags() {
    for (const auto& [key, value] : sources_.flags) {
      const FieldDescriptor* field = Schema().FindFieldByName(key);
      if (field == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("flags: unknown flag \"--", key, "\"",
                         Suggestion(key, ConfigKeys(), "--")));
      }
      absl::Status status =
          Set(*field, value, {Origin::kFlag, absl::StrCat("--", key)}, "flags");
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Set(const FieldDescriptor& field, const std::string& value,
                   const LoadedConfig::Source& source, const char* place) {
    absl::Status status = SetFromText(field, value, &config_.values_);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, ": ", source.where, ": ", std::string(status.message())));
    }
    config_.sources_[field.name()] = source;
    return absl::OkStatus();
  }

  absl::Status CheckSchema() {
    for (int i = 0; i < Schema().field_count(); ++i) {
      const FieldDescriptor& field = *Schema().field(i);
      absl::Status status = CheckValue(field, config_.values_);
      if (status.ok()) continue;
      const auto source = config_.sources_.find(field.name());
      const std::string where =
          source == config_.sources_.end() ? "default" : source->second.where;
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", std::string(status.message())));
    }
    return absl::OkStatus();
  }

  const ConfigSources& sources_;
  LoadedConfig config_;
};

std::string Name(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kFile:
      return "file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFlag:
      return "flag";
  }
  return "unknown";
}

std::vector<EffectiveValue> LoadedConfig::Effective() const {
  std::vector<EffectiveValue> result;
  for (int i = 0; i < Schema().field_count(); ++i) {
    const FieldDescriptor& field = *Schema().field(i);
    EffectiveValue value;
    value.key = field.name();
    value.value = ToText(field, values_);
    const auto source = sources_.find(field.name());
    if (source != sources_.end()) {
      value.origin = source->second.origin;
      value.where = source->second.where;
    }
    result.push_back(value);
  }
  return result;
}

absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources) {
  return ConfigLoader(sources).Load();
}

std::vector<std::string> ConfigKeys() {
  std::vector<std::string> keys;
  for (int i = 0; i < Schema().field_count(); ++i) {
    keys.push_back(Schema().field(i)->name());
  }
  return keys;
}

std::string DescribeKey(const std::string& key) {
  const FieldDescriptor* field = Schema().FindFieldByName(key);
  if (field == nullptr) return "";
  const std::string value = ToText(*field, config::DaemonConfig());
  return absl::StrCat(
      field->options().GetExtension(config::help), " (", Expected(*field),
      value.empty() ? "" : absl::StrCat("; default ", value), ")");
}

}  // namespace optireduce::control
