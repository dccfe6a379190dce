// All-reduce past the hosts' memory, with a reducer that needs neither GPUs nor NCCL.
#include <atomic>
#include <cstdlib>

#include <gtest/gtest.h>

#include "kith/gossip/collective.h"
#include "kith/kernels/cpu/cpu_kernels.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

using gossip::DeviceReducer;
using gossip::DeviceReducersOptions;

constexpr std::size_t kMostElements = 200;

// Means of vectors on a device by way of a window, in rank order, so that the bits are the host's. As NCCL's,
// it is useless once a member is gone.
class WindowReducer final : public DeviceReducer {
 public:
  WindowReducer(const DeviceReducersOptions& options, const std::string& name, std::atomic<int>& means)
      : queue_(options.device->make_queue()),
        here_(options.device->allocate_pinned(kMostElements * sizeof(float))),
        values_(kMostElements),
        kernels_(kernels::make_cpu_kernels<float>()),
        collective_(*options.transport, options.members, *kernels_, *options.clock,
                    {name, kMostElements, std::chrono::seconds(30)}),
        means_(means) {}

  kernels::Queue& queue() override { return *queue_; }
  void mean(void* vector, DType type, std::size_t count, Deadline deadline) override {
    queue_->copy(here_.data(), vector, count * size_of(type));
    kernels::wait(queue_->mark());
    kernels_->convert(values_.data(), DType::f32, here_.data(), type, count);
    const gossip::RoundReport report = collective_.mean({values_.data(), count}, deadline);
    if (!report.complete()) throw Error("a member is gone", "window reducer");
    kernels_->convert(here_.data(), type, values_.data(), DType::f32, count);
    queue_->copy(vector, here_.data(), count * size_of(type));
    ++means_;
  }
  void wait(Deadline) override { kernels::wait(queue_->mark()); }

 private:
  const std::unique_ptr<kernels::Queue> queue_;
  const kernels::Buffer here_;
  std::vector<float> values_;
  const std::unique_ptr<kernels::Kernels<float>> kernels_;
  gossip::Collective<float> collective_;
  std::atomic<int>& means_;
};

class WindowReducers final : public gossip::DeviceReducers {
 public:
  WindowReducers(DeviceReducersOptions options, std::atomic<int>& means)
      : options_(std::move(options)), means_(means) {}
  std::unique_ptr<DeviceReducer> make() override {
    return std::make_unique<WindowReducer>(options_, cat(options_.name, "/reducer", ++made_), means_);
  }

 private:
  const DeviceReducersOptions options_;
  std::atomic<int>& means_;
  int made_ = 0;
};

gossip::MakeDeviceReducers window_reducers(std::atomic<int>& means) {
  return [&means](const DeviceReducersOptions& options) {
    return std::make_unique<WindowReducers>(options, means);
  };
}

const std::vector<std::size_t> kSizes{7, 1, 40, 16};

// Gradients are missing: of segment 1 on worker 0, of segment 2 on everybody.
std::string trained(support::Worker& worker, Memory memory, const gossip::MakeDeviceReducers& reducers) {
  Quadratic<float> quadratic(worker, options_for("allreduce", "accum-adamw", "complete"), kSizes, memory,
                             reducers);
  quadratic.engine().start();
  for (int t = 0; t < 8; ++t) {
    quadratic.backward();
    if (worker.rank == 0) quadratic.inputs()[1].gradient = nullptr;
    if (t % 2 == 0) quadratic.inputs()[2].gradient = nullptr;
    const StepReport report = quadratic.engine().step(quadratic.inputs(), {.max_norm = 5.0});
    EXPECT_TRUE(report.late.empty() && report.lost.empty());
    EXPECT_GT(report.bytes_published, 64 * sizeof(float));
  }
  return text_of(quadratic.model());
}

