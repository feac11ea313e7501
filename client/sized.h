// Structs of the C ABI that may be of another version than ours.

#ifndef OPTIREDUCE_CLIENT_SIZED_H_
#define OPTIREDUCE_CLIENT_SIZED_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "client/error.h"

namespace optireduce::client {

// Size of T in the first version that had it: nobody's is smaller. A struct
// that grows gets a specialisation with its first size.
template <class T>
inline constexpr size_t kFirstSize = sizeof(T);
template <>
inline constexpr size_t kFirstSize<or_operation> = offsetof(or_operation,
                                                            loss_scale);
template <>
inline constexpr size_t kFirstSize<or_group_settings> =
    offsetof(or_group_settings, min_fraction);

// No version will ever need more; a larger struct_size was never initialised.
inline constexpr size_t kLargestSize = 65536;

template <class T>
or_status CheckSize(const T* value, const char* name) {
  if (value == nullptr) return Fail(OR_ERR_ARGUMENT, "%s is NULL", name);
  if (value->struct_size < kFirstSize<T> || value->struct_size > kLargestSize) {
    return Fail(OR_ERR_ARGUMENT,
                "%s->struct_size is %zu: set it to sizeof(*%s), or call the "
                "_init function",
                name, value->struct_size, name);
  }
  return OR_OK;
}

// *out = what `in` sets, over the defaults that *out has already. A field that
// we do not know may only be 0, which means default.
template <class T>
or_status CopyIn(const T* in, const char* name, T* out) {
  const or_status status = CheckSize(in, name);
  if (status != OR_OK) return status;
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  for (size_t i = sizeof(T); i < in->struct_size; ++i) {
    if (bytes[i] != 0) {
      return Fail(OR_ERR_VERSION,
                  "%s sets a field that this liboptireduce does not know: "
                  "upgrade the library",
                  name);
    }
  }
  memcpy(out, in, std::min(sizeof(T), in->struct_size));
  out->struct_size = sizeof(T);
  return OR_OK;
}

// Fills the caller's struct as far as it goes. Its struct_size was checked.
template <class T>
void CopyOut(const T& value, T* out) {
  const size_t size = out->struct_size;
  memset(out, 0, size);
  memcpy(out, &value, std::min(sizeof(T), size));
  out->struct_size = size;
}

// For the _init functions; `struct_size` is the caller's sizeof.
template <class T>
void Initialize(const T& defaults, T* out, size_t struct_size) {
  if (out == nullptr || struct_size < sizeof(size_t) ||
      struct_size > kLargestSize) {
    return;
  }
  out->struct_size = struct_size;
  CopyOut(defaults, out);
}

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_SIZED_H_
