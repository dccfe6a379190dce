#include "kith/comm/shm/machine.h"

#include <utility>

#include "kith/base/text.h"

namespace kith::comm::shm {
namespace {

using protocol::Control;
using protocol::Head;

std::shared_ptr<const void> keep(const Segment& control, const Payload& payload, const Head& head,
                                 const PinMemory& pin) {
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      control.memory(), pinned(payload.memory, {payload.data, protocol::payload_size(head)}, pin));
}

}  // namespace

OwnMemory make_memory(const WindowOptions& options, const Head& head, WorkerId self,
                      PayloadMemory& payloads) {
  const std::string label = cat("kith ", self.value, " ", options.name);
  Segment control = Segment::create(label, Control::size_of(head), Sharing::read_write);
  Payload payload = payloads.create(label, protocol::payload_size(head));
  mapped::Block block{Control::create(control.data(), head), payload.data,
                      keep(control, payload, head, options.pin)};
  return {std::move(control), std::move(payload), std::move(block)};
}

Machine::Machine(mapped::Context& context, Store& store)
    : context_(context),
      life_(static_cast<int>(context.workers().size()),
            [this](int worker, bool died) { report_lost(worker, died); }),
      meeting_(context, store, life_) {}

void Machine::report_lost(int worker, bool died) {
  if (!context_.liveness().mark_lost(worker)) return;
  if (died) {
    context_.log().warning(cat(context_.self(), ": ", context_.worker(worker), " died"));
  } else {
    context_.log().debug(cat(context_.self(), ": ", context_.worker(worker), " closed its transport"));
  }
}

std::vector<mapped::PeerBlock> Machine::open(const WindowOptions& window, const OwnMemory& own,
                                             const std::vector<int>& indices, PayloadMemory& payloads,
                                             Deadline deadline) {
  const Head& head = own.block.control.head();
  std::lock_guard lock(open_mutex_);
  const auto announcements = meeting_.exchange(
      window.name, {head, own.control.descriptor().get(), own.payload.descriptor.get()}, indices, deadline);
  std::vector<mapped::PeerBlock> peers;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Announcement& theirs = announcements[i];
    const WorkerId peer = context_.worker(indices[i]);
    const std::string place = cat(context_.self(), " opens window '", window.name, "' of ", peer);
    protocol::check_same(window.name, context_.self(), head, peer, theirs.head);
    const Segment words = Segment::map(theirs.control, Control::size_of(head), Sharing::read_write, place);
    const Payload data = payloads.map(theirs.payload, protocol::payload_size(head), place);
    peers.push_back(
        {indices[i], {Control::view(words.data(), head), data.data, keep(words, data, head, window.pin)}});
  }
  return peers;
}

}  // namespace kith::comm::shm
