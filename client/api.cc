// The exported calls: checks of the caller's arguments, and a wall that no
// exception passes.

#include <string.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "client/connect.h"
#include "client/error.h"
#include "client/optireduce.h"
#include "client/rendezvous.h"
#include "client/session.h"
#include "client/sized.h"
#include "gradcodec/dtype.h"
#include "gradcodec/sketch.h"

namespace optireduce::client {
namespace {

constexpr size_t kMaxRendezvousName = 48;

template <class Call>
int Guarded(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Fail(OR_ERR_NO_MEMORY, "this process is out of memory");
  } catch (const std::exception& error) {
    return Fail(OR_ERR_SYSTEM, "%s", error.what());
  }
}

// Calls call(session) in the process that opened it.
template <class Call>
int WithSession(or_session* handle, Call call) noexcept {
  if (handle == nullptr) return Fail(OR_ERR_ARGUMENT, "session is NULL");
  return Guarded([&]() -> int {
    Session& session = *reinterpret_cast<Session*>(handle);
    const or_status owned = session.CheckOwner();
    return owned != OR_OK ? owned : call(session);
  });
}

template <class T>
or_status NotNull(const T* pointer, const char* name) {
  return pointer != nullptr ? OR_OK : Fail(OR_ERR_ARGUMENT, "%s is NULL", name);
}

or_connect_options DefaultOptions() {
  or_connect_options options{};
  options.struct_size = sizeof(options);
  options.limit_ns = OR_SECONDS(5);
  return options;
}

or_group_settings DefaultSettings() {
  or_group_settings settings{};
  settings.struct_size = sizeof(settings);
  settings.formation_limit_ns = OR_SECONDS(10);
  return settings;
}

or_status CopySettings(const or_group_settings* in, or_group_settings* out) {
  *out = DefaultSettings();
  const or_status status = CopyIn(in, "settings", out);
  if (out->formation_limit_ns == 0) {
    out->formation_limit_ns = DefaultSettings().formation_limit_ns;
  }
  return status;
}

or_operation DefaultOperation() {
  or_operation operation{};
  operation.struct_size = sizeof(operation);
  operation.collective = OR_ALL_REDUCE;
  operation.reduce_op = OR_AVG;
  operation.dtype = OR_FLOAT32;
  operation.mode = OR_BOUNDED;
  operation.loss_scale = 1;
  return operation;
}

// A negative limit is none of the caller's.
Deadline WaitLimit(int64_t limit_ns) {
  return limit_ns < 0 ? Deadline::At(Timestamp::Never())
                      : Deadline::In(limit_ns);
}

// Prepares, exchanges (exchange(own, all, deadline)) and forms.
template <class Exchange>
or_status CreateGroup(Session& session, const or_group_settings& settings,
                      Exchange exchange, or_group* group) {
  const Deadline limit = Deadline::In(settings.formation_limit_ns);
  const Deadline half = Deadline::In(settings.formation_limit_ns / 2);
  or_group created = 0;
  or_member own{};
  or_status status = session.PrepareGroup(settings, half, &created, &own);
  if (status != OR_OK) return status;
  std::vector<or_member> members(settings.world);
  status = exchange(own, members.data(), half);
  if (status != OR_OK) {
    session.AbandonGroup(created);
    return status;
  }
  status = session.FormGroup(created, members.data(), limit);
  if (status == OR_OK) *group = created;
  return status;
}

or_status CheckRendezvous(const or_rendezvous* rendezvous) {
  or_status status = NotNull(rendezvous, "rendezvous");
  if (status == OR_OK) status = NotNull(rendezvous->directory, "directory");
  if (status == OR_OK) status = NotNull(rendezvous->name, "name");
  if (status != OR_OK) return status;
  if (strlen(rendezvous->name) > kMaxRendezvousName) {
    return Fail(OR_ERR_ARGUMENT, "rendezvous name \"%s\" is over %zu bytes",
                rendezvous->name, kMaxRendezvousName);
  }
  return OR_OK;
}

// Checks what an or_report* of the caller's may be, before anything happens.
or_status CheckReport(const or_report* report) {
  return report == nullptr ? OR_OK : CheckSize(report, "report");
}

or_status AddTensor(or_sketch* sketch, int32_t dtype, const void* values,
                    uint64_t count) {
  const auto known = dtype >= 0 && dtype <= UINT8_MAX
                         ? gradcodec::DtypeFromWire(static_cast<uint8_t>(dtype))
                         : std::nullopt;
  if (!known || !gradcodec::IsFloating(*known)) {
    return Fail(OR_ERR_ARGUMENT, "dtype %d is no floating one", dtype);
  }
  static_assert(OR_SKETCH_SUMS == gradcodec::kSketchSums);
  gradcodec::AddToSketch(*known, values, count, sketch->elements, sketch->sums);
  sketch->elements +=
      (count + OR_SKETCH_SUMS - 1) / OR_SKETCH_SUMS * OR_SKETCH_SUMS;
  return OR_OK;
}

bool HasEnded(int status) {
  return status != OR_PENDING && status != OR_ERR_TIMEOUT;
}

}  // namespace
}  // namespace optireduce::client

