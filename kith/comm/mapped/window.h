#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kith/comm/mapped/context.h"
#include "kith/comm/mapped/link.h"
#include "kith/comm/protocol/reader.h"
#include "kith/comm/protocol/writer.h"
#include "kith/comm/window.h"

namespace kith::comm::mapped {

// One worker's block of a window as somebody sees it: control words and payload, and what keeps them mapped.
// The payload is writable by its owner only.
struct Block {
  protocol::Control control;
  std::byte* payload = nullptr;
  std::shared_ptr<const void> memory;
  // In a mirror there is no payload; by slot, where the part for this reader lies. Read while its version is
  // held.
  const std::byte* const* staged = nullptr;
};

struct PeerBlock {
  int worker = 0;  // index
  Block block;     // a mirror where it has `staged`: then the window needs a link
};

// A window over memory that its workers have mapped, or mirrored over a link: the protocol, plus sleeping,
// loss, ledger and log. Backends only find the memory, keep mirrors up to date and mark who is lost.
class MappedWindow final : public Window,
                           private Arrival::Releaser,
                           private Liveness::Listener,
                           private Cancellation::Listener {
 public:
  // `link` may be null where nobody is mirrored.
  MappedWindow(std::shared_ptr<Context> context, WindowOptions options, Block own,
               std::vector<PeerBlock> peers, std::shared_ptr<Link> link = nullptr);
  ~MappedWindow();
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;

  const WindowOptions& options() const override { return options_; }
  std::span<std::byte> slot(Version v) override;
  std::variant<std::span<std::byte>, Late> begin(Version v, Deadline deadline) override;
  void publish(Version v, const PublishOptions& options) override;
  Outcome await(WorkerId peer, Version v, Deadline deadline) override;
  Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override;
  void skip(WorkerId peer, Version v) override;

 private:
  struct Peer {
    Peer(int worker, Block memory, int self)
        : index(worker), block(std::move(memory)), port(block.control, self) {}
    bool mirrored() const { return block.staged != nullptr; }
    const int index;
    const Block block;
    protocol::ReaderPort port;
    protocol::Word last = protocol::kNothing;  // the version awaited or skipped last
  };

  void release(WorkerId peer, Version version) override;
  void on_lost(int worker) override;
  void on_cancel() override;

  // No wait goes on.
  bool over(Deadline deadline) const { return SteadyClock().now() >= deadline || cancelled(); }
  Peer& peer_of(WorkerId peer, std::string_view verb);
  // Scheduled mode: versions of a peer are taken in increasing order.
  void step_to(Peer& peer, protocol::Word v);
  Outcome arrive(Peer& peer, protocol::Word v);
  // This reader's words towards the peer have changed: whoever waits for them is told.
  void tell_freed(const Peer& peer);
  // Sleeps on the writer's board until `attempt` gives an outcome, the peer is lost or the deadline passes.
  template <class Attempt>
  Outcome read(Peer& peer, Version wanted, Deadline deadline, Attempt attempt);

  const std::shared_ptr<Context> context_;
  const WindowOptions options_;
  const Block own_;
  const std::shared_ptr<Link> link_;
  protocol::Writer writer_;
  std::map<int, Peer> peers_;  // by worker index; with whom it is shared
  std::vector<int> readers_;   // scratch of publish
};

// Checks what any backend would refuse, fills in the peers (everybody but oneself where none are named;
// ascending). InputError otherwise.
WindowOptions checked(WindowOptions options, const Context& context);

// Error naming `place` once the opening of a window with these options is cancelled.
void check_going_on(const WindowOptions& options, const std::string& place);

}  // namespace kith::comm::mapped
