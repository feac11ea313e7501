// One rank of Gloo's ring all-reduce: how long each op takes. What the
// simulator's ring is held against.
//
//   gloo_ring --rank=R --world=N --store=DIR --address=IP --bytes=S --ops=K
//
// All ranks meet in DIR, which must be empty before. Float sums of S bytes, one
// after the other, each as soon as the one before is over; kWarmUpOps come
// first that do not count. Prints a list: how many nanoseconds each op took.

#include <gflags/gflags.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "gloo/allreduce.h"
#include "gloo/barrier.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/transport/tcp/device.h"

DEFINE_int32(rank, 0, "this one");
DEFINE_int32(world, 0, "how many there are");
DEFINE_string(store, "", "where they meet");
DEFINE_string(address, "", "of this host, for the others");
DEFINE_uint64(bytes, 0, "of the buffer, a multiple of 4");
DEFINE_uint64(ops, 0, "that count");

namespace {

using Clock = std::chrono::steady_clock;
// One of several functions of its name.
using Sum = void (*)(void*, const void*, const void*, size_t);

constexpr uint64_t kWarmUpOps = 2;
constexpr std::chrono::minutes kPatience{10};

int64_t NanosSince(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

std::shared_ptr<gloo::rendezvous::Context> Connect() {
  gloo::transport::tcp::attr attr(FLAGS_address.c_str());
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(FLAGS_store);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(FLAGS_rank, FLAGS_world);
  context->setTimeout(kPatience);
  context->connectFullMesh(store, device);
  return context;
}

// False: the sum is wrong.
bool AllReduce(const std::shared_ptr<gloo::Context>& context,
               std::vector<float>* input, std::vector<float>* output) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
  options.setInput(input->data(), input->size());
  options.setOutput(output->data(), output->size());
  gloo::allreduce(options);
  const auto n = static_cast<float>(FLAGS_world);
  return output->front() == n && output->back() == n;
}

int Run() {
  const auto context = Connect();
  std::vector<float> input(FLAGS_bytes / sizeof(float), 1.0f);
  std::vector<float> output(input.size());
  std::vector<int64_t> took;
  for (uint64_t op = 0; op < kWarmUpOps + FLAGS_ops; ++op) {
    const Clock::time_point start = Clock::now();
    if (!AllReduce(context, &input, &output)) {
      std::fprintf(stderr, "gloo_ring: wrong sum\n");
      return 1;
    }
    if (op >= kWarmUpOps) took.push_back(NanosSince(start));
  }
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  std::printf("[");
  for (size_t i = 0; i < took.size(); ++i) {
    std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(took[i]));
  }
  std::printf("]\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_world < 2 || FLAGS_rank < 0 || FLAGS_rank >= FLAGS_world ||
      FLAGS_store.empty() || FLAGS_address.empty() || FLAGS_bytes < 4 ||
      FLAGS_ops < 1) {
    std::fprintf(stderr, "gloo_ring: all flags are needed\n");
    return 2;
  }
  try {
    return Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_ring: %s\n", error.what());
    return 1;
  }
}
