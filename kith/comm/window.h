#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kith/base/pin.h"
#include "kith/comm/cancellation.h"
#include "kith/comm/outcome.h"

namespace kith::comm {

// scheduled  the writer names the readers of each version (they know it from the schedule): two slots suffice
// latest     anybody may pin the newest version at any time: at least three slots
enum class WindowMode : std::uint8_t { scheduled, latest };

// Where the payload lies. Device memory is for transports that have it (Transport::device_windows): slots and
// arrivals are then addresses of the device, which the host hands on and never looks at. publish() follows
// when the device has written the slot, and an arrival is released when the device has read it.
enum class WindowMemory : std::uint8_t { host, device };

struct WindowOptions {
  std::string name;       // the same on every worker, unique in a transport: "bucket3", "bucket3/tracker"
  std::size_t bytes = 0;  // payload capacity of a slot
  int slots = 2;          // >= 2 scheduled, >= 3 latest
  WindowMode mode = WindowMode::scheduled;
  WindowMemory memory = WindowMemory::host;
  std::uint64_t shape_digest = 0;    // of what will be published (sizes, dtypes, names)
  std::vector<WorkerId> peers = {};  // with whom it is shared; empty: everybody in the transport
  // Host memory only: for every block in which slots and arrivals lie. The same on every worker: set or not.
  PinMemory pin = {};
  // Ends this worker's waits in the window, and its opening, early; null: only deadlines do.
  std::shared_ptr<Cancellation> cancellation = {};
};

// A part of a payload.
struct Range {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct PublishOptions {
  std::size_t bytes = 0;  // of payload written, at most WindowOptions::bytes
  std::uint32_t codec = 0;
  double weight = 1;
  // Scheduled mode: exactly who will await this version. Ignored in latest mode.
  std::vector<WorkerId> readers = {};
  // Scheduled mode: the part of the payload that each reader gets, parallel to `readers`; empty: everybody
  // the whole. Only that part travels to readers on other machines.
  std::vector<Range> ranges = {};
  // When, for whoever draws the message's way; comparable among workers of one machine.
  Clock::Time time{};
};

// Memory in which this worker publishes numbered versions for its neighbours, and through which it reads
// theirs. Version v lies in slot v.step mod slots. Each reader keeps one monotone word per writer, "past v";
// it advances when the reader releases v and when it gives up on v. A slot is free when every named reader is
// past what it holds, or lost.
//
// Threads: the writing members (slot, begin, publish) by one thread at a
// time, the reading members (await, newest, skip) by one thread at a time;
// the two may differ. Arrivals must be gone before the window is destroyed,
// and waits have ended: whoever owns both a window and a thread that waits in
// it cancels first (WindowOptions::cancellation). Destruction itself never waits.
class Window {
 public:
  virtual ~Window() = default;

  virtual const WindowOptions& options() const = 0;
  bool cancelled() const { return options().cancellation && options().cancellation->cancelled(); }

  // The memory of v's slot, 64-byte aligned, stable for the life of the window. Its owner may read it at any
  // time and may write it between begin(v) and publish(v).
  virtual std::span<std::byte> slot(Version v) = 0;

  // Waits until v's slot is free for writing (back-pressure). Late names a
  // reader that still holds it; nothing has changed then, and begin may be
  // called again, for v or for a later version (which lies in another slot).
  virtual std::variant<std::span<std::byte>, Late> begin(Version v, Deadline deadline) = 0;

  // Makes v visible to its readers. REQUIRES: begin(v)
  // succeeded; v is later than everything published before.
  virtual void publish(Version v, const PublishOptions& options) = 0;

  // Scheduled mode. Waits for `peer` to publish v. REQUIRES: the peer names this worker
  // among v's readers; versions of one peer are awaited (or skipped) in increasing order,
  // each at most once. A version published before the peer was lost still arrives (from
  // another machine: unless the peer died before it was sent). Late
  // at once when the peer has gone on to a later version without publishing v.
  virtual Outcome await(WorkerId peer, Version v, Deadline deadline) = 0;

  // Latest mode. Pins the newest version of `peer` that is later than `after` (any version, where nothing is
  // given), waiting for one if there is none. A peer on another machine is asked for it, so what it published
  // is gone with it. REQUIRES: no other arrival of that peer is held.
  virtual Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) = 0;

  // Past v without reading it: what a reader does that decided not to take part in a round. Never waits.
  virtual void skip(WorkerId peer, Version v) = 0;
};

}  // namespace kith::comm
