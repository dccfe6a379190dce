#include "kith/comm/inproc/transport.h"

#include <cstring>
#include <new>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"

namespace kith::comm {
namespace {

using protocol::Control;
using protocol::Head;

// The payload begins and ends with a page.
mapped::Block make_block(const Head& head, std::span<const int> readers, const PinMemory& pin) {
  const std::size_t control_bytes = whole_pages(Control::size_of(head));
  const std::size_t payload_bytes = whole_pages(protocol::payload_size(head));
  const auto free = [](std::byte* p) { ::operator delete (p, std::align_val_t{kPinPage}); };
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new (control_bytes + payload_bytes, std::align_val_t{kPinPage})),
      free);
  std::byte* const payload = memory.get() + control_bytes;
  std::memset(payload, 0, payload_bytes);  // as fresh shared memory is
  return {Control::create(memory.get(), head, readers), payload,
          pinned(memory, {payload, payload_bytes}, pin)};
}

}  // namespace

InprocTransport::InprocTransport(std::shared_ptr<InprocWorld> world, std::shared_ptr<mapped::Context> context)
    : world_(std::move(world)), context_(std::move(context)) {}

InprocTransport::~InprocTransport() {
  world_->leave(context_->self_index());
}

std::unique_ptr<Window> InprocTransport::open(const WindowOptions& asked, Deadline deadline) {
  WindowOptions options = mapped::checked(asked, *context_);
  const std::vector<int> readers = context_->indices_of(options.peers);
  const Head head = Head::of(options, static_cast<int>(workers().size())).with_readers(readers.size());
  const mapped::Block own = make_block(head, readers, options.pin);
  for (WorkerId peer : options.peers) {
    world_->post(context_->self_index(), context_->index_of(peer), options.name, own);
  }
  std::vector<mapped::PeerBlock> peers;
  for (WorkerId peer : options.peers) {
    const int index = context_->index_of(peer);
    mapped::Block block = world_->take(*context_, index, options, deadline);
    protocol::check_same(options.name, self(), head, peer, block.control.head());
    peers.push_back({index, std::move(block)});
  }
  return std::make_unique<mapped::MappedWindow>(context_, std::move(options), own, std::move(peers));
}

bool InprocTransport::lost(WorkerId peer) const {
  const int index = context_->index_of(peer);
  KITH_CHECK(index >= 0, cat(peer, " is not a worker of this transport"));
  return context_->liveness().lost(index);
}

}  // namespace kith::comm
