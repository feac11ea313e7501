#include "client/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace optireduce::client {
namespace {

constexpr size_t kMessageBytes = 1024;

// A plain array: nothing to construct or destroy when threads come and go, or
// when the library is unloaded.
thread_local char message[kMessageBytes];

}  // namespace

or_status Fail(or_status status, const char* format, ...) {
  char text[kMessageBytes];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  memcpy(message, text, sizeof(text));
  return status;
}

const char* LastError() { return message; }

}  // namespace optireduce::client
