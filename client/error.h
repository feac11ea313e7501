// The sentence behind the last failure of each thread.

#ifndef OPTIREDUCE_CLIENT_ERROR_H_
#define OPTIREDUCE_CLIENT_ERROR_H_

#include "client/optireduce.h"

namespace optireduce::client {

// Sets the calling thread's message (cut at 1 KiB) and returns `status`, so
// that a failing function ends with `return Fail(OR_ERR_..., "...", ...)`.
// Does not allocate. Arguments may point into the present message.
[[gnu::format(printf, 2, 3)]] or_status Fail(or_status status,
                                             const char* format, ...);

// The calling thread's message; "" at first.
const char* LastError();

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_ERROR_H_
