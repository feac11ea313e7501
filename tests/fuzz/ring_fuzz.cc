// A session's rings: whatever the client writes, and whenever it writes it, the
// engine gets only ops that are well-formed, with buffers inside the data area
// that overlap nothing in flight and no output whose step is open, and closes
// of steps and verdicts on them; every submission taken is answered once; and
// no memory outside of the segment is touched (which the sanitizer sees).
//
// Input: a list of steps, one byte each, some with arguments.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <variant>
#include <vector>

#include "dataplane/engine/shm_session.h"
#include "dataplane/shm/bell.h"
#include "dataplane/shm/segment.h"
#include "tests/fuzz/fuzz.h"

namespace optireduce::engine {
namespace {

constexpr uint16_t kWorld = 3;
constexpr uint32_t kHandle = 1;
constexpr uint64_t kDataBytes = 1 << 16;

// Made once, as that takes long; every run begins with all of it zero.
struct Shared {
  std::unique_ptr<shm::Segment> segment;
  shm::Bells bells;
};

Shared& SharedSegment() {
  static Shared* const shared = [] {
    auto segment = shm::Segment::Create({.session = 1,
                                         .data_bytes = kDataBytes,
                                         .hugepages = shm::HugePages::kOff},
                                        shm::MemoryLimits());
    auto bells = shm::MakeBells();
    FUZZ_CHECK(segment.ok() && bells.ok() && (*segment)->Seal().ok());
    return new Shared{*std::move(segment), *std::move(bells)};
  }();
  return *shared;
}

class Run {
 public:
  Run(const uint8_t* data, size_t size)
      : input_(data, data + size),
        segment_(*SharedSegment().segment),
        header_(*segment_.header()) {
    memset(segment_.base(), 0, segment_.data_offset());
    session_ = std::make_unique<ShmSession>(
        segment_, SharedSegment().bells.engine_event.get(),
        SharedSegment().bells.client_bell.get());
    session_->AddGroup(core::GroupId(9), kWorld, kHandle);
  }

  void Go() {
    while (at_ < input_.size()) Step();
    while (!in_flight_.empty()) Finish(0);
    FUZZ_CHECK(session_->idle());
    FUZZ_CHECK(answered_ ==
               session_->counters().Get(ShmSessionCounter::kSubmitted));
  }

 private:
  uint8_t Byte() { return at_ < input_.size() ? input_[at_++] : 0; }
  uint32_t Word() {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word = word << 8 | Byte();
    return word;
  }

  void Step() {
    switch (Byte() % 11) {
      case 0:  // a slot, as it comes, and submitted
        WriteSlot();
        ++header_.submission_tail;
        break;
      case 1:  // nearly a good one
        WriteGoodSlot();
        ++header_.submission_tail;
        break;
      case 2:
        header_.submission_tail = Word();
        break;
      case 3:
        header_.completion_head = Word();
        break;
      case 4:  // reads all there is
        header_.completion_head = header_.completion_tail;
        break;
      case 5: {  // anything, anywhere
        const uint32_t offset = Word();
        segment_.base()[offset % segment_.bytes()] = Byte();
        break;
      }
      case 6:
        if (!in_flight_.empty()) Finish(Byte() % in_flight_.size());
        break;
      case 8:  // nearly a good close
        WriteCloseSlot();
        ++header_.submission_tail;
        break;
      case 9:  // nearly a good save or load
        WriteStateSlot();
        ++header_.submission_tail;
        break;
      case 10:  // nearly a good verdict
        WriteVerdictSlot();
        ++header_.submission_tail;
        break;
      default:
        Pull();
    }
  }

  OptireduceShmSubmission& Slot() {
    return segment_.submissions()[header_.submission_tail %
                                  OPTIREDUCE_SHM_SUBMISSION_SLOTS];
  }
  void WriteSlot() {
    auto* bytes = reinterpret_cast<uint8_t*>(&Slot());
    for (size_t i = 0; i < sizeof(OptireduceShmSubmission); ++i) {
      bytes[i] = Byte();
    }
  }
  void WriteGoodSlot() {
    OptireduceShmSubmission& slot = Slot();
    slot = {};
    slot.group = kHandle;
    slot.kind = OPTIREDUCE_SHM_OP;
    slot.collective = 1 + Byte() % 5;
    slot.reduce_op = 1;
    slot.dtype = 1 + Byte() % 12;
    slot.mode = 1 + Byte() % 2;
    slot.count = Byte();
    slot.loss_scale = 1;
    slot.input_offset = segment_.data_offset() + uint64_t{Byte()} * 16;
    slot.output_offset = segment_.data_offset() + uint64_t{Byte()} * 16;
    slot.step = Byte() % 4;
    slot.bucket = slot.step;
    ChangeOnce(&slot);
  }
  void WriteCloseSlot() {
    OptireduceShmSubmission& slot = Slot();
    slot = {};
    slot.group = kHandle;
    slot.kind = OPTIREDUCE_SHM_STEP_CLOSE;
    slot.outcome = 1 + Byte() % 2;
    slot.step = Byte() % 4;
    ChangeOnce(&slot);
  }
  void WriteStateSlot() {
    OptireduceShmSubmission& slot = Slot();
    slot = {};
    slot.group = kHandle;
    const bool is_save = Byte() % 2 == 0;
    slot.kind = is_save ? OPTIREDUCE_SHM_STATE_SAVE : OPTIREDUCE_SHM_STATE_LOAD;
    slot.count = Byte();
    (is_save ? slot.output_offset : slot.input_offset) =
        segment_.data_offset() + uint64_t{Byte()} * 16;
    ChangeOnce(&slot);
  }
  void WriteVerdictSlot() {
    OptireduceShmSubmission& slot = Slot();
    slot = {};
    slot.group = kHandle;
    slot.kind = OPTIREDUCE_SHM_VERDICT;
    slot.step = Byte() % 4;
    slot.verdict = Byte() % 8;
    ChangeOnce(&slot);
  }
  void ChangeOnce(OptireduceShmSubmission* slot) {
    reinterpret_cast<uint8_t*>(slot)[Byte() % sizeof(*slot)] ^= Byte();
  }

