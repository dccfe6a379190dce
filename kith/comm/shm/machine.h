#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kith/comm/mapped/window.h"
#include "kith/comm/shm/life.h"
#include "kith/comm/shm/meeting.h"
#include "kith/comm/shm/payload.h"
#include "kith/comm/shm/segment.h"

namespace kith::comm::shm {

// A worker's own memory behind a window, ready to be mapped by others of this machine.
struct OwnMemory {
  Segment control;
  Payload payload;
  mapped::Block block;
};
// `options` are checked; `context` of the transport.
OwnMemory make_memory(const WindowOptions& options, const mapped::Context& context, PayloadMemory& payloads);

// The peers on this worker's machine: finds them, maps their windows, and marks them lost (Note [Life]).
class Machine {
 public:
  // Publishes this worker's address. Both must outlive it. Error when the kernel lacks what is needed, or
  // lets this process open too few files for so many workers.
  Machine(mapped::Context& context, Store& store, Life::Watching watching);

  // Shows `own` to the peers (ascending indices) and maps theirs. Fails as Transport::open does, also when
  // one of the peers elsewhere is lost.
  std::vector<mapped::PeerBlock> open(const WindowOptions& window, const OwnMemory& own,
                                      const std::vector<int>& peers, PayloadMemory& payloads,
                                      Deadline deadline, const Elsewhere& elsewhere = {});

  // That worker is said to have ended. Of one that was met the kernel tells, and it may have been stopped for
  // so long that the store took it for dead: then the word does not count.
  void heed_end(int peer);

 private:
  void report_lost(int worker, bool died);

  mapped::Context& context_;
  Life life_;
  std::mutex open_mutex_;  // guards meeting_: windows are opened one after the other
  Meeting meeting_;
};

}  // namespace kith::comm::shm
