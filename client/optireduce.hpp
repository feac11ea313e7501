// liboptireduce for C++: the calls of optireduce.h with ownership.
//
// Header-only; needs C++17 or later and liboptireduce.so. No exceptions: calls
// return an or_status as the C calls do, and last_error() has the words.
// Objects are moved, not copied, and end what they own: a Group leaves (for at
// most 100 ms), a Session closes. A Session outlives its Groups and Buffers.
//
//   optireduce::Session session;
//   if (session.Connect() != OR_OK) Report(optireduce::last_error());
//   auto gradients = session.Allocate<float>(1000000);
//   optireduce::Group group;
//   group.CreateInDirectory(session, rank, world, "/shared/run1", "gradients");
//   or_operation operation = optireduce::AllReduce(gradients.data(), 1000000);
//   operation.bucket = 1;
//   operation.step = step;
//   or_op op;
//   if (group.Submit(operation, &op) == OR_OK) session.Wait(op, -1, nullptr);
//   group.CloseStep(step, OR_STEP_USED, OR_SECONDS(1));

#ifndef OPTIREDUCE_CLIENT_OPTIREDUCE_HPP_
#define OPTIREDUCE_CLIENT_OPTIREDUCE_HPP_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "optireduce.h"

namespace optireduce {

inline const char* last_error() { return or_last_error(); }

// The or_dtype of a C++ type; float16 and bfloat16 have none.
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr or_dtype value = OR_FLOAT32;
};
template <>
struct DtypeOf<double> {
  static constexpr or_dtype value = OR_FLOAT64;
};
template <>
struct DtypeOf<int8_t> {
  static constexpr or_dtype value = OR_INT8;
};
template <>
struct DtypeOf<uint8_t> {
  static constexpr or_dtype value = OR_UINT8;
};
template <>
struct DtypeOf<int16_t> {
  static constexpr or_dtype value = OR_INT16;
};
template <>
struct DtypeOf<uint16_t> {
  static constexpr or_dtype value = OR_UINT16;
};
template <>
struct DtypeOf<int32_t> {
  static constexpr or_dtype value = OR_INT32;
};
template <>
struct DtypeOf<uint32_t> {
  static constexpr or_dtype value = OR_UINT32;
};
template <>
struct DtypeOf<int64_t> {
  static constexpr or_dtype value = OR_INT64;
};
template <>
struct DtypeOf<uint64_t> {
  static constexpr or_dtype value = OR_UINT64;
};

// `count` elements of shared memory; empty if there was no room.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(or_session* session, T* data, size_t count)
      : session_(session), data_(data), count_(count) {}
  Buffer(Buffer&& other) noexcept { Swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) or_free(session_, data_);
  }

  explicit operator bool() const { return data_ != nullptr; }
  T* data() const { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  void Swap(Buffer& other) {
    std::swap(session_, other.session_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }

  or_session* session_ = nullptr;
  T* data_ = nullptr;
  size_t count_ = 0;
};

class Session {
 public:
  Session() = default;
  Session(Session&& other) noexcept
      : session_(std::exchange(other.session_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~Session() { or_close(&session_); }

  // nullptr: the defaults. What was connected before is closed.
  int Connect(const or_connect_options* options = nullptr) {
    or_close(&session_);
    return or_connect(options, &session_);
  }

  template <class T>
  Buffer<T> Allocate(size_t count) {
    void* memory = nullptr;
    if (count > SIZE_MAX / sizeof(T) ||
        or_allocate(session_, count * sizeof(T), &memory) != OR_OK) {
      return {};
    }
    return {session_, static_cast<T*>(memory), count};
  }

  int Poll(or_op op, or_report* report) {
    if (report != nullptr) report->struct_size = sizeof(*report);
    return or_poll(session_, op, report);
  }
  int Wait(or_op op, int64_t limit_ns, or_report* report) {
    if (report != nullptr) report->struct_size = sizeof(*report);
    return or_wait(session_, op, limit_ns, report);
  }

  or_session* get() const { return session_; }

 private:
  or_session* session_ = nullptr;
};

class Group {
 public:
  Group() = default;
  Group(Group&& other) noexcept { Swap(other); }
  Group& operator=(Group&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~Group() { Leave(OR_MILLISECONDS(100)); }

  // Settings that do nothing but what their fields say.
  static or_group_settings Settings(uint32_t rank, uint32_t world,
                                    const char* name) {
    or_group_settings settings;
    or_group_settings_init(&settings, sizeof(settings));
    settings.rank = rank;
    settings.world = world;
    settings.name = name;
    return settings;
  }

  // Joins; a group joined before is left first.
  int CreateInDirectory(Session& session, const or_group_settings& settings,
                        const char* directory) {
    Leave(OR_MILLISECONDS(100));
    const or_rendezvous rendezvous{
        directory, settings.name != nullptr ? settings.name : ""};
    const int status = or_group_create_in_directory(session.get(), &settings,
                                                    &rendezvous, &group_);
    if (status == OR_OK) session_ = session.get();
    return status;
  }
  int Create(Session& session, const or_group_settings& settings,
             or_exchange exchange, void* context) {
    Leave(OR_MILLISECONDS(100));
    const int status =
        or_group_create(session.get(), &settings, exchange, context, &group_);
    if (status == OR_OK) session_ = session.get();
    return status;
  }

  int Submit(const or_operation& operation, or_op* op) {
    return or_submit(session_, group_, &operation, op);
  }
  int CloseStep(uint64_t step, or_step_outcome outcome, int64_t limit_ns,
                uint64_t* closed = nullptr) {
    return or_step_close(session_, group_, step, outcome, limit_ns, closed);
  }
  // One at a time; the op is for WaitVerdict alone. `sketch` may be null.
  int SubmitVerdict(uint64_t step, const or_sketch* sketch, or_op* op) {
    return or_verdict_submit(session_, group_, step, sketch, op);
  }
  int WaitVerdict(or_op op, int64_t limit_ns, or_verdict* verdict) {
    verdict->struct_size = sizeof(*verdict);
    return or_verdict_wait(session_, op, limit_ns, verdict);
  }
  int SaveState(void* state, uint64_t capacity, or_op* op) {
    return or_state_save(session_, group_, state, capacity, op);
  }
  int LoadState(const void* state, uint64_t bytes, or_op* op) {
    return or_state_load(session_, group_, state, bytes, op);
  }
  int NextEvent(or_event* event) {
    event->struct_size = sizeof(*event);
    return or_group_next_event(session_, group_, event);
  }

  int Leave(int64_t limit_ns) {
    if (session_ == nullptr) return OR_OK;
    return or_group_leave(std::exchange(session_, nullptr), group_, limit_ns);
  }

  or_group get() const { return group_; }

 private:
  void Swap(Group& other) {
    std::swap(session_, other.session_);
    std::swap(group_, other.group_);
  }

  or_session* session_ = nullptr;
  or_group group_ = 0;
};

// An all-reduce in place, to be changed or submitted as it is.
template <class T>
or_operation AllReduce(T* data, uint64_t count, or_reduce_op op = OR_AVG,
                       or_mode mode = OR_BOUNDED) {
  or_operation operation;
  or_operation_init(&operation, sizeof(operation));
  operation.reduce_op = op;
  operation.dtype = DtypeOf<T>::value;
  operation.mode = mode;
  operation.count = count;
  operation.input = data;
  operation.output = data;
  return operation;
}

}  // namespace optireduce

#endif  // OPTIREDUCE_CLIENT_OPTIREDUCE_HPP_
