// What every fuzz target shares: the entry point's declaration and a check.

#ifndef OPTIREDUCE_TESTS_FUZZ_FUZZ_H_
#define OPTIREDUCE_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Each target defines it; libFuzzer and replay.cc call it. Returns 0. Must not
// keep state between calls.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// A finding: says where and ends the process, whatever the build mode.
#define FUZZ_CHECK(condition)                                           \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
                   #condition);                                         \
      std::abort();                                                     \
    }                                                                   \
  } while (false)

#endif  // OPTIREDUCE_TESTS_FUZZ_FUZZ_H_
