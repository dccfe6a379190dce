#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kith/comm/registry.h"
#include "kith/comm/transport.h"

namespace kith::comm {

class InprocWorld;

// A worker's end of another transport, among `workers`. All of them make it under the same name, and no two
// have one name. Blocks as long as making a transport of that backend does; Error as there.
using MakeGeneration =
    std::function<std::shared_ptr<Transport>(const std::string& name, const std::vector<WorkerId>& workers)>;

// Among processes: they find each other in `options.store`, under the name. `options.workers` is not looked
// at, and what the options refer to outlives the transports.
MakeGeneration generations_of_processes(std::string backend, TransportOptions options);

// What the threads of one process share, to make generations of it.
class InprocGenerations {
 public:
  // The world of that name; whoever comes first makes it.
  std::shared_ptr<InprocWorld> world(const std::string& name, const std::vector<WorkerId>& workers);

 private:
  std::mutex mutex_;  // guards worlds_
  std::map<std::string, std::shared_ptr<InprocWorld>> worlds_;
};
MakeGeneration generations_of_threads(std::shared_ptr<InprocGenerations> shared, WorkerId self,
                                      Log* log = nullptr);

// A transport whose workers may become others. The list of workers of a transport is fixed, so for another
// list there is another transport, a *generation*: made beside the one in use, while that one works, and
// moved to when everybody has it. This one is always the generation that was moved to last; windows that are
// open stay where they are.
class ExtensibleTransport final : public Transport {
 public:
  ExtensibleTransport(std::shared_ptr<Transport> first, MakeGeneration make);
  ~ExtensibleTransport() override;
  ExtensibleTransport(const ExtensibleTransport&) = delete;
  ExtensibleTransport& operator=(const ExtensibleTransport&) = delete;

  // Makes a generation. It is not in use before move_to, and ends when the caller lets go of it.
  std::shared_ptr<Transport> extend(const std::string& name, const std::vector<WorkerId>& workers) const;
  // From now on this transport is that one. The one before stays open until the next move, because others may
  // still be in it. REQUIRES: by the move after, no window of it is open.
  void move_to(std::shared_ptr<Transport> generation);

  std::string_view backend() const override { return backend_; }
  WorkerId self() const override { return self_; }
  // Of the generation in use; the reference stays valid.
  const std::vector<WorkerId>& workers() const override;
  const std::vector<int>& machines() const override;
  bool device_windows() const override;
  std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) override;
  // As the latest generation says that has the peer. True of one that is in none: it was gone before this
  // worker came.
  bool lost(WorkerId peer) const override;
  // Of all generations together.
  Ledger ledger() const override;

 private:
  struct Generation {
    std::shared_ptr<Transport> transport;  // null once it has ended
    std::vector<WorkerId> workers;
    std::vector<int> machines;
    Ledger ledger;  // when it ended
  };
  void add(std::shared_ptr<Transport> transport);
  // REQUIRES: mutex_.
  std::shared_ptr<Transport> current() const { return generations_.back().transport; }

  const WorkerId self_;
  const std::string backend_;
  const MakeGeneration make_;
  mutable std::mutex mutex_;            // guards what follows
  std::deque<Generation> generations_;  // the last one is in use; their addresses stay
  std::jthread ending_;                 // a generation: it may take a second
};

}  // namespace kith::comm
