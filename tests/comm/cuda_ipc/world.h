#pragma once

#include <vector>

#include "kith/kernels/cuda/device.h"
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {

// The body of process `rank` of a world whose windows lie in GPU memory, and such a world. The test itself
// never touches the GPU: what forks afterwards could not use it.
inline std::string run_gpu_process(int rank, int workers, const std::filesystem::path& folder,
                                   const support::WorkerBody& body, std::string_view backend = "cuda_ipc") {
  FileStore store(folder);
  const auto transport = make_transport(backend, support::transport_options(rank, workers, store));
  Worker worker{rank, workers, *transport, store};
  return body(worker);
}

inline void expect_good(const support::Ending& ending, int rank) {
  EXPECT_TRUE(ending.good()) << "worker " << rank << ": exit code " << ending.exit_code << ", signal "
                             << ending.signal << (ending.timed_out ? ", timed out" : "") << ": "
                             << ending.report;
}

inline void run_gpu_world(int workers, const support::WorkerBody& body) {
  const support::TempFolder folder;
  FileStore store(folder.path());
  support::Processes processes(workers,
                               [&](int rank) { return run_gpu_process(rank, workers, folder.path(), body); });
  const auto endings = processes.join(60s);
  for (int rank = 0; rank < workers; ++rank) {
    const support::Ending& ending = endings[static_cast<std::size_t>(rank)];
    if (ending.signal == SIGKILL && store.get(cat("died/", rank))) continue;
    expect_good(ending, rank);
  }
}

inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  kernels::cuda::require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "test data");
  // A copy of a few kilobytes returns before it has reached the GPU.
  kernels::cuda::require(cudaDeviceSynchronize(), "test data");
}

// fill() and holds() for memory of a GPU; both return when the GPU is done.
inline void fill_on_gpu(std::span<std::byte> memory, int writer, Version v) {
  std::vector<std::byte> host(memory.size());
  fill(host, writer, v);
  copy_bytes(memory.data(), host.data(), host.size());
}

inline bool holds_on_gpu(std::span<const std::byte> memory, int writer, Version v) {
  std::vector<std::byte> host(memory.size());
  copy_bytes(host.data(), memory.data(), host.size());
  return holds(host, writer, v);
}

inline void publish_on_gpu(Worker& w, Window& window, Version v, std::vector<WorkerId> readers) {
  const auto begun = window.begin(v, in_time());
  ASSERT_TRUE(std::holds_alternative<std::span<std::byte>>(begun)) << w.id() << " begins " << v;
  fill_on_gpu(std::get<std::span<std::byte>>(begun), w.rank, v);
  window.publish(v, {.bytes = window.options().bytes, .readers = std::move(readers)});
}

inline void expect_arrival_on_gpu(Worker& w, Window& window, WorkerId peer, Version v) {
  const Outcome outcome = window.await(peer, v, in_time());
  const Arrival* arrival = std::get_if<Arrival>(&outcome);
  ASSERT_NE(arrival, nullptr) << w.id() << " awaits " << v << " of " << peer << ", outcome "
                              << outcome.index();
  EXPECT_EQ(arrival->header().version, v);
  ASSERT_EQ(arrival->data().size(), window.options().bytes);
  EXPECT_TRUE(holds_on_gpu(arrival->data(), peer.value, v)) << w.id() << " reads " << v << " of " << peer;
}

inline void round_on_gpu(Worker& w, Window& window, Version v, const std::vector<WorkerId>& readers,
                         const std::vector<WorkerId>& writers) {
  publish_on_gpu(w, window, v, readers);
  for (WorkerId peer : writers)
    expect_arrival_on_gpu(w, window, peer, v);
}

}  // namespace kith::comm::conformance