  struct Pulled {
    Submission got;
    uint64_t number = 0;  // in the order of pulling
    bool closed = false;  // its step was closed before its end
  };
  struct Range {
    const uint8_t* begin = nullptr;
    size_t bytes = 0;
  };
  static bool Overlap(const Range& a, const Range& b) {
    return a.bytes != 0 && b.bytes != 0 && a.begin < b.begin + b.bytes &&
           b.begin < a.begin + a.bytes;
  }
  static Range OutputOf(const OpRequest& s) {
    return {s.buffers.output, core::OutputBytes(s.op, kWorld)};
  }
  // What the engine may touch until it has answered; an empty range is null.
  static std::array<Range, 2> RangesOf(const Submission& s) {
    if (const auto* op = std::get_if<OpRequest>(&s.request)) {
      return {Range{op->buffers.input, core::InputBytes(op->op, kWorld)},
              OutputOf(*op)};
    }
    if (const auto* save = std::get_if<StateSave>(&s.request)) {
      return {Range{save->out.data(), save->out.size()}};
    }
    if (const auto* load = std::get_if<StateLoad>(&s.request)) {
      return {Range{load->state.data(), load->state.size()}};
    }
    return {};
  }
  void CheckInside(const Range& range) const {
    if (range.bytes == 0) return;
    const uint8_t* data = segment_.base() + segment_.data_offset();
    FUZZ_CHECK(range.begin >= data);
    FUZZ_CHECK(range.bytes <= segment_.data_bytes());
    FUZZ_CHECK(range.begin + range.bytes <= data + segment_.data_bytes());
  }

  void Pull() {
    const uint64_t before =
        session_->counters().Get(ShmSessionCounter::kRefused);
    Submission got;
    if (session_->Pull(&got) == PullResult::kPulled) {
      FUZZ_CHECK(got.group == core::GroupId(9));
      Check(got);
      in_flight_.push_back({got, pulled_++});
      FUZZ_CHECK(in_flight_.size() <= session_->max_in_flight());
    }
    answered_ += session_->counters().Get(ShmSessionCounter::kRefused) - before;
  }

  void Check(const Submission& got) const {
    if (const auto* op = std::get_if<OpRequest>(&got.request)) {
      FUZZ_CHECK(gradcodec::SizeOf(op->op.dtype) != 0);
      FUZZ_CHECK(op->op.loss_scale > 0);
    }
    if (const auto* close = std::get_if<StepClose>(&got.request)) {
      FUZZ_CHECK(close->step != 0);
    }
    if (const auto* verdict = std::get_if<StepVerdict>(&got.request)) {
      FUZZ_CHECK(verdict->step != 0);
    }
    for (const Range& mine : RangesOf(got)) {
      CheckInside(mine);
      for (const Pulled& other : in_flight_) {
        for (const Range& others : RangesOf(other.got)) {
          FUZZ_CHECK(!Overlap(mine, others));
        }
      }
      for (const Pulled& other : open_) {
        FUZZ_CHECK(
            !Overlap(mine, OutputOf(std::get<OpRequest>(other.got.request))));
      }
    }
  }

  void Finish(size_t which) {
    const Pulled ended = in_flight_[which];
    in_flight_.erase(in_flight_.begin() + static_cast<ptrdiff_t>(which));
    Completion completion;
    completion.cookie = ended.got.cookie;
    const bool failed = Byte() % 4 == 3;
    if (failed) completion.report.status = core::OpStatus::kHardLimit;
    session_->Complete(completion);
    session_->Flush();
    ++answered_;
    if (const auto* op = std::get_if<OpRequest>(&ended.got.request)) {
      if (StaysOpen(op->op) && !ended.closed && !failed) open_.push_back(ended);
    } else if (const auto* close = std::get_if<StepClose>(&ended.got.request)) {
      CloseStep(close->step, ended.number);
    }
  }

  void CloseStep(uint64_t step, uint64_t number) {
    const auto is_closed = [&](const Pulled& pulled) {
      const auto* op = std::get_if<OpRequest>(&pulled.got.request);
      return op != nullptr && op->op.step == step && pulled.number < number;
    };
    std::erase_if(open_, is_closed);
    for (Pulled& pulled : in_flight_) pulled.closed |= is_closed(pulled);
  }

  const std::vector<uint8_t> input_;
  size_t at_ = 0;
  shm::Segment& segment_;
  OptireduceShmHeader& header_;
  std::unique_ptr<ShmSession> session_;
  std::vector<Pulled> in_flight_;
  std::vector<Pulled> open_;  // ops that have ended, but for their step
  uint64_t pulled_ = 0;
  uint64_t answered_ = 0;
};

}  // namespace
}  // namespace optireduce::engine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  optireduce::engine::Run(data, size).Go();
  return 0;
}
