#include "dataplane/shm/memory_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace optireduce::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A made-up /proc and /sys.
class MemoryLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/limitsXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    Write("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:  1048576 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string Refusal(uint64_t bytes) {
    const absl::Status status = MemoryLimits(root_).CheckPages(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    return std::string(status.message());
  }

  std::string root_;
};

TEST_F(MemoryLimitsTest, AcceptsWhatFits) {
  EXPECT_TRUE(MemoryLimits(root_).CheckPages(1024 * kMiB).ok());
}

TEST_F(MemoryLimitsTest, NamesTheHostsMemory) {
  EXPECT_THAT(Refusal(1024 * kMiB + 1),
              AllOf(HasSubstr("MemAvailable"), HasSubstr("1025 MiB needed"),
                    HasSubstr("1024 MiB available")));
}

TEST_F(MemoryLimitsTest, NamesTheCgroup) {
  Write("/proc/self/cgroup", "0::/job/daemon\n");
  Write("/sys/fs/cgroup/job/daemon/memory.max", "67108864\n");
  Write("/sys/fs/cgroup/job/daemon/memory.current", "0\n");
  EXPECT_TRUE(MemoryLimits(root_).CheckPages(64 * kMiB).ok());
  EXPECT_THAT(Refusal(128 * kMiB),
              AllOf(HasSubstr("/sys/fs/cgroup/job/daemon/memory.max"),
                    HasSubstr("128 MiB needed"), HasSubstr("64 MiB available"),
                    HasSubstr("MemoryMax=")));
}

TEST_F(MemoryLimitsTest, CgroupsAboveLimitToo) {
  Write("/proc/self/cgroup", "0::/job/daemon\n");
  Write("/sys/fs/cgroup/job/daemon/memory.max", "max\n");
  Write("/sys/fs/cgroup/job/daemon/memory.current", "0\n");
  Write("/sys/fs/cgroup/job/memory.max", "67108864\n");
  Write("/sys/fs/cgroup/job/memory.current", "33554432\n");
  EXPECT_THAT(Refusal(64 * kMiB), AllOf(HasSubstr("/job/memory.max"),
                                        HasSubstr("32 MiB available")));
  // Cache that the kernel can give up counts as available.
  Write("/sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 33554432\n");
  EXPECT_TRUE(MemoryLimits(root_).CheckPages(64 * kMiB).ok());
}

TEST_F(MemoryLimitsTest, CgroupVersion1) {
  Write("/proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n");
  Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "67108864\n");
  Write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "0\n");
  EXPECT_THAT(Refusal(128 * kMiB), HasSubstr("memory.limit_in_bytes"));
}

TEST_F(MemoryLimitsTest, NamesTheMapCount) {
  Write("/proc/sys/vm/max_map_count", "2\n");
  Write("/proc/self/maps", "a\nb\n");
  EXPECT_THAT(Refusal(kMiB),
              AllOf(HasSubstr("vm.max_map_count"), HasSubstr("2 of 2")));
}

TEST_F(MemoryLimitsTest, HugePagesThatOthersReservedAreNotFree) {
  const std::string pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  Write(pool + "free_hugepages", "10\n");
  Write(pool + "resv_hugepages", "4\n");
  const MemoryLimits limits(root_);
  EXPECT_EQ(limits.FreeHugePages(), 6u);
  EXPECT_TRUE(limits.CheckHugePages(6 * kHugePageBytes).ok());
  const absl::Status status = limits.CheckHugePages(7 * kHugePageBytes);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("14 MiB needed"), HasSubstr("12 MiB available"),
                    HasSubstr("vm.nr_hugepages")));
}

TEST_F(MemoryLimitsTest, WhatCannotBeReadIsNoLimit) {
  std::filesystem::remove_all(root_ + "/proc");
  EXPECT_TRUE(MemoryLimits(root_).CheckPages(uint64_t{1} << 40).ok());
  EXPECT_FALSE(MemoryLimits(root_).CheckHugePages(1).ok());
}

}  // namespace
}  // namespace optireduce::shm
