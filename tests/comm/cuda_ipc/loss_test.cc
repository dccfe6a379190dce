// Workers with windows in GPU memory that die.
#include "tests/comm/cuda_ipc/busy.h"
#include "tests/comm/cuda_ipc/world.h"

namespace kith::comm::conformance {
namespace {

constexpr std::size_t kBytes = 4'000'000;

std::int64_t now_ns() {
  return SteadyClock().now().time_since_epoch().count();
}

std::vector<WorkerId> survivors(const Worker& w) {
  std::vector<WorkerId> all = others(w);
  std::erase(all, WorkerId{0});
  return all;
}

class CudaIpcLoss : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, CudaIpcLoss, ::testing::Values(2, 4));

// SIGKILL in the middle of a kernel that writes the next version: the neighbours know within a second, and go
// on.
TEST_P(CudaIpcLoss, KillInTheMiddleOfAKernel) {
  const int workers = GetParam();
  const support::TempFolder folder;
  FileStore store(folder.path());
  support::Processes processes(workers, [&](int index) {
    return run_gpu_process(index, workers, folder.path(), [](Worker& w) {
      const auto window =
          w.transport.open({.name = "w", .bytes = kBytes, .memory = WindowMemory::device}, in_time());
      for (std::uint64_t t = 0; t < 3; ++t)
        round_on_gpu(w, *window, at(t), others(w), others(w));
      w.store.set(cat("ready/", w.rank), "");
      if (w.rank == 0) {
        const auto begun = window->begin(at(3), in_time());
        const auto slot = std::get<std::span<std::byte>>(begun);
        keep_busy(slot.data(), slot.size(), 40);
        const bool runs = cudaStreamQuery(nullptr) == cudaErrorNotReady;
        w.store.set("busy", runs ? "yes" : "no");
        cudaDeviceSynchronize();
        return std::string("was not killed");
      }
      publish_on_gpu(w, *window, at(3), others(w));
      const Outcome outcome = window->await(WorkerId{0}, at(3), in_time());
      const std::int64_t noticed = now_ns();
      EXPECT_TRUE(std::holds_alternative<Lost>(outcome)) << "outcome " << outcome.index();
      for (WorkerId peer : survivors(w))
        expect_arrival_on_gpu(w, *window, peer, at(3));
      for (std::uint64_t t = 4; t < 20; ++t)
        round_on_gpu(w, *window, at(t), others(w), survivors(w));
      w.store.set(cat("went_on/", w.rank), std::to_string(now_ns()));
      return std::to_string(noticed);
    });
  });
  for (int rank = 0; rank < workers; ++rank)
    ASSERT_TRUE(store.wait(cat("ready/", rank), in_time())) << "worker " << rank;
  ASSERT_EQ(store.wait("busy", in_time()), "yes");
  std::this_thread::sleep_for(200ms);  // the others wait by now; where they do not, the test is only milder
  const std::int64_t killed = now_ns();
  processes.send(0, SIGKILL);
  const auto endings = processes.join(60s);
  EXPECT_EQ(endings[0].signal, SIGKILL);
  for (int rank = 1; rank < workers; ++rank) {
    const support::Ending& ending = endings[static_cast<std::size_t>(rank)];
    expect_good(ending, rank);
    if (!ending.good()) continue;
    const double noticed_ms = static_cast<double>(std::stoll(ending.report) - killed) * 1e-6;
    const double went_on_ms =
        static_cast<double>(std::stoll(*store.get(cat("went_on/", rank))) - killed) * 1e-6;
    EXPECT_LT(noticed_ms, 1000) << "worker " << rank;
    std::printf("worker %d knew after %.1f ms and had gone on for 16 rounds after %.1f ms\n", rank,
                noticed_ms, went_on_ms);
  }
}

// What was published before the death arrives, even after the loss is known.
TEST_P(CudaIpcLoss, WhatWasPublishedBeforeStillArrives) {
  run_gpu_world(GetParam(), [](Worker& w) {
    const auto window =
        w.transport.open({.name = "w", .bytes = kBytes, .memory = WindowMemory::device}, in_time());
    publish_on_gpu(w, *window, at(0), others(w));
    w.store.set(cat("published/", w.rank), "");
    for (WorkerId peer : others(w))
      EXPECT_TRUE(w.store.wait(cat("published/", peer.value), in_time()));
    if (w.rank == 0) support::die(w);
    const Deadline limit = in_time();
    while (!w.transport.lost(WorkerId{0}) && SteadyClock().now() < limit)
      std::this_thread::sleep_for(1ms);
    for (WorkerId peer : others(w))
      expect_arrival_on_gpu(w, *window, peer, at(0));
    for (std::uint64_t t = 1; t < 20; ++t)
      round_on_gpu(w, *window, at(t), others(w), survivors(w));
    EXPECT_TRUE(std::holds_alternative<Lost>(window->await(WorkerId{0}, at(20), in_time())));
    return std::string();
  });
}

// Memory that peers have mapped is not freed under them.
TEST_P(CudaIpcLoss, AClosedWindowStaysAsLongAsItIsRead) {
  run_gpu_world(GetParam(), [](Worker& w) {
    auto window = w.transport.open({.name = "w", .bytes = kBytes, .memory = WindowMemory::device}, in_time());
    publish_on_gpu(w, *window, at(0), others(w));
    if (w.rank == 0) {
      for (WorkerId peer : others(w))
        EXPECT_TRUE(w.store.wait(cat("opened/", peer.value), in_time()));
      window.reset();
      w.store.set("closed", "");
      return std::string();
    }
    w.store.set(cat("opened/", w.rank), "");
    EXPECT_TRUE(w.store.wait("closed", in_time()));
    for (WorkerId peer : others(w))
      expect_arrival_on_gpu(w, *window, peer, at(0));
    return std::string();
  });
}

}  // namespace
}  // namespace kith::comm::conformance
