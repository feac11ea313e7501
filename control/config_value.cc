#include "control/config_value.h"

#include <google/protobuf/message.h>

#include <charconv>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "control/suggest.h"

namespace optireduce::control {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

std::vector<std::string> Choices(const FieldDescriptor& field) {
  std::vector<std::string> choices;
  for (int i = 0; i < field.options().ExtensionSize(config::choice); ++i) {
    choices.push_back(field.options().GetExtension(config::choice, i));
  }
  return choices;
}

template <class T>
std::optional<T> ParseNumber(const std::string& text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Adds to a repeated field, sets another one. False: not such a value.
bool SetOne(const FieldDescriptor& field, const std::string& text,
            config::DaemonConfig* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) {
        reflection.AddString(message, &field, text);
      } else {
        reflection.SetString(message, &field, text);
      }
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return false;
      reflection.SetBool(message, &field, text == "true");
      return true;
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = ParseNumber<uint32_t>(text);
      if (!value) return false;
      if (field.is_repeated()) {
        reflection.AddUInt32(message, &field, *value);
      } else {
        reflection.SetUInt32(message, &field, *value);
      }
      return true;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const auto value = ParseNumber<uint64_t>(text);
      if (!value) return false;
      reflection.SetUInt64(message, &field, *value);
      return true;
    }
    default:
      return false;  // the schema has no other types; its test would see
  }
}

absl::Status Unexpected(const FieldDescriptor& field,
                        const std::string& found) {
  const std::string suggestion = Suggestion(found, Choices(field));
  return absl::InvalidArgumentError(absl::StrCat(
      field.name(), ": \"", found, "\" is not ", Expected(field), suggestion));
}

std::optional<uint64_t> NumberOf(const FieldDescriptor& field,
                                 const config::DaemonConfig& message) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string Expected(const FieldDescriptor& field) {
  const std::vector<std::string> choices = Choices(field);
  if (!choices.empty()) {
    return absl::StrCat("one of ", absl::StrJoin(choices, ", "));
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return field.is_repeated() ? "a list of texts" : "a text";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    default:
      break;
  }
  std::string text = field.is_repeated() ? "a list of numbers" : "a number";
  if (field.options().HasExtension(config::range)) {
    const config::Range& range = field.options().GetExtension(config::range);
    absl::StrAppend(&text, " from ", range.min(), " to ", range.max());
    if (field.options().GetExtension(config::or_zero)) {
      absl::StrAppend(&text, ", or 0");
    }
  }
  return text;
}

absl::Status SetFromText(const FieldDescriptor& field, const std::string& text,
                         config::DaemonConfig* message) {
  if (!field.is_repeated()) {
    return SetOne(field, text, message) ? absl::OkStatus()
                                        : Unexpected(field, text);
  }
  message->GetReflection()->ClearField(message, &field);
  if (text.empty()) return absl::OkStatus();
  const std::vector<std::string> elements = absl::StrSplit(text, ',');
  for (const std::string& element : elements) {
    if (element.empty() || !SetOne(field, element, message)) {
      return Unexpected(field, element);
    }
  }
  return absl::OkStatus();
}

std::string ToText(const FieldDescriptor& field,
                   const config::DaemonConfig& message) {
  const Reflection& reflection = *message.GetReflection();
  const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (field.is_repeated()) {
    std::vector<std::string> elements;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      elements.push_back(text ? reflection.GetRepeatedString(message, &field, i)
                              : absl::StrCat(reflection.GetRepeatedUInt32(
                                    message, &field, i)));
    }
    return absl::StrJoin(elements, ",");
  }
  if (text) return reflection.GetString(message, &field);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return reflection.GetBool(message, &field) ? "true" : "false";
  }
  return absl::StrCat(NumberOf(field, message).value_or(0));
}

absl::Status CheckValue(const FieldDescriptor& field,
                        const config::DaemonConfig& message) {
  if (field.is_repeated()) return absl::OkStatus();
  const std::vector<std::string> choices = Choices(field);
  if (!choices.empty()) {
    const std::string value = ToText(field, message);
    for (const std::string& choice : choices) {
      if (value == choice) return absl::OkStatus();
    }
    return Unexpected(field, value);
  }
  const std::optional<uint64_t> value = NumberOf(field, message);
  if (!value || !field.options().HasExtension(config::range)) {
    return absl::OkStatus();
  }
  const config::Range& range = field.options().GetExtension(config::range);
  const bool zero_allowed =
      *value == 0 && field.options().GetExtension(config::or_zero);
  if (zero_allowed || (*value >= range.min() && *value <= range.max())) {
    return absl::OkStatus();
  }
  return Unexpected(field, absl::StrCat(*value));
}

}  // namespace optireduce::control
