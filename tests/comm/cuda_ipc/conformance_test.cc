// Windows in GPU memory between processes that share one GPU: the contract of every backend.
#include "kith/base/error.h"
#include "kith/kernels/cuda/cuda_kernels.h"
#include "tests/comm/cuda_ipc/world.h"

namespace kith::comm::conformance {
namespace {

class CudaIpc : public ::testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  int world() const { return std::get<0>(GetParam()); }
  std::size_t bytes() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, CudaIpc,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(1, 4096, 1'000'003, 25'000'000)),
                         [](const auto& cell) {
                           return cat(std::get<0>(cell.param), "_", label(std::get<1>(cell.param)));
                         });

TEST_P(CudaIpc, ContentsOrderAndVersions) {
  run_gpu_world(world(), [this](Worker& w) {
    const auto window = w.transport.open(
        {.name = "w", .bytes = bytes(), .memory = WindowMemory::device, .shape_digest = 99}, in_time());
    EXPECT_EQ(w.transport.backend(), "cuda_ipc");
    for (std::uint64_t t = 0; t < 8; ++t)
      round_on_gpu(w, *window, at(t), others(w), others(w));
    for (std::uint64_t t = 0; t < 4; ++t)
      round_on_gpu(w, *window, at(t, 1), others(w), others(w));
    for (WorkerId peer : others(w)) {
      EXPECT_EQ(w.transport.ledger().at(peer).arrivals, 12u);
      EXPECT_EQ(w.transport.ledger().at(peer).bytes_read, 12 * bytes());
    }
    return std::string();
  });
}

TEST_P(CudaIpc, SlotIsNotReusedUnderASlowReader) {
  run_gpu_world(world(), [this](Worker& w) {
    const auto window =
        w.transport.open({.name = "w", .bytes = bytes(), .memory = WindowMemory::device}, in_time());
    constexpr std::uint64_t kLast = 6;
    if (w.rank == 0) {
      std::vector<WorkerId> readers;
      if (w.size > 1) readers.push_back(WorkerId{1});
      for (std::uint64_t t = 0; t < kLast; ++t)
        publish_on_gpu(w, *window, at(t), readers);
    }
    for (std::uint64_t t = 0; w.rank == 1 && t < kLast; ++t) {
      const Outcome outcome = window->await(WorkerId{0}, at(t), in_time());
      const Arrival* arrival = std::get_if<Arrival>(&outcome);
      EXPECT_NE(arrival, nullptr);
      if (arrival == nullptr) break;
      std::this_thread::sleep_for(3ms);
      EXPECT_TRUE(holds_on_gpu(arrival->data(), 0, at(t)));
    }
    return std::string();
  });
}

TEST_P(CudaIpc, LatestModePinsTheNewest) {
  run_gpu_world(world(), [this](Worker& w) {
    const auto window = w.transport.open({.name = "w",
                                          .bytes = bytes(),
                                          .slots = 3,
                                          .mode = WindowMode::latest,
                                          .memory = WindowMemory::device},
                                         in_time());
    constexpr std::uint64_t kLast = 10;
    std::thread writing([&] {
      for (std::uint64_t t = 0; t <= kLast; ++t)
        publish_on_gpu(w, *window, at(t), {});
    });
    for (WorkerId peer : others(w)) {
      std::optional<Version> seen;
      while (seen != at(kLast)) {
        const Outcome outcome = window->newest(peer, seen, in_time());
        const Arrival* arrival = std::get_if<Arrival>(&outcome);
        EXPECT_NE(arrival, nullptr);
        if (arrival == nullptr) break;
        const Version version = arrival->header().version;
        EXPECT_TRUE(holds_on_gpu(arrival->data(), peer.value, version)) << version;
        seen = version;
      }
    }
    writing.join();
    return std::string();
  });
}

// Everybody averages with everybody, by kernels that read the peers' memory where it lies.
TEST(CudaIpcMix, KernelsReadTheNeighboursMemory) {
  constexpr int kWorkers = 4;
  constexpr std::size_t kCount = 1'000'003;
  run_gpu_world(kWorkers, [](Worker& w) {
    const auto window = w.transport.open(
        {.name = "model", .bytes = kCount * sizeof(float), .memory = WindowMemory::device}, in_time());
    const auto kernels = kernels::make_cuda_kernels<float>();
    const auto floats = [&](Version v) { return reinterpret_cast<float*>(window->slot(v).data()); };
    EXPECT_TRUE(std::holds_alternative<std::span<std::byte>>(window->begin(at(0), in_time())));
    const std::vector<float> start(kCount, static_cast<float>(w.rank));
    copy_bytes(floats(at(0)), start.data(), kCount * sizeof(float));
    window->publish(at(0), {.bytes = kCount * sizeof(float), .readers = others(w)});

    std::vector<Outcome> outcomes;
    std::vector<kernels::Source> sources{{floats(at(0)), DType::f32, 1}};
    for (WorkerId peer : others(w)) {
      outcomes.push_back(window->await(peer, at(0), in_time()));
      EXPECT_TRUE(std::holds_alternative<Arrival>(outcomes.back()));
      sources.push_back({std::get<Arrival>(outcomes.back()).data().data(), DType::f32, 1});
    }
    EXPECT_TRUE(std::holds_alternative<std::span<std::byte>>(window->begin(at(1), in_time())));
    kernels->mix({floats(at(1))}, {sources, 0.25}, kCount);
    std::vector<float> mean(kCount);
    copy_bytes(mean.data(), floats(at(1)), kCount * sizeof(float));
    EXPECT_EQ(mean, std::vector<float>(kCount, 1.5F));
    return std::string();
  });
}

TEST(CudaIpcOpening, AWorkerWithWindowsInHostMemoryIsRefused) {
  const support::TempFolder folder;
  support::Processes processes(2, [&](int rank) {
    return run_gpu_process(
        rank, 2, folder.path(),
        [](Worker& w) {
          std::string said = "opened";
          try {
            const auto memory = w.transport.device_windows() ? WindowMemory::device : WindowMemory::host;
            w.transport.open({.name = "w", .bytes = 4096, .memory = memory}, in_time());
          } catch (const InputError& error) {
            said = error.what();
          }
          // Stays until the other has looked, too.
          w.store.set(cat("said/", w.rank), "");
          EXPECT_TRUE(w.store.wait(cat("said/", 1 - w.rank), in_time()));
          return said;
        },
        rank == 0 ? "cuda_ipc" : "shm");
  });
  const auto endings = processes.join(60s);
  for (int rank = 0; rank < 2; ++rank)
    expect_good(endings[static_cast<std::size_t>(rank)], rank);
  EXPECT_NE(endings[0].report.find("does not lie in GPU memory"), std::string::npos) << endings[0].report;
  EXPECT_NE(endings[1].report.find("bytes"), std::string::npos) << endings[1].report;
}

}  // namespace
}  // namespace kith::comm::conformance
