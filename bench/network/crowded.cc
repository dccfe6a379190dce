// Two workers send 1 GB each to worker 0 while it publishes small versions for a fourth: how long from the
// publication until the version is there. What comes in must not hold up what goes out.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/report.h"
#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/registry.h"

namespace kith::bench {
namespace {

constexpr int kWorkers = 4;
constexpr WorkerId kPublisher{0}, kReader{3};
constexpr std::array kSenders{WorkerId{1}, WorkerId{2}};
constexpr std::size_t kPulse = 65'536;  // one stripe
constexpr auto kPause = std::chrono::milliseconds(5);
constexpr std::byte kMore{1}, kLast{2};

constexpr std::size_t kFlood = 1'000'000'000;

Deadline soon() {
  return SteadyClock().now() + std::chrono::seconds(120);
}

std::unique_ptr<comm::Window> open(comm::Transport& transport, std::string name, std::size_t bytes,
                                   std::vector<WorkerId> peers) {
  return transport.open({.name = std::move(name), .bytes = bytes, .peers = std::move(peers)}, soon());
}

std::span<std::byte> begin(comm::Window& window, Version v) {
  const auto begun = window.begin(v, soon());
  if (const auto* slot = std::get_if<std::span<std::byte>>(&begun)) return *slot;
  throw Error("a slot does not become free", window.options().name);
}

comm::Arrival await(comm::Window& window, WorkerId peer, Version v) {
  comm::Outcome outcome = window.await(peer, v, soon());
  if (auto* arrival = std::get_if<comm::Arrival>(&outcome)) return std::move(*arrival);
  throw Error(cat("version ", v, " of ", peer, " does not come"), window.options().name);
}

// The GB per second that came in.
std::vector<double> publish(comm::Transport& transport, comm::Store& store) {
  const auto flood = open(transport, "flood", kFlood, {kSenders.begin(), kSenders.end()});
  const auto pulse = open(transport, "pulse", kPulse, {kReader});
  std::atomic<bool> over = false;
  const Clock::Time start = SteadyClock().now();
  store.set("go", "");
  std::thread taker([&] {
    for (const WorkerId sender : kSenders) {
      const comm::Arrival arrival = await(*flood, sender, {0, 0});
      const auto stamp = static_cast<std::byte>(sender.value);
      if (arrival.data().size() != kFlood || arrival.data().front() != stamp ||
          arrival.data().back() != stamp)
        std::abort();
    }
    over = true;
  });
  for (std::uint64_t step = 0;; ++step) {
    const bool last = over;
    const auto slot = begin(*pulse, {0, step});
    slot.front() = last ? kLast : kMore;
    slot.back() = static_cast<std::byte>(step);
    pulse->publish({0, step}, {.bytes = kPulse, .readers = {kReader}, .time = SteadyClock().now()});
    if (last) break;
    std::this_thread::sleep_for(kPause);
  }
  taker.join();
  const double elapsed = seconds(SteadyClock().now() - start);
  return {static_cast<double>(kFlood * kSenders.size()) * 1e-9 / elapsed};
}

std::vector<double> send(comm::Transport& transport, comm::Store& store) {
  const auto flood = open(transport, "flood", kFlood, {kPublisher});
  const auto slot = begin(*flood, {0, 0});
  std::ranges::fill(slot, static_cast<std::byte>(transport.self().value));
  if (!store.wait("go", soon())) throw Error("nobody begins", "worker 0");
  flood->publish({0, 0}, {.bytes = kFlood, .readers = {kPublisher}});
  begin(*flood, {0, 2});  // when its reader is past it
  return {};
}

// Milliseconds from each publication to its arrival.
std::vector<double> read(comm::Transport& transport) {
  const auto pulse = open(transport, "pulse", kPulse, {kPublisher});
  std::vector<double> late;
  for (std::uint64_t step = 0;; ++step) {
    const comm::Arrival arrival = await(*pulse, kPublisher, {0, step});
    late.push_back(1e3 * seconds(SteadyClock().now() - arrival.header().published));
    if (arrival.data().back() != static_cast<std::byte>(step)) throw Error("a pulse went wrong", cat(step));
    if (arrival.data().front() == kLast) return late;
  }
}

std::vector<double> work(int rank, const std::string& folder) {
  comm::FileStore store(folder);
  comm::TransportOptions options;
  options.self = WorkerId{rank};
  options.workers = Members::first(kWorkers).workers;
  options.store = &store;
  options.network.interface = "lo";
  const auto transport = comm::make_transport("ucx", options);
  if (options.self == kPublisher) return publish(*transport, store);
  if (options.self == kReader) return read(*transport);
  return send(*transport, store);
}

// What the publisher and the reader found.
std::array<std::vector<double>, kWorkers> run() {
  const TempFolder folder("kith-crowded");
  std::array<std::vector<double>, kWorkers> found;
  std::array<int, kWorkers> pipes{};
  std::array<pid_t, kWorkers> workers{};
  for (std::size_t rank = 0; rank < kWorkers; ++rank) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw Error("cannot make a pipe", "bench/crowded");
    workers[rank] = ::fork();
    if (workers[rank] == 0) {
      int code = 0;
      try {
        for (const double value : work(static_cast<int>(rank), folder.path()))
          if (::write(ends[1], &value, sizeof value) != sizeof value) code = 1;
      } catch (const std::exception& error) {
        std::cerr << "bench/crowded: worker " << rank << ": " << error.what() << "\n";
        code = 1;
      }
      std::_Exit(code);
    }
    ::close(ends[1]);
    pipes[rank] = ends[0];
  }
  bool good = true;
  for (std::size_t rank = 0; rank < kWorkers; ++rank) {
    for (double value = 0; ::read(pipes[rank], &value, sizeof value) == sizeof value;)
      found[rank].push_back(value);
    ::close(pipes[rank]);
    int status = 0;
    ::waitpid(workers[rank], &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!good || found[0].empty() || found[3].empty()) throw Error("a worker failed", "bench/crowded");
  return found;
}

int main_of(const Options& options) {
  Report report("crowded");
  const int repeats = options.quick ? 3 : 7;
  std::printf("2 x 1 GB come in over lo while versions of 64 KiB go out; ms from publication to arrival\n");
  std::printf("  run  versions   median      p90      max   GB/s in\n");
  std::vector<double> medians, worst;
  for (int i = 0; i < repeats; ++i) {
    const auto found = run();
    const std::vector<double>& late = found[3];
    const Summary summary = summarise(late);
    medians.push_back(summary.median);
    worst.push_back(std::ranges::max(late));
    std::printf("%5d %9zu %8.2f %8.2f %8.2f %9.2f\n", i + 1, late.size(), summary.median, summary.high,
                worst.back(), found[0].front());
  }
  report.measure("median", summarise(medians), "ms");
  report.measure("worst", summarise(worst), "ms");
  std::printf("median of medians %.2f ms, median of the worst %.2f ms\n", summarise(medians).median,
              summarise(worst).median);
  return report.finish(options);
}

}  // namespace
}  // namespace kith::bench

int main(int argc, char** argv) {
  const auto options =
      kith::bench::parse(argc, argv, "crowded", "What goes out while 2 x 1 GB come in, over UCX");
  try {
    return kith::bench::main_of(options);
  } catch (const std::exception& error) {
    std::cerr << "bench/crowded: " << error.what() << "\n";
    return 1;
  }
}
