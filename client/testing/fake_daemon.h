// A daemon for tests of the client library: a real socket and real segments,
// but no network. Every rank is answered as if its peers had sent nothing but
// agreement: an operation copies its input to its output and is complete; with
// a bucket and a step it is open until the step is closed; an all-gather brings
// the own part in every rank's place. A group saves what it has loaded last,
// unless a step is open.
//
// The bucket of an operation, or the step that is closed, tells the fake to do
// something else with it, so that tests in any language can ask for every
// answer that a daemon may give.

#ifndef OPTIREDUCE_CLIENT_TESTING_FAKE_DAEMON_H_
#define OPTIREDUCE_CLIENT_TESTING_FAKE_DAEMON_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/control.pb.h"
#include "dataplane/base/unique_fd.h"

namespace optireduce::client {

// The name of groups that are formed only when all ranks have asked for it, as
// with real daemons.
inline constexpr char kFakeTogether[] = "together";

// Values of an operation's bucket.
inline constexpr uint64_t kFakeHold = 1001;     // never answered
inline constexpr uint64_t kFakeGoodbye = 1002;  // ends the session, with words
// Complete, after an event: rank 1 is suspect, or lost.
inline constexpr uint64_t kFakeSuspect = 1003;
inline constexpr uint64_t kFakePeerLost = 1004;
inline constexpr uint64_t kFakeLater = 1005;  // complete, after 200 ms
// Complete, the output begins with the loss scale.
inline constexpr uint64_t kFakeScale = 1006;
// + OPTIREDUCE_SHM_*: ends so; ranks 1 and 65 are missing.
inline constexpr uint64_t kFakeStatus = 1100;
// + OPTIREDUCE_SHM_REFUSAL_*: is refused so.
inline constexpr uint64_t kFakeRefusal = 1200;

// Values of a step, for its verdict.
// Rank 1's inputs were not finite; nothing has come to it.
inline constexpr uint64_t kFakeNonFiniteStep = 3001;
inline constexpr uint64_t kFakeAbsentStep = 3002;
inline constexpr uint64_t kFakeOtherVersionStep = 3003;  // of rank 1's library
inline constexpr uint64_t kFakeHoldVerdict = 3004;       // never answered
inline constexpr uint64_t kFakeFailVerdict = 3005;  // ends by the hard limit

// Values of a step that is closed.
inline constexpr uint64_t kFakeHoldStep = 2001;   // never answered
inline constexpr uint64_t kFakeLaterStep = 2002;  // closed, after 200 ms
// + OPTIREDUCE_SHM_REFUSAL_*: is refused so.
inline constexpr uint64_t kFakeStepRefusal = 2200;

class FakeDaemon {
 public:
  struct Options {
    uint32_t protocol_version = 4;
    // Answers Hello with this error, if set.
    control::ErrorCode hello_error = control::ERROR_UNKNOWN;
    // Answers FormGroup with this error, if set; or never.
    control::ErrorCode form_error = control::ERROR_UNKNOWN;
    bool never_forms = false;
    // Reports this hard limit for groups that set none.
    uint64_t hard_limit_us = 30'000'000;
  };

  // Listens from here on.
  FakeDaemon(const std::string& path, const Options& options);
  ~FakeDaemon();

  // Serves until Stop(), which any thread may call.
  void Run();
  void Stop();

 private:
  class Session;

  void Accept();
  // Answers groups that are formed together and whose ranks are all here.
  void FormTogether();

  const std::string path_;
  const Options options_;
  UniqueFd listener_;
  UniqueFd stop_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_TESTING_FAKE_DAEMON_H_
