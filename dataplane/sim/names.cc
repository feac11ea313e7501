#include "dataplane/sim/names.h"

#include <utility>

namespace optireduce::sim {

namespace {

template <typename T, size_t kSize>
std::optional<T> Lookup(const std::string& name,
                        const std::pair<std::string_view, T> (&table)[kSize]) {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view NameOf(core::SubmitResult result) {
  switch (result) {
    case core::SubmitResult::kAccepted:
      return "accepted";
    case core::SubmitResult::kWindowFull:
      return "window_full";
    case core::SubmitResult::kMemoryFull:
      return "memory_full";
    case core::SubmitResult::kNotReady:
      return "not_ready";
    case core::SubmitResult::kUnsupported:
      return "unsupported";
    case core::SubmitResult::kBadRoot:
      return "bad_root";
    case core::SubmitResult::kBadCount:
      return "bad_count";
    case core::SubmitResult::kBadLimits:
      return "bad_limits";
    case core::SubmitResult::kBadScale:
      return "bad_scale";
    case core::SubmitResult::kBadBuffers:
      return "bad_buffers";
    case core::SubmitResult::kTooLarge:
      return "too_large";
    case core::SubmitResult::kPeerLost:
      return "peer_lost";
    case core::SubmitResult::kLeft:
      return "left";
  }
  return "unknown";
}

std::string_view NameOf(core::OpStatus status) {
  switch (status) {
    case core::OpStatus::kComplete:
      return "complete";
    case core::OpStatus::kPartial:
      return "partial";
    case core::OpStatus::kHardLimit:
      return "hard_limit";
    case core::OpStatus::kPeerLost:
      return "peer_lost";
    case core::OpStatus::kMismatch:
      return "mismatch";
    case core::OpStatus::kExpired:
      return "expired";
    case core::OpStatus::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string_view NameOf(core::EndCause cause) {
  switch (cause) {
    case core::EndCause::kAllIn:
      return "all_in";
    case core::EndCause::kEarly:
      return "early";
    case core::EndCause::kDeadline:
      return "deadline";
    case core::EndCause::kError:
      return "error";
  }
  return "unknown";
}

std::optional<core::Collective> CollectiveFrom(const std::string& name) {
  using C = core::Collective;
  return Lookup<C>(name, {{"all_reduce", C::kAllReduce},
                          {"reduce_scatter", C::kReduceScatter},
                          {"all_gather", C::kAllGather},
                          {"broadcast", C::kBroadcast},
                          {"barrier", C::kBarrier}});
}

std::optional<gradcodec::ReduceOp> ReduceOpFrom(const std::string& name) {
  for (uint8_t value = 1; value <= 4; ++value) {
    const auto op = static_cast<gradcodec::ReduceOp>(value);
    if (Name(op) == name) return op;
  }
  return std::nullopt;
}

std::optional<gradcodec::Dtype> DtypeFrom(const std::string& name) {
  for (uint8_t value = 1; value <= 12; ++value) {
    const auto dtype = static_cast<gradcodec::Dtype>(value);
    if (Name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::optional<core::Mode> ModeFrom(const std::string& name) {
  return Lookup<core::Mode>(name, {{"bounded", core::Mode::kBounded},
                                   {"exact", core::Mode::kExact},
                                   {"flush", core::Mode::kFlush}});
}

std::optional<core::Codec> CodecFrom(const std::string& name) {
  return Lookup<core::Codec>(name, {{"none", core::Codec::kNone},
                                    {"hadamard", core::Codec::kHadamard},
                                    {"bfloat16", core::Codec::kBfloat16},
                                    {"float16", core::Codec::kFloat16}});
}

std::optional<core::FillPolicy> FillPolicyFrom(const std::string& name) {
  return Lookup<core::FillPolicy>(name, {{"zero", core::FillPolicy::kZero},
                                         {"own", core::FillPolicy::kOwn}});
}

std::optional<InputKind> InputKindFrom(const std::string& name) {
  return Lookup<InputKind>(name, {{"summable", InputKind::kSummable},
                                  {"bits", InputKind::kBits},
                                  {"rank_plus", InputKind::kRankPlus},
                                  {"iota", InputKind::kIota},
                                  {"zero", InputKind::kZero}});
}

std::optional<Ending> EndingFrom(const std::string& name) {
  return Lookup<Ending>(name,
                        {{"drain", Ending::kDrain}, {"leave", Ending::kLeave}});
}

std::optional<ScriptAction> ScriptActionFrom(const std::string& name) {
  using A = ScriptAction;
  return Lookup<A>(name, {{"drop", A::kDrop},
                          {"delay", A::kDelay},
                          {"duplicate", A::kDuplicate},
                          {"corrupt", A::kFlip},
                          {"replay", A::kStale},
                          {"replay_old_epoch", A::kOldEpoch},
                          {"cut_tail", A::kCutTail}});
}

std::optional<wire::PacketType> PacketTypeFrom(const std::string& name) {
  using T = wire::PacketType;
  return Lookup<T>(name, {{"data", T::kData},
                          {"result", T::kResult},
                          {"open", T::kOpen},
                          {"feedback", T::kFeedback},
                          {"nack", T::kNack},
                          {"gone", T::kGone},
                          {"hello", T::kHello},
                          {"probe", T::kProbe},
                          {"leave", T::kLeave}});
}

}  // namespace optireduce::sim