using namespace optireduce::client;  // NOLINT: the calls below are its face

uint32_t or_version(void) {
  return OR_VERSION_MAJOR * 1000000u + OR_VERSION_MINOR * 1000u +
         OR_VERSION_PATCH;
}

const char* or_status_name(int status) {
  switch (static_cast<or_status>(status)) {
    case OR_OK:
      return "ok";
    case OR_PARTIAL:
      return "partial";
    case OR_PENDING:
      return "pending";
    case OR_ERR_ARGUMENT:
      return "bad argument";
    case OR_ERR_UNREACHABLE:
      return "daemon unreachable";
    case OR_ERR_DAEMON_LOST:
      return "daemon lost";
    case OR_ERR_REFUSED:
      return "refused";
    case OR_ERR_VERSION:
      return "version mismatch";
    case OR_ERR_TIMEOUT:
      return "timeout";
    case OR_ERR_HARD_LIMIT:
      return "hard limit";
    case OR_ERR_PEER_LOST:
      return "peer lost";
    case OR_ERR_MISMATCH:
      return "operation mismatch";
    case OR_ERR_EXPIRED:
      return "expired";
    case OR_ERR_CANCELLED:
      return "cancelled";
    case OR_ERR_NO_MEMORY:
      return "out of memory";
    case OR_ERR_BUSY:
      return "busy";
    case OR_ERR_FORKED:
      return "not inherited";
    case OR_ERR_UNSUPPORTED:
      return "unsupported";
    case OR_ERR_CLOSED:
      return "closed";
    case OR_ERR_SYSTEM:
      return "system error";
    case OR_ERR_FORMATION:
      return "group not formed";
  }
  return "unknown status";
}

const char* or_last_error(void) { return LastError(); }

void or_connect_options_init(or_connect_options* options, size_t struct_size) {
  Initialize(DefaultOptions(), options, struct_size);
}

int or_connect(const or_connect_options* options, or_session** session) {
  const or_status valid = NotNull(session, "session");
  if (valid != OR_OK) return valid;
  *session = nullptr;
  return Guarded([&]() -> int {
    or_connect_options known = DefaultOptions();
    or_status status =
        options != nullptr ? CopyIn(options, "options", &known) : OR_OK;
    Connection connection;
    if (status == OR_OK) status = Connect(known, &connection);
    if (status != OR_OK) return status;
    *session =
        reinterpret_cast<or_session*>(new Session(std::move(connection)));
    return OR_OK;
  });
}

int or_disconnect(or_session* session) {
  return WithSession(session, [](Session& s) -> int {
    s.Disconnect();
    return OR_OK;
  });
}

int or_close(or_session** session) {
  if (session == nullptr || *session == nullptr) return OR_OK;
  return Guarded([&]() -> int {
    delete reinterpret_cast<Session*>(std::exchange(*session, nullptr));
    return OR_OK;
  });
}

int or_allocate(or_session* session, size_t bytes, void** buffer) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status valid = NotNull(buffer, "buffer");
    return valid != OR_OK ? valid : s.Allocate(bytes, buffer);
  });
}

int or_free(or_session* session, void* buffer) {
  return WithSession(session,
                     [&](Session& s) -> int { return s.Free(buffer); });
}

void or_group_settings_init(or_group_settings* settings, size_t struct_size) {
  Initialize(DefaultSettings(), settings, struct_size);
}

int or_group_prepare(or_session* session, const or_group_settings* settings,
                     int64_t limit_ns, or_group* group, or_member* member) {
  return WithSession(session, [&](Session& s) -> int {
    or_group_settings known;
    or_status status = CopySettings(settings, &known);
    if (status == OR_OK) status = NotNull(group, "group");
    if (status == OR_OK) status = NotNull(member, "member");
    if (status != OR_OK) return status;
    return s.PrepareGroup(known, Deadline::In(limit_ns), group, member);
  });
}

int or_group_form(or_session* session, or_group group, const or_member* members,
                  int64_t limit_ns) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status valid = NotNull(members, "members");
    return valid != OR_OK ? valid
                          : s.FormGroup(group, members, Deadline::In(limit_ns));
  });
}

int or_group_create(or_session* session, const or_group_settings* settings,
                    or_exchange exchange, void* context, or_group* group) {
  return WithSession(session, [&](Session& s) -> int {
    or_group_settings known;
    or_status status = CopySettings(settings, &known);
    if (status == OR_OK) status = NotNull(group, "group");
    if (status != OR_OK) return status;
    if (exchange == nullptr) return Fail(OR_ERR_ARGUMENT, "exchange is NULL");
    const auto call = [&](const or_member& own, or_member* all,
                          const Deadline& deadline) {
      const int result = exchange(context, known.rank, known.world, &own, all,
                                  deadline.Left().nanos());
      return result == OR_OK ? OR_OK
                             : Fail(static_cast<or_status>(result),
                                    "the exchange of members failed (%s)",
                                    or_status_name(result));
    };
    return CreateGroup(s, known, call, group);
  });
}

