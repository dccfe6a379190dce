#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/comm/ledger.h"
#include "kith/comm/window.h"

namespace kith::comm {

// One worker's end of a world: opens windows and knows who is alive. Code above `comm` sees only this, Window
// and Store, and cannot tell the backends apart. Safe from any thread.
//
// Destruction takes a second at most, whatever the peers do: what was published last is still sent to those
// on other machines, for a part of that time.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view backend() const = 0;  // "inproc", "shm", ...
  virtual WorkerId self() const = 0;
  virtual const std::vector<WorkerId>& workers() const = 0;  // everybody, oneself included, ascending

  // The machine each worker is on, parallel to workers(); machines are numbered from 0 by their first worker.
  virtual const std::vector<int>& machines() const = 0;

  // True when windows can lie in device memory (WindowMemory::device): all its workers reach each other's.
  virtual bool device_windows() const { return false; }

  // Opens a window together with its peers: returns when each of them has opened the same name.
  // REQUIRES: every worker opens the same windows in the same order.
  // InputError when a peer's window differs in size, slots, mode or digest, or when the peer speaks another
  // version of the protocol (names both sides); Error when a peer does not come before the deadline or is
  // lost, or when the opening is cancelled; the name must then not be opened again.
  virtual std::unique_ptr<Window> open(const WindowOptions& options, Deadline deadline) = 0;

  // True once the peer is known to be gone. Never becomes false again.
  virtual bool lost(WorkerId peer) const = 0;

  // Bytes and waits so far, per peer. A snapshot.
  virtual Ledger ledger() const = 0;
};

}  // namespace kith::comm
