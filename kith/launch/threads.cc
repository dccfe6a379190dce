#include "kith/launch/threads.h"

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/registry.h"

namespace kith::launch {

void run_threads(int workers, const std::function<void(const World&)>& body, Log* log) {
  if (workers < 1) throw InputError(cat(workers, " workers"), "run_threads", "at least 1");
  StderrLog standard_error;
  if (log == nullptr) log = &standard_error;
  const auto store = std::make_shared<comm::MemoryStore>();
  comm::TransportOptions options;
  options.workers = Members::first(workers).workers;
  options.world = comm::InprocWorld::create(workers);
  options.log = log;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(workers));
  const auto run = [&](int rank) {
    try {
      comm::TransportOptions own = options;
      own.self = WorkerId{rank};
      body(World({.store = store, .transport = comm::make_transport("inproc", own), .log = log}));
    } catch (...) {
      failures[static_cast<std::size_t>(rank)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < workers; ++rank)
      threads.emplace_back(run, rank);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace kith::launch