int or_group_create_in_directory(or_session* session,
                                 const or_group_settings* settings,
                                 const or_rendezvous* rendezvous,
                                 or_group* group) {
  return WithSession(session, [&](Session& s) -> int {
    or_group_settings known;
    or_status status = CopySettings(settings, &known);
    if (status == OR_OK) status = CheckRendezvous(rendezvous);
    if (status == OR_OK) status = NotNull(group, "group");
    if (status != OR_OK) return status;
    Rendezvous meeting(rendezvous->directory, rendezvous->name, known.rank,
                       known.world);
    const auto meet = [&](const or_member& own, or_member* all,
                          const Deadline& deadline) {
      return meeting.Meet(own, all, deadline);
    };
    status = CreateGroup(s, known, meet, group);
    if (status == OR_OK) meeting.CleanUp();
    return status;
  });
}

int or_group_leave(or_session* session, or_group group, int64_t limit_ns) {
  return WithSession(session, [&](Session& s) -> int {
    return s.LeaveGroup(group, Deadline::In(limit_ns));
  });
}

int or_group_next_event(or_session* session, or_group group, or_event* event) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status valid = CheckSize(event, "event");
    if (valid != OR_OK) return valid;
    or_event next{};
    const or_status status = s.NextEvent(group, &next);
    if (status == OR_OK) CopyOut(next, event);
    return status;
  });
}

void or_operation_init(or_operation* operation, size_t struct_size) {
  Initialize(DefaultOperation(), operation, struct_size);
}

int or_submit(or_session* session, or_group group,
              const or_operation* operation, or_op* op) {
  return WithSession(session, [&](Session& s) -> int {
    or_operation known = DefaultOperation();
    or_status status = CopyIn(operation, "operation", &known);
    if (status == OR_OK) status = NotNull(op, "op");
    return status != OR_OK ? status : s.Submit(group, known, op);
  });
}

int or_poll(or_session* session, or_op op, or_report* report) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status valid = CheckReport(report);
    if (valid != OR_OK) return valid;
    or_report full{};
    const or_status status = s.Poll(op, &full);
    if (report != nullptr && HasEnded(status)) CopyOut(full, report);
    return status;
  });
}

int or_wait(or_session* session, or_op op, int64_t limit_ns,
            or_report* report) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status valid = CheckReport(report);
    if (valid != OR_OK) return valid;
    or_report full{};
    const or_status status = s.Wait(op, WaitLimit(limit_ns), &full);
    if (report != nullptr && HasEnded(status)) CopyOut(full, report);
    return status;
  });
}

int or_step_close(or_session* session, or_group group, uint64_t step,
                  int32_t outcome, int64_t limit_ns, uint64_t* closed) {
  return WithSession(session, [&](Session& s) -> int {
    if (outcome != OR_STEP_USED && outcome != OR_STEP_SKIPPED) {
      return Fail(OR_ERR_ARGUMENT, "outcome %d is no or_step_outcome", outcome);
    }
    if (step == 0) {
      return Fail(OR_ERR_ARGUMENT,
                  "step 0 stands for none: there is nothing "
                  "to close");
    }
    return s.CloseStep(group, step, static_cast<or_step_outcome>(outcome),
                       Deadline::In(limit_ns), closed);
  });
}

int or_sketch_add(or_sketch* sketch, int32_t dtype, const void* values,
                  uint64_t count) {
  or_status status = NotNull(sketch, "sketch");
  if (status == OR_OK && count != 0) status = NotNull(values, "values");
  return status != OR_OK ? status : AddTensor(sketch, dtype, values, count);
}

int or_verdict_submit(or_session* session, or_group group, uint64_t step,
                      const or_sketch* sketch, or_op* op) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status status = NotNull(op, "op");
    return status != OR_OK ? status : s.SubmitVerdict(group, step, sketch, op);
  });
}

int or_verdict_wait(or_session* session, or_op op, int64_t limit_ns,
                    or_verdict* verdict) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status valid = CheckSize(verdict, "verdict");
    if (valid != OR_OK) return valid;
    or_verdict full{};
    const or_status status = s.WaitVerdict(op, WaitLimit(limit_ns), &full);
    if (status == OR_OK) CopyOut(full, verdict);
    return status;
  });
}

int or_state_save(or_session* session, or_group group, void* state,
                  uint64_t capacity, or_op* op) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status status = NotNull(op, "op");
    return status != OR_OK
               ? status
               : s.SubmitState(group, {OpKind::kSave, state, capacity}, op);
  });
}

int or_state_load(or_session* session, or_group group, const void* state,
                  uint64_t bytes, or_op* op) {
  return WithSession(session, [&](Session& s) -> int {
    const or_status status = NotNull(op, "op");
    return status != OR_OK
               ? status
               : s.SubmitState(group, {OpKind::kLoad, state, bytes}, op);
  });
}
