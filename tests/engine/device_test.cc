// The engine on a device that does its work later, in memory that the host cannot look at: the bits of the
// host.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

std::string name_of_memory(Memory memory) {
  return memory == Memory::gpu ? "gpu" : memory == Memory::windows ? "windows" : "copies";
}

std::vector<Memory> memories() {
  std::vector<Memory> all{Memory::windows, Memory::copies};
  for (const Memory memory : gpu_memories())
    all.push_back(memory);
  return all;
}

// Processes on a GPU have their windows in its memory.
std::string processes(Memory memory) {
  return memory == Memory::gpu ? "cuda_ipc" : "shm";
}

struct Case {
  std::string algorithm, optimizer;
  Memory memory;
  std::optional<DType> wire = {};
  Layout layout = Layout::automatic;
  std::string codec = {};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Memory memory : memories()) {
    for (const char* algorithm : {"awc", "atc", "dsgt", "mc-dsgt", "sgp", "allreduce", "none"})
      all.push_back({algorithm, "accum-adamw", memory});
    for (const char* algorithm : {"awc", "atc", "dsgt"})
      for (const DType wire : {DType::bf16, DType::i8})
        all.push_back({algorithm, "sgd", memory, wire});
    all.push_back({"awc", "adam", memory, {}, Layout::staged});
    const auto add_coded = [&](const char* algorithm, const char* optimizer, const char* codec) {
      all.push_back({algorithm, optimizer, memory, {}, Layout::automatic, codec});
    };
    add_coded("awc", "accum-adamw", "int8");
    add_coded("awc", "accum-adamw", "sign");
    add_coded("awc", "sgd", "top-k 0.25");
    add_coded("atc", "sgd", "full");
    add_coded("dsgd", "sgd", "int8");
    add_coded("d-adam", "adam", "qsgd-max 3");
    add_coded("sgp", "sgd", "qsgd 6");
    add_coded("choco", "sgd", "qsgd 4");
    add_coded("choco", "sgd", "random-k 0.3");
    add_coded("cd-adam", "adam", "sign");
    add_coded("q-push", "sgd", "qsgd 6");
  }
  return all;
}

class OnDevice : public testing::TestWithParam<Case> {
 protected:
  static EngineOptions options() {
    const Case& c = GetParam();
    EngineOptions result = options_for(
        c.algorithm, c.optimizer, c.algorithm == "sgp" || c.algorithm == "q-push" ? "exp-directed" : "exp");
    if (c.optimizer == "sgd" && !c.codec.empty()) result.optimizer.momentum = 0;
    result.wire = c.wire;
    result.codec = c.codec;
    if (c.algorithm == "choco" || c.algorithm == "mc-dsgt") result.method.rounds = 3;
    result.layout = c.layout;
    return result;
  }
};

TEST_P(OnDevice, GivesTheBitsOfTheHost) {
  EXPECT_EQ(train<float>("inproc", 4, options(), 9, GetParam().memory),
            train<float>("inproc", 4, options(), 9));
}

TEST_P(OnDevice, ProcessesGiveThemToo) {
  EXPECT_EQ(train<double>(processes(GetParam().memory), 2, options(), 6, GetParam().memory),
            train<double>("inproc", 2, options(), 6));
}

