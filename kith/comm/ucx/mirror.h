#pragma once

#include <memory>
#include <vector>

#include "kith/comm/mapped/window.h"
#include "kith/comm/ucx/message.h"
#include "kith/comm/ucx/staging.h"

namespace kith::comm::ucx {

// A writer's block as a reader on another machine holds it: the control words, of this one reader, and
// staging for the parts that have come. The reader's side (MappedWindow) uses block() from its own threads,
// as if the writer had mapped it; all other members are for the thread that takes the messages.
class Mirror {
 public:
  // `self` is the index of the reader. The pool outlives every call but the destructor.
  Mirror(const protocol::Head& head, int self, Staging staging);

  mapped::Block block() const;

  // Whether a message of the writer may be believed.
  bool plausible(const DataHeader& header, std::size_t stripe_bytes) const;
  // Where this stripe goes; null when its version is no longer wanted. REQUIRES: plausible.
  std::byte* place(const DataHeader& header);
  // So much of v has come; true when that was the rest. Makes it visible when everything sent before it has
  // come too; wakes who waits for it.
  bool filled(protocol::Word v, std::size_t bytes);
  // v will not come: it was left out, or published for others.
  void note_absent(protocol::Word v, Kind verdict);

  // The reader's words have changed: takes back the staging of what it is past, or no longer looks at.
  void collect();
  protocol::Word past() const { return reader().past.load(); }
  // Latest mode: v or something later is there to be pinned.
  bool has(protocol::Word v) const;

 private:
  struct Coming {
    DataHeader header;
    Buffer buffer;
    std::uint64_t missing = 0;  // bytes
  };
  // What the reader's threads see too; windows keep it alive.
  struct Shared {
    Shared(const protocol::Head& head, int self);
    std::unique_ptr<std::byte[]> words;
    protocol::Control control;
    std::vector<Buffer> buffers;           // by slot
    std::vector<const std::byte*> staged;  // by slot
  };

  bool latest() const;
  const protocol::Reader& reader() const { return shared_->control.reader(self_); }
  // The reader has given up on v; in latest mode, has left.
  bool unwanted(protocol::Word v) const;
  // True when nobody can look at that slot (any more): it has then no staging.
  bool vacate(int slot);
  // Makes visible what can be, in the order it was sent.
  void publish_complete();
  void show(Coming& coming);
  void raise_newest(protocol::Word v);

  const int self_;
  const Staging staging_;
  const std::shared_ptr<Shared> shared_;
  std::vector<Coming> coming_;                // in no order
  protocol::Word last_ = protocol::kNothing;  // the latest of those sent that was shown or dropped
};

}  // namespace kith::comm::ucx
