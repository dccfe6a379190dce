// NCCL wants a GPU for each member: on one GPU there is one member to test with.
#include "kith/gossip/device_reducer.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/kernels/cuda/cuda_device.h"
#include "tests/support/failure.h"
#include "tests/support/worlds.h"

namespace kith::gossip {
namespace {

DeviceReducersOptions options_for(support::Worker& worker, const Clock& clock, kernels::Device& device) {
  return {"test", &worker.transport, &worker.store,     Members::first(worker.size),
          &clock, &device,           support::in_time()};
}

template <class T>
void expect_mean_of_one(DeviceReducer& reducer, kernels::Device& device, std::size_t count) {
  std::vector<T> values(count), got(count);
  std::iota(values.begin(), values.end(), T{1});
  const kernels::Buffer vector = device.allocate(count * sizeof(T));
  reducer.queue().copy_now(vector.data(), values.data(), vector.bytes());
  reducer.mean(vector.data(), dtype_of<T>(), count, support::in_time());
  reducer.wait(support::in_time());
  reducer.queue().copy_now(got.data(), vector.data(), vector.bytes());
  EXPECT_EQ(got, values);
}

TEST(NcclTest, TheMeanOfOneMemberIsItsVector) {
  support::run_world("inproc", 1, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto device = kernels::make_cuda_device();
    for (int repetition = 0; repetition < 2; ++repetition) {  // under the same name
      const auto reducers = make_device_reducers(options_for(worker, clock, *device));
      EXPECT_NE(reducers, nullptr);
      if (!reducers) continue;
      const auto first = reducers->make(), second = reducers->make();
      for (const std::size_t count : {1, 1000, 3'000'001}) {
        expect_mean_of_one<float>(*first, *device, count);
        expect_mean_of_one<double>(*second, *device, count);
      }
    }
    return std::string();
  });
}

TEST(NcclTest, MembersThatShareAGpuGoThroughHostMemory) {
  support::run_world("inproc", 3, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto device = kernels::make_cuda_device();
    EXPECT_EQ(make_device_reducers(options_for(worker, clock, *device)), nullptr);
    return std::string();
  });
}

TEST(NcclTest, AMemberWithoutAGpuSendsEverybodyThroughHostMemory) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    const SteadyClock clock;
    const auto gpu = worker.rank == 0 ? kernels::make_cuda_device() : nullptr;
    kernels::Device& device = gpu ? *gpu : kernels::host_device();
    EXPECT_EQ(make_device_reducers(options_for(worker, clock, device)), nullptr);
    return std::string();
  });
}

TEST(NcclTest, WhoDoesNotComeIsNamed) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    if (worker.rank == 1) return std::string();
    const SteadyClock clock;
    DeviceReducersOptions options = options_for(worker, clock, kernels::host_device());
    options.deadline = support::in(std::chrono::milliseconds(50));
    EXPECT_THAT(support::failure_of<Error>([&] { make_device_reducers(options); }),
                testing::HasSubstr("worker 1 has not come"));
    return std::string();
  });
}

}  // namespace
}  // namespace kith::gossip
