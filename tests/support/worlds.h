#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/clock.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/registry.h"
#include "tests/support/processes.h"

namespace kith::support {

// A folder of one's own, gone at the end of the scope.
class TempFolder {
 public:
  std::filesystem::path path() const { return folder_.path(); }

 private:
  const kith::TempFolder folder_{"kith-test"};
};

inline Deadline in(Clock::Duration d) {
  return SteadyClock().now() + d;
}
// Long enough on a busy machine; a test that gets here has failed.
inline Deadline in_time() {
  return in(std::chrono::seconds(30));
}

// What a body gets: its place in the world.
struct Worker {
  int rank = 0;
  int size = 1;
  comm::Transport& transport;
  comm::Store& store;
  WorkerId id() const { return WorkerId{rank}; }
};

// Thrown by die() on a thread.
struct Departure {};

// Ends the calling worker in the middle of whatever it does: SIGKILL for a process; a thread leaves its body,
// and its transport with it. run_world does not count it as a failure.
[[noreturn]] inline void die(Worker& worker) {
  if (worker.transport.backend() == "inproc") throw Departure{};
  worker.store.set(cat("died/", worker.rank), "");
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

// Returns something for the test to compare; may use EXPECT_*.
using WorkerBody = std::function<std::string(Worker&)>;

inline comm::TransportOptions transport_options(int rank, int workers, comm::Store& store) {
  comm::TransportOptions options;
  options.self = WorkerId{rank};
  options.workers = Members::first(workers).workers;
  options.store = &store;
  return options;
}

// `machines`: which machine each worker pretends to be on.
inline std::vector<std::string> run_threads(int workers, const WorkerBody& body,
                                            std::vector<int> machines = {}) {
  const auto world = comm::InprocWorld::create(workers, std::move(machines));
  comm::MemoryStore store;
  std::vector<std::string> reports(static_cast<std::size_t>(workers));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        comm::TransportOptions options = transport_options(rank, workers, store);
        options.world = world;
        const auto transport = comm::make_transport("inproc", options);
        Worker worker{rank, workers, *transport, store};
        reports[static_cast<std::size_t>(rank)] = body(worker);
      } catch (const Departure&) {
      } catch (const std::exception& e) {
        ADD_FAILURE() << "worker " << rank << " threw: " << e.what();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return reports;
}

// Whether what a worker publishes has to travel, so that it is gone when the worker dies too early.
inline bool travels(std::string_view backend) {
  return backend == "ucx" || backend == "routed";
}

// The backends that work here.
inline std::vector<std::string> process_backends() {
  std::vector<std::string> names;
  for (const comm::Backend& backend : comm::backends()) {
    if (backend.name != "inproc" && backend.obstacle().empty()) names.emplace_back(backend.name);
  }
  return names;
}
inline std::vector<std::string> all_backends() {
  std::vector<std::string> names = process_backends();
  names.insert(names.begin(), "inproc");
  return names;
}

// The backend shm as it is on kernels before Linux 5.16.
inline constexpr std::string_view kPlainShm = "shm_plain";
// For the tests of windows: the backends, and shm in both forms.
inline std::vector<std::string> with_plain_shm(std::vector<std::string> names) {
  names.emplace_back(kPlainShm);
  return names;
}

inline std::vector<std::string> network_backends() {
  std::vector<std::string> names = process_backends();
  std::erase_if(names, [](const std::string& name) { return !travels(name); });
  return names;
}

// The body of process `rank` of a world whose workers meet in `folder`. Over the network they use the
// loopback; the "routed" ones pretend that even and odd ranks are on two machines, with two lanes between
// them.
inline std::string run_process(std::string_view backend, int rank, int workers,
                               const std::filesystem::path& folder, const WorkerBody& body) {
  comm::FileStore store(folder);
  comm::TransportOptions options = transport_options(rank, workers, store);
  options.plain_futexes = backend == kPlainShm;
  options.network.interface = "lo";
  options.network.secret = "a secret of tests";
  if (backend == "routed") {
    options.network.machine = rank % 2 == 0 ? "even" : "odd";
    options.network.lanes = 2;
  }
  const auto transport = comm::make_transport(options.plain_futexes ? "shm" : backend, options);
  Worker worker{rank, workers, *transport, store};
  return body(worker);
}

inline std::vector<std::string> run_processes(std::string_view backend, int workers, const WorkerBody& body,
                                              Clock::Duration limit) {
  const TempFolder folder;
  Processes processes(workers,
                      [&](int rank) { return run_process(backend, rank, workers, folder.path(), body); });
  std::vector<std::string> reports;
  comm::FileStore store(folder.path());
  for (const Ending& ending : processes.join(limit)) {
    const bool meant = ending.signal == SIGKILL && store.get(cat("died/", reports.size()));
    EXPECT_TRUE(ending.good() || meant)
        << "worker " << reports.size() << ": exit code " << ending.exit_code << ", signal " << ending.signal
        << (ending.timed_out ? ", timed out" : "") << ": " << ending.report;
    reports.push_back(ending.report);
  }
  return reports;
}

// Runs the body once per worker, on threads ("inproc") or in forked processes (the rest), and returns what
// they returned, by rank. Failures of any worker are failures of the test. REQUIRES: no other thread runs,
// for processes.
inline std::vector<std::string> run_world(std::string_view backend, int workers, const WorkerBody& body,
                                          Clock::Duration limit = std::chrono::seconds(60)) {
  return backend == "inproc" ? run_threads(workers, body) : run_processes(backend, workers, body, limit);
}

}  // namespace kith::support
