// Two workers swap vectors over the network: windows over UCX against plain sockets. Time per swap, and the
// processor time that it takes from the model.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/report.h"
#include "bench/network/plain_swap.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/registry.h"

namespace kith::bench {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr const char* kInterface = "lo";

struct Result {
  double ms = 0;          // per swap
  double cpu_per_gb = 0;  // seconds of processor time for 10^9 bytes sent and received
};

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

template <class Swap>
Result measure(std::size_t bytes, int swaps, Swap swap) {
  for (int i = 0; i < 3; ++i)
    swap();
  const double cpu = processor_seconds();
  const Clock::Time start = SteadyClock().now();
  for (int i = 0; i < swaps; ++i)
    swap();
  const double elapsed = seconds(SteadyClock().now() - start);
  return {elapsed * 1e3 / swaps, (processor_seconds() - cpu) * 1e9 / (static_cast<double>(bytes) * swaps)};
}

std::byte stamp(int rank, std::uint64_t step) {
  return static_cast<std::byte>(step * 7 + static_cast<std::uint64_t>(rank) + 1);
}

Result run_windows(int rank, std::size_t bytes, int swaps, int lanes, comm::Store& store) {
  comm::TransportOptions options;
  options.self = WorkerId{rank};
  options.workers = Members::first(2).workers;
  options.store = &store;
  options.network.interface = kInterface;
  options.network.lanes = lanes;
  const auto transport = comm::make_transport("ucx", options);
  const auto window = transport->open({.name = "bench", .bytes = bytes}, SteadyClock().now() + kTimeout);
  const WorkerId peer{1 - rank};
  std::uint64_t step = 0;
  return measure(bytes, swaps, [&] {
    const Version v{0, step++};
    const Deadline deadline = SteadyClock().now() + kTimeout;
    const auto begun = window->begin(v, deadline);
    const auto slot = std::get<std::span<std::byte>>(begun);
    slot.front() = slot.back() = stamp(rank, v.step);
    window->publish(v, {.bytes = bytes, .readers = {peer}});
    const comm::Outcome outcome = window->await(peer, v, deadline);
    const auto* arrival = std::get_if<comm::Arrival>(&outcome);
    const std::byte expected = stamp(1 - rank, v.step);
    if (arrival == nullptr || arrival->data().front() != expected || arrival->data().back() != expected)
      throw Error(cat("swap ", v, " went wrong"), cat("worker ", rank));
  });
}

Result run_plain(int rank, std::size_t bytes, int swaps, comm::Store& store) {
  PlainSwap plain(rank, kInterface, store);
  std::vector<std::byte> mine(bytes), theirs(bytes);
  std::uint64_t step = 0;
  return measure(bytes, swaps, [&] {
    mine.front() = mine.back() = stamp(rank, step);
    plain.swap(mine, theirs);
    const std::byte expected = stamp(1 - rank, step++);
    if (theirs.front() != expected || theirs.back() != expected)
      throw Error("a plain swap went wrong", cat("worker ", rank));
  });
}

// lanes 0: plain sockets. The time of worker 0; the processor time of both.
Result run(std::size_t bytes, int swaps, int lanes) {
  const TempFolder folder("kith-network");
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw Error("cannot make a pipe", "bench/network");
  std::array<pid_t, 2> workers{};
  for (int rank = 0; rank < 2; ++rank) {
    workers[static_cast<std::size_t>(rank)] = ::fork();
    if (workers[static_cast<std::size_t>(rank)] != 0) continue;
    int code = 0;
    try {
      comm::FileStore store(folder.path());
      const Result result =
          lanes == 0 ? run_plain(rank, bytes, swaps, store) : run_windows(rank, bytes, swaps, lanes, store);
      if (::write(pipe[1], &result, sizeof result) != sizeof result) code = 1;
    } catch (const std::exception& error) {
      std::cerr << "bench/network: " << error.what() << "\n";
      code = 1;
    }
    std::_Exit(code);
  }
  ::close(pipe[1]);
  Result sum{};
  int reports = 0;
  for (Result one; ::read(pipe[0], &one, sizeof one) == sizeof one; ++reports) {
    sum.ms = std::max(sum.ms, one.ms);
    sum.cpu_per_gb += one.cpu_per_gb / 2;  // each has sent and received
  }
  ::close(pipe[0]);
  for (pid_t pid : workers)
    ::waitpid(pid, nullptr, 0);
  if (reports != 2) throw Error("a worker failed", cat(bytes, " bytes, ", lanes, " lanes"));
  return sum;
}

int main_of(const Options& options) {
  Report report("network");
  const int blocks = options.quick ? 3 : 5;
  std::printf("two workers swap vectors over %s; ms per swap, processor seconds per GB sent and received\n",
              kInterface);
  std::printf("     bytes  way            ms median [p10, p90]      GB/s each way   cpu s/GB\n");
  for (std::size_t bytes :
       {std::size_t{64}, std::size_t{65'536}, std::size_t{1'000'000}, std::size_t{25'000'000}}) {
    const int swaps = bytes < 100'000 ? 1000 : bytes < 2'000'000 ? 100 : options.quick ? 8 : 20;
    for (int lanes : {0, 1, 2, 4}) {
      if (lanes > 1 && bytes < 2'000'000) continue;
      std::vector<double> ms, cpu;
      for (int block = 0; block < blocks; ++block) {
        const Result result = run(bytes, swaps, lanes);
        ms.push_back(result.ms);
        cpu.push_back(result.cpu_per_gb);
      }
      const std::string way = lanes == 0 ? "plain sockets" : cat("ucx, lanes ", lanes);
      const Summary time = summarise(ms), load = summarise(cpu);
      std::printf("%10zu  %-13s %8.3f [%8.3f, %8.3f] %10.2f %12.3f\n", bytes, way.c_str(), time.median,
                  time.low, time.high, static_cast<double>(bytes) / time.median * 1e-6, load.median);
      report.measure(cat(lanes == 0 ? "plain" : "ucx", "_", bytes, "_", lanes), time, "ms");
      report.measure(cat(lanes == 0 ? "plain" : "ucx", "_cpu_", bytes, "_", lanes), load, "s/GB");
    }
  }
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  const auto options = kith::bench::parse(argc, argv, "network", "Windows over UCX against plain sockets");
  try {
    return kith::bench::main_of(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/network: " << error.what() << "\n";
    return 1;
  }
}