INSTANTIATE_TEST_SUITE_P(Engine, OnDevice, testing::ValuesIn(cases()), [](const auto& test) {
  const Case& c = test.param;
  std::string name = c.algorithm + "_" + name_of_memory(c.memory) +
                     (c.wire ? cat("_wire_", name_of(*c.wire)) : "") +
                     (c.layout == Layout::staged ? "_staged" : "") +
                     (c.codec.empty() ? "" : "_" + c.codec.substr(0, c.codec.find(' ')));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class OnEitherDevice : public testing::TestWithParam<Memory> {};

// A GPU adds the squares in another order: its norm may differ in the last bits, and clipped models with it.
TEST_P(OnEitherDevice, ClippingIsThatOfTheHost) {
  const bool exact = GetParam() != Memory::gpu;
  const auto text = [&](double value) {
    std::array<char, 64> digits{};
    std::snprintf(digits.data(), digits.size(), exact ? "%a " : "%.4e ", value);
    return std::string(digits.data());
  };
  for (const char* algorithm : {"awc", "dsgt", "allreduce"}) {
    const auto clipped = [&](Memory memory) {
      return support::run_world("inproc", 3, [&](support::Worker& worker) {
        Quadratic<float> quadratic(worker, options_for(algorithm, "sgd", "complete"), {7, 1, 40, 16}, memory);
        quadratic.engine().start();
        std::string norms;
        for (int t = 0; t < 5; ++t) {
          const StepReport report = quadratic.step({.gradient_scale = 0.5, .max_norm = 1.5});
          EXPECT_TRUE(report.gradient_norm.valid());
          norms += text(report.gradient_norm.get());
        }
        for (float value : quadratic.model())
          norms += text(value);
        return norms;
      });
    };
    EXPECT_EQ(clipped(GetParam()), clipped(Memory::host)) << algorithm;
  }
}

// Six steps, a copy of the state into an engine on another kind of device, four more: the same bits.
TEST_P(OnEitherDevice, StateMovesBetweenHostAndDevice) {
  struct Method {
    const char* algorithm;
    const char* optimizer;
    const char* codec;
  };
  for (const auto& [algorithm, optimizer, codec] :
       {Method{"awc", "accum-adamw", ""}, Method{"dsgt", "accum-adamw", ""},
        Method{"none", "accum-adamw", ""}, Method{"awc", "adam", "sign"},
        Method{"cd-adam", "adam", "qsgd 4"}}) {
    EngineOptions options = options_for(algorithm, optimizer, "ring");
    options.codec = codec;
    const auto straight = train<float>("inproc", 3, options, 10);
    const auto moved = [&](Memory first, Memory second) {
      std::vector<std::map<std::string, std::vector<std::byte>>> saved(3);
      support::run_world("inproc", 3, [&](support::Worker& worker) {
        Quadratic<float> quadratic(worker, options, {7, 1, 40, 16}, first);
        quadratic.engine().start();
        for (int t = 0; t < 6; ++t)
          quadratic.step();
        for (const StateSpan& span : quadratic.engine().state()) {
          saved[static_cast<std::size_t>(worker.rank)][span.name].assign(span.bytes.begin(),
                                                                         span.bytes.end());
        }
        return std::string();
      });
      return support::run_world("inproc", 3, [&](support::Worker& worker) {
        Quadratic<float> quadratic(worker, options, {7, 1, 40, 16}, second);
        quadratic.engine().restore(6);
        for (const StateSpan& span : quadratic.engine().state()) {
          const auto& bytes = saved[static_cast<std::size_t>(worker.rank)].at(span.name);
          EXPECT_EQ(bytes.size(), span.bytes.size()) << span.name;
          std::memcpy(span.bytes.data(), bytes.data(), bytes.size());
        }
        quadratic.engine().state();  // who looks at it harms nothing
        quadratic.engine().resume();
        for (int t = 6; t < 10; ++t)
          quadratic.step();
        return text_of(quadratic.model());
      });
    };
    EXPECT_EQ(moved(Memory::host, GetParam()), straight) << algorithm;
    EXPECT_EQ(moved(GetParam(), Memory::host), straight) << algorithm;
  }
}

TEST_P(OnEitherDevice, AverageAndDistanceAreThoseOfTheHost) {
  const auto measured = [](Memory memory) {
    return support::run_world("inproc", 3, [&](support::Worker& worker) {
      Quadratic<float> quadratic(worker, options_for("awc", "sgd", "ring"), {7, 40}, memory);
      quadratic.engine().start();
      for (int t = 0; t < 4; ++t)
        quadratic.step();
      const std::vector<kernels::Buffer> means{quadratic.device().allocate(7 * 4),
                                               quadratic.device().allocate(40 * 4)};
      const std::vector<void*> to{means[0].data(), means[1].data()};
      quadratic.engine().average(to);
      std::vector<float> mean(40);
      quadratic.device().compute().copy_now(mean.data(), to[1], 40 * 4);
      return text_of(mean) + cat(std::hexfloat, quadratic.engine().consensus_distance());
    });
  };
  EXPECT_EQ(measured(GetParam()), measured(Memory::host));
}

TEST_P(OnEitherDevice, ADeadNeighbourIsReported) {
  support::run_world(processes(GetParam()), 3, [](support::Worker& worker) {
    Quadratic<float> quadratic(worker, options_for("awc", "adam", "complete"), {7, 1, 40, 16}, GetParam());
    quadratic.engine().start();
    if (worker.rank == 2) support::die(worker);
    StepReport report;
    for (int t = 0; t < 50 && report.lost.empty(); ++t)
      report = quadratic.step();
    EXPECT_EQ(report.lost, std::vector<WorkerId>{WorkerId{2}});
    return std::string();
  });
}

// 16-bit parameters follow their float master there too.
TEST_P(OnEitherDevice, SixteenBitParametersAreThoseOfTheHost) {
  const auto trained = [](Memory memory, Layout layout) {
    return support::run_world("inproc", 2, [&](support::Worker& worker) {
      const auto own = make_device(memory, worker.rank);
      kernels::Device& device = own ? *own : kernels::host_device();
      const SteadyClock clock;
      NullLog log;
      support::DeviceTransport transport(worker.transport);
      const WorldParts world{memory == Memory::windows ? &transport : &worker.transport,
                             &worker.store,
                             Members::first(2),
                             &clock,
                             &log,
                             nullptr};
      EngineOptions options = options_for("awc", "sgd", "complete");
      options.layout = layout;
      options.schedule.shape = graph::Shape::single_node(2);
      std::vector<std::uint16_t> values(5, 0x3f80);  // 1.0 in bf16
      const std::vector<float> slopes(5, static_cast<float>(worker.rank + 1));
      const kernels::Buffer parameter = device.allocate(10), gradient = device.allocate(20);
      device.compute().copy_now(parameter.data(), values.data(), 10);
      device.compute().copy_now(gradient.data(), slopes.data(), 20);
      Engine engine(world, options, {{"p", parameter.data(), 5, DType::bf16, 5}}, device);
      engine.start();
      EXPECT_EQ(engine.data(0), parameter.data());
      const std::vector<SegmentInput> inputs{{gradient.data(), DType::f32, 1e-3, 0}};
      for (int t = 0; t < 20; ++t)
        engine.step(inputs, {});
      device.compute().copy_now(values.data(), parameter.data(), 10);
      return cat(values[0], " ", values[4]);
    });
  };
  for (const Layout layout : {Layout::alternating, Layout::staged}) {
    const auto host = trained(Memory::host, layout);
    EXPECT_NE(host[0], cat(0x3f80, " ", 0x3f80));
    EXPECT_EQ(trained(GetParam(), layout), host);
  }
}

TEST_P(OnEitherDevice, AllReduceMayEndBetweenBackwardAndStep) {
  for (int repetition = 0; repetition < 5; ++repetition) {
    support::run_world("inproc", 2, [](support::Worker& worker) {
      Quadratic<float> quadratic(worker, options_for("allreduce", "sgd", "complete"), {300, 7}, GetParam());
      quadratic.engine().start();
      quadratic.step();
      quadratic.backward();
      for (std::size_t i : {1u, 0u})
        quadratic.engine().gradient_ready(i, quadratic.inputs()[i]);
      EXPECT_EQ(quadratic.engine().steps(), 1);
      return std::string();
    });
  }
}

// What the last step published is visible although its engine is gone at once.
TEST_P(OnEitherDevice, WhoLeavesHasPublishedWhatItStepped) {
  for (int repetition = 0; repetition < 10; ++repetition) {
    support::run_world("inproc", 2, [](support::Worker& worker) {
      Quadratic<float> quadratic(worker, options_for("awc", "sgd", "complete"), {64}, GetParam());
      quadratic.engine().start();
      const int steps = worker.rank == 0 ? 3 : 4;
      for (int t = 0; t < steps; ++t) {
        const StepReport report = quadratic.step();
        EXPECT_TRUE(report.late.empty() && report.lost.empty()) << "step " << t;
      }
      return std::string();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, OnEitherDevice, testing::ValuesIn(memories()),
                         [](const auto& test) { return name_of_memory(test.param); });

// A norm that nobody reads does not hold up the step: the host is done while the device has hardly begun.
TEST(AsyncDevice, StepDoesNotWaitForItsOwnDevice) {
  support::run_world("inproc", 1, [&](support::Worker& worker) {
    const SteadyClock clock;
    NullLog log;
    support::AsyncDevice device;
    support::DeviceTransport transport(worker.transport);
    const WorldParts world{&transport, &worker.store, Members::first(1), &clock, &log, nullptr};
    const kernels::Buffer parameter = device.allocate(64), gradient = device.allocate(64);
    EngineOptions options = options_for("awc", "sgd", "complete");
    Engine engine(world, options, {{"p", parameter.data(), 16, DType::f32, 16}}, device);
    engine.start();
    std::promise<void> go;
    device.compute().enqueue([&, begun = go.get_future().share()] { begun.wait(); });  // a long backward pass
    const std::vector<SegmentInput> inputs{{gradient.data(), DType::f32, 0.1, 0}};
    const StepReport report = engine.step(inputs, {.max_norm = 1.0});
    EXPECT_EQ(report.gradient_norm.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    go.set_value();
    EXPECT_EQ(report.gradient_norm.get(), 0);
    return std::string();
  });
}

// Rounds over machines are the host's business whatever the device.
TEST(OnDeviceOverMachines, GivesTheBitsOfTheHost) {
  for (const char* algorithm : {"awc", "atc"}) {
    for (const auto wire : {std::optional<DType>{}, std::optional{DType::bf16}, std::optional{DType::i8}}) {
      EngineOptions options = options_for(algorithm, "sgd", "aer");
      options.schedule.shape = graph::Shape::parse("2,2", "test");
      options.wire = wire;
      const auto models = [&](Memory memory) {
        return support::run_threads(
            4,
            [&](support::Worker& worker) { return text_of(train_worker<float>(worker, options, 9, memory)); },
            {0, 0, 1, 1});
      };
      const auto host = models(Memory::host);
      EXPECT_EQ(models(Memory::copies), host) << algorithm;
      EXPECT_EQ(models(Memory::windows), host) << algorithm;
    }
  }
}

// Between machines the windows lie in host memory, and what comes over the network in memory of the
// transport.
TEST(OnDeviceOverMachines, TheNetworkGivesThemToo) {
  for (const std::string& backend : support::network_backends()) {
    for (const char* algorithm : {"awc", "allreduce"}) {
      const EngineOptions options = options_for(algorithm, "sgd", "exp");
      EXPECT_EQ(train<float>(backend, 3, options, 6, Memory::copies), train<float>(backend, 3, options, 6))
          << backend << " " << algorithm;
    }
  }
}

// An engine whose windows lie in host memory copies to and from pinned memory only, and gives it back.
TEST(AsyncDevice, RefusesMemoryThatIsNotPinned) {
  support::AsyncDevice device;
  const kernels::Buffer there = device.allocate(64), here = device.allocate_pinned(64);
  std::vector<std::byte> elsewhere(64);
  EXPECT_NO_THROW(device.compute().copy(there.data(), here.data(), 64));
  EXPECT_THROW(device.compute().copy(there.data(), elsewhere.data(), 64), Bug);
  EXPECT_THROW(device.compute().copy(elsewhere.data(), there.data(), 64), Bug);
  EXPECT_NO_THROW(device.compute().copy_now(elsewhere.data(), there.data(), 64));
  const auto pin = device.pinner()(elsewhere);
  EXPECT_NO_THROW(device.compute().copy(elsewhere.data(), there.data(), 64));
  EXPECT_THROW(device.compute().copy(elsewhere.data() + 1, there.data(), 64), Bug)
      << "past the end of the pin";
  kernels::wait(device.compute().mark());
}

}  // namespace
}  // namespace kith::engine
