#include "dataplane/sim/json_object.h"

#include <cmath>
#include <utility>

namespace optireduce::sim {

Duration FromMicros(double micros) {
  return Duration::Nanos(std::llround(micros * 1000));
}

JsonObject::JsonObject(const Json& json, std::string path, std::string* error)
    : json_(json), path_(std::move(path)), error_(error) {
  if (!json.is_object()) Fail("", "is not an object");
}

const JsonObject::Json* JsonObject::Find(const std::string& key) {
  known_.insert(key);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  return found == json_.end() ? nullptr : &*found;
}

void JsonObject::Integer(const std::string& key, int64_t low, int64_t high,
                         int64_t* to) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() &&
                      value->get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    Fail(key, "is not a whole number from " + std::to_string(low) + " to " +
                  std::to_string(high));
    return;
  }
  *to = value->get<int64_t>();
}

void JsonObject::Unsigned(const std::string& key, uint64_t* to) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  if (!value->is_number_unsigned()) {
    Fail(key, "is not a whole number from 0 up");
    return;
  }
  *to = value->get<uint64_t>();
}

void JsonObject::Number(const std::string& key, double low, double high,
                        double* to) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  if (!value->is_number() || value->get<double>() < low ||
      value->get<double>() > high) {
    Fail(key, "is not a number from " + std::to_string(low) + " to " +
                  std::to_string(high));
    return;
  }
  *to = value->get<double>();
}

void JsonObject::Bool(const std::string& key, bool* to) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) {
    Fail(key, "is not true or false");
    return;
  }
  *to = value->get<bool>();
}

void JsonObject::Micros(const std::string& key, Duration* to) {
  constexpr double kLongest = 1e12;  // twelve days
  if (Find(key) == nullptr) return;
  double micros = 0;
  Number(key, -kLongest, kLongest, &micros);
  *to = FromMicros(micros);
}

void JsonObject::Text(const std::string& key, std::string* to) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string()) {
    Fail(key, "is not a string");
    return;
  }
  *to = value->get<std::string>();
}

void JsonObject::ForEach(
    const std::string& key,
    const std::function<void(const Json&, std::string)>& f) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  if (!value->is_array()) {
    Fail(key, "is not a list");
    return;
  }
  size_t index = 0;
  for (const Json& element : *value) {
    f(element, path_ + "." + key + "[" + std::to_string(index++) + "]");
  }
}

void JsonObject::Child(const std::string& key,
                       const std::function<void(JsonObject*)>& f) {
  const Json* const value = Find(key);
  if (value == nullptr) return;
  JsonObject child(*value, path_ + "." + key, error_);
  f(&child);
  child.Finish();
}

const JsonObject::Json* JsonObject::Any(const std::string& key) {
  return Find(key);
}

void JsonObject::Fail(const std::string& key, const std::string& what) {
  if (!error_->empty()) return;
  *error_ = key.empty() ? path_ + " " + what : path_ + "." + key + " " + what;
}

void JsonObject::Finish() {
  if (!json_.is_object()) return;
  for (const auto& [key, value] : json_.items()) {
    if (!known_.contains(key)) Fail(key, "is not a key that is known here");
  }
}

}  // namespace optireduce::sim
