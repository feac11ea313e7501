#include "dataplane/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace optireduce::shm {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Segment> MakeSegment(uint64_t data_bytes) {
  auto segment = Segment::Create(
      {.session = 7, .data_bytes = data_bytes, .hugepages = HugePages::kOff},
      MemoryLimits());
  EXPECT_TRUE(segment.ok()) << segment.status();
  return segment.ok() ? *std::move(segment) : nullptr;
}

size_t FilesIn(const std::string& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder),
                    std::filesystem::directory_iterator()));
}

TEST(SegmentTest, HeaderSaysWhereEverythingIs) {
  const auto segment = MakeSegment(100'000);
  const OptireduceShmHeader& header = *segment->header();
  EXPECT_EQ(header.magic, OPTIREDUCE_SHM_MAGIC);
  EXPECT_EQ(memcmp(&header.magic, "OPTISHM1", 8), 0);
  EXPECT_EQ(header.version, OPTIREDUCE_SHM_VERSION);
  EXPECT_EQ(header.session, 7u);
  EXPECT_EQ(header.segment_bytes, segment->bytes());
  EXPECT_EQ(header.submission_offset, 4096u);
  EXPECT_EQ(header.completion_offset, 4096u + 1024 * 128);
  EXPECT_EQ(header.data_offset, 4096u + 1024 * 128 + 1024 * 320);
  EXPECT_EQ(header.data_offset % OPTIREDUCE_SHM_DATA_ALIGNMENT, 0u);
  EXPECT_GE(header.data_bytes, 100'000u);
  EXPECT_EQ(header.data_offset + header.data_bytes, header.segment_bytes);
  EXPECT_EQ(header.state, unsigned{OPTIREDUCE_SHM_LIVE});
  EXPECT_EQ(reinterpret_cast<uint8_t*>(segment->submissions()),
            segment->base() + header.submission_offset);
  EXPECT_EQ(reinterpret_cast<uint8_t*>(segment->completions()),
            segment->base() + header.completion_offset);
}

TEST(SegmentTest, AllPagesAreThereFromTheStart) {
  const auto segment = MakeSegment(4 * kMiB);
  struct stat status = {};
  ASSERT_EQ(fstat(segment->fd(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_blocks) * 512, segment->bytes());
}

TEST(SegmentTest, SealedAgainstShrinkingGrowingAndHoles) {
  const auto segment = MakeSegment(kMiB);
  void* client = mmap(nullptr, segment->bytes(), PROT_READ | PROT_WRITE,
                      MAP_SHARED, segment->fd(), 0);
  ASSERT_NE(client, MAP_FAILED);
  ASSERT_TRUE(segment->Seal().ok());
  const auto bytes = static_cast<off_t>(segment->bytes());
  EXPECT_EQ(ftruncate(segment->fd(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(segment->fd(), bytes + 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fallocate(segment->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, bytes),
            -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(madvise(client, segment->bytes(), MADV_REMOVE), -1);
  EXPECT_EQ(fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  // The mapping that was there goes on being shared.
  static_cast<uint8_t*>(client)[segment->data_offset()] = 0xA5;
  EXPECT_EQ(segment->base()[segment->data_offset()], 0xA5);
  munmap(client, segment->bytes());
}

TEST(SegmentTest, HolesPunchedBeforeTheSealAreFilled) {
  const auto segment = MakeSegment(kMiB);
  ASSERT_EQ(fallocate(segment->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, static_cast<off_t>(segment->bytes())),
            0);
  ASSERT_TRUE(segment->Seal().ok());
  struct stat status = {};
  ASSERT_EQ(fstat(segment->fd(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_blocks) * 512, segment->bytes());
}

TEST(SegmentTest, AShrunkFileIsNoticedAtTheSeal) {
  const auto segment = MakeSegment(kMiB);
  ASSERT_EQ(ftruncate(segment->fd(), 4096), 0);
  EXPECT_EQ(segment->Seal().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(segment->sealed());
  segment->Close(OPTIREDUCE_SHM_REASON_CONTROL);  // must not touch the memory
}

TEST(SegmentTest, AClientThatSealsFirstIsNoticed) {
  const auto segment = MakeSegment(kMiB);
  ASSERT_EQ(fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_FALSE(segment->Seal().ok());
}

TEST(SegmentTest, CloseTellsTheClientWhy) {
  const auto segment = MakeSegment(kMiB);
  ASSERT_TRUE(segment->Seal().ok());
  segment->Close(OPTIREDUCE_SHM_REASON_SHUTDOWN);
  EXPECT_EQ(segment->header()->state, unsigned{OPTIREDUCE_SHM_CLOSED});
  EXPECT_EQ(segment->header()->state_reason,
            unsigned{OPTIREDUCE_SHM_REASON_SHUTDOWN});
}

TEST(SegmentTest, AnAbsurdSizeIsRefused) {
  for (const uint64_t bytes :
       {UINT64_MAX, UINT64_MAX - 400'000, (uint64_t{1} << 44) + 1}) {
    EXPECT_EQ(
        Segment::Create({.data_bytes = bytes}, MemoryLimits()).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(SegmentTest, AShortageIsFoundBeforeAnyPageIsTouched) {
  std::string root = ::testing::TempDir() + "/segmentXXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/proc");
  std::ofstream(root + "/proc/meminfo") << "MemAvailable: 65536 kB\n";
  const size_t files = FilesIn("/proc/self/fd");
  const auto segment =
      Segment::Create({.data_bytes = 128 * kMiB}, MemoryLimits(root));
  EXPECT_EQ(segment.status().code(), absl::StatusCode::kResourceExhausted);
  // 128 MiB of data, rings and header.
  EXPECT_THAT(std::string(segment.status().message()),
              HasSubstr("129 MiB needed, 64 MiB available"));
  EXPECT_EQ(FilesIn("/proc/self/fd"), files);
  EXPECT_EQ(Segment::Create({.data_bytes = kMiB, .hugepages = HugePages::kOn},
                            MemoryLimits(root))
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
  std::filesystem::remove_all(root);
}

// A limit of this very process: in a child, as it cannot be raised again.
TEST(SegmentTest, AddressSpaceLimitIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need all the address space there is";
#endif
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit = {.rlim_cur = 2048 * kMiB, .rlim_max = 2048 * kMiB};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const auto segment = Segment::Create(
        {.data_bytes = 2048 * kMiB, .hugepages = HugePages::kOff},
        MemoryLimits());
    const bool named =
        std::string(segment.status().message()).find("RLIMIT_AS") !=
        std::string::npos;
    _exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SegmentTest, NothingIsLeftBehindByAProcessThatIsKilled) {
  const size_t before = FilesIn("/dev/shm");
  for (int i = 0; i < 20; ++i) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto segment = MakeSegment(kMiB);
      const char byte = segment != nullptr ? 1 : 0;
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      pause();
      _exit(0);
    }
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    ASSERT_EQ(byte, 1);
    close(ready[0]);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
  EXPECT_EQ(FilesIn("/dev/shm"), before);
}

}  // namespace
}  // namespace optireduce::shm
