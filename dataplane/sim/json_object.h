// Reads JSON that people wrote: a wrong type, a value out of range and an
// unknown key are errors with a path, never silently ignored.

#ifndef OPTIREDUCE_DATAPLANE_SIM_JSON_OBJECT_H_
#define OPTIREDUCE_DATAPLANE_SIM_JSON_OBJECT_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "dataplane/base/time.h"

namespace optireduce::sim {

// To the nearest nanosecond.
Duration FromMicros(double micros);

// One object of a document. Getters leave *to as it is where the key is absent.
// The first error is kept in *error; reading goes on.
class JsonObject {
 public:
  using Json = nlohmann::json;

  // All three outlive the object. `path` names it in errors.
  JsonObject(const Json& json, std::string path, std::string* error);

  bool Has(const std::string& key) const { return json_.contains(key); }
  void Integer(const std::string& key, int64_t low, int64_t high, int64_t* to);
  template <typename T>
  void Integer(const std::string& key, int64_t low, int64_t high, T* to) {
    auto value = static_cast<int64_t>(*to);
    Integer(key, low, high, &value);
    *to = static_cast<T>(value);
  }
  // A full-width counter or seed.
  void Unsigned(const std::string& key, uint64_t* to);
  void Number(const std::string& key, double low, double high, double* to);
  void Bool(const std::string& key, bool* to);
  // In microseconds; fractions are allowed.
  void Micros(const std::string& key, Duration* to);
  void Text(const std::string& key, std::string* to);
  // One of the names that `lookup` knows.
  template <typename T>
  void Enum(const std::string& key,
            const std::function<std::optional<T>(const std::string&)>& lookup,
            T* to) {
    std::string name;
    Text(key, &name);
    if (name.empty()) return;
    const std::optional<T> value = lookup(name);
    if (value) {
      *to = *value;
    } else {
      Fail(key, "has no value \"" + name + "\"");
    }
  }
  // Each element of an array that may be absent.
  void ForEach(const std::string& key,
               const std::function<void(const Json&, std::string)>& f);
  // An object that may be absent.
  void Child(const std::string& key, const std::function<void(JsonObject*)>& f);
  // Any value; null if absent.
  const Json* Any(const std::string& key);

  void Fail(const std::string& key, const std::string& what);
  // Every key that nobody asked for is an error.
  void Finish();

 private:
  const Json* Find(const std::string& key);

  const Json& json_;
  std::string path_;
  std::string* error_;
  std::set<std::string> known_;
};

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_JSON_OBJECT_H_