TEST(DeviceReducer, GivesTheBitsOfTheHost) {
  for (const Memory memory : {Memory::windows, Memory::copies}) {
    for (const int workers : {1, 3}) {
      std::atomic<int> means = 0;
      int buckets = 0;
      const auto host = support::run_world("inproc", workers, [](support::Worker& worker) {
        return trained(worker, Memory::host, gossip::make_device_reducers);
      });
      const auto device = support::run_world("inproc", workers, [&](support::Worker& worker) {
        if (worker.rank == 0) {
          Quadratic<float> counted(worker, options_for("none", "sgd", "complete"), kSizes);
          buckets = static_cast<int>(counted.engine().buckets());
        }
        return trained(worker, memory, window_reducers(means));
      });
      EXPECT_EQ(device, host);
      EXPECT_GT(buckets, 1);
      EXPECT_EQ(means, buckets * 8 * workers) << "every bucket in every step went that way";
    }
  }
}

// A gradient that only some have, or nobody, is known as such on a narrow wire as well.
TEST(DeviceReducer, TakesTheWiresType) {
  const auto train_on = [](Memory memory, std::optional<DType> wire,
                           const gossip::MakeDeviceReducers& reducers) {
    return support::run_world("inproc", 3, [&](support::Worker& worker) {
      EngineOptions options = options_for("allreduce", "sgd", "complete");
      options.wire = wire;
      Quadratic<float> quadratic(worker, options, kSizes, memory, reducers);
      quadratic.engine().start();
      for (int t = 0; t < 8; ++t) {
        quadratic.backward();
        if (worker.rank == 0) quadratic.inputs()[1].gradient = nullptr;
        if (t % 2 == 0) quadratic.inputs()[2].gradient = nullptr;
        const StepReport report = quadratic.engine().step(quadratic.inputs(), {});
        EXPECT_GT(report.bytes_published, 64 * size_of(wire.value_or(DType::f32)));
        EXPECT_LT(report.bytes_published, 2 * 64 * size_of(wire.value_or(DType::f32)));
      }
      return text_of(quadratic.model());
    });
  };
  const auto values = [](const std::string& text) {
    std::vector<float> all;
    const char* at = text.c_str();
    for (char* end = nullptr; *at != '\0'; at = end + 1)
      all.push_back(std::strtof(at, &end));
    return all;
  };
  std::atomic<int> means = 0;
  const auto plain = train_on(Memory::host, {}, gossip::make_device_reducers);
  for (const DType wire : {DType::bf16, DType::f16}) {
    const auto rounded = train_on(Memory::copies, wire, window_reducers(means));
    EXPECT_EQ(rounded[1], rounded[0]);
    EXPECT_EQ(rounded[2], rounded[0]);
    EXPECT_NE(rounded[0], plain[0]);
    const std::vector<float> expected = values(plain[0]), got = values(rounded[0]);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t k = 0; k < got.size(); ++k)
      EXPECT_NEAR(got[k], expected[k], 0.03) << name_of(wire) << ", element " << k;
  }
}

TEST(DeviceReducer, TakesThePlaceOfTheWindows) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    std::atomic<int> means = 0;
    const EngineOptions options = options_for("allreduce", "sgd", "complete");
    Quadratic<float> direct(worker, options, kSizes, Memory::copies, window_reducers(means));
    EXPECT_EQ(direct.engine().memory().windows, 0u);
    EngineOptions other = options;
    other.name = "other";
    Quadratic<float> through_host(worker, other, kSizes, Memory::copies);
    EXPECT_GT(through_host.engine().memory().windows, 64 * sizeof(float));
    return std::string();
  });
}

TEST(DeviceReducer, ALostMemberEndsTheStepWithAnError) {
  support::run_world("inproc", 2, [](support::Worker& worker) {
    std::atomic<int> means = 0;
    Quadratic<float> quadratic(worker, options_for("allreduce", "sgd", "complete"), kSizes, Memory::copies,
                               window_reducers(means));
    quadratic.engine().start();
    quadratic.step();
    if (worker.rank == 1) support::die(worker);
    EXPECT_THROW(quadratic.step(), Error);
    return std::string();
  });
}

}  // namespace
}  // namespace kith::engine
