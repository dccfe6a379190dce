#include "kith/comm/shm/machine.h"

#include <map>
#include <utility>

#include "kith/base/text.h"

namespace kith::comm::shm {
namespace {

using protocol::Control;
using protocol::Head;

int with_room_for(std::size_t workers) {
  // A connection to each; besides, this worker's own sockets and segments, and those that come and go.
  constexpr std::size_t kBesides = 32;
  make_room(workers + kBesides, cat("backend shm, ", workers, " workers"));
  return static_cast<int>(workers);
}

std::shared_ptr<const void> keep(const Segment& control, const Payload& payload, const Head& head,
                                 const PinMemory& pin) {
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      control.memory(), pinned(payload.memory, {payload.data, protocol::payload_size(head)}, pin));
}

}  // namespace

OwnMemory make_memory(const WindowOptions& options, const mapped::Context& context, PayloadMemory& payloads) {
  const std::string label = cat("kith ", context.self().value, " ", options.name);
  const std::vector<int> readers = context.indices_of(options.peers);
  const Head head =
      Head::of(options, static_cast<int>(context.workers().size())).with_readers(readers.size());
  Segment control = Segment::create(label, Control::size_of(head), Sharing::read_write);
  Payload payload = payloads.create(label, protocol::payload_size(head));
  mapped::Block block{Control::create(control.data(), head, readers), payload.data,
                      keep(control, payload, head, options.pin)};
  return {std::move(control), std::move(payload), std::move(block)};
}

Machine::Machine(mapped::Context& context, Store& store, Life::Watching watching)
    : context_(context),
      life_(
          with_room_for(context.workers().size()),
          [this](int worker, bool died) { report_lost(worker, died); }, watching),
      meeting_(context, store, life_) {}

void Machine::report_lost(int worker, bool died) {
  if (!context_.liveness().mark_lost(worker)) return;
  if (died) {
    context_.log().warning(cat(context_.self(), ": ", context_.worker(worker), " died"));
  } else {
    context_.log().debug(cat(context_.self(), ": ", context_.worker(worker), " closed its transport"));
  }
}

void Machine::heed_end(int peer) {
  if (!life_.watches(peer)) report_lost(peer, true);
}

std::vector<mapped::PeerBlock> Machine::open(const WindowOptions& window, const OwnMemory& own,
                                             const std::vector<int>& indices, PayloadMemory& payloads,
                                             Deadline deadline, const Elsewhere& elsewhere) {
  const Head& head = own.block.control.head();
  std::lock_guard lock(open_mutex_);
  std::map<int, mapped::PeerBlock> blocks;
  const auto map_theirs = [&](int index, const Memory& theirs) {
    const std::string place =
        cat(context_.self(), " opens window '", window.name, "' of ", context_.worker(index));
    // Alike but for the readers, of which there are as many as workers at most.
    const std::size_t size = Control::size_of(theirs.head);
    const Segment words = Segment::map(theirs.control, size, Sharing::read_write, place);
    const Payload data = payloads.map(theirs.payload, protocol::payload_size(head), place);
    const mapped::Block block{Control::view(words.data(), theirs.head), data.data,
                              keep(words, data, head, window.pin)};
    blocks.emplace(index, mapped::PeerBlock{index, block});
  };
  meeting_.exchange({window, head, own.control.descriptor().get(), own.payload.descriptor.get(), elsewhere},
                    indices, map_theirs, deadline);
  std::vector<mapped::PeerBlock> peers;
  for (auto& [index, block] : blocks)
    peers.push_back(std::move(block));
  return peers;
}

}  // namespace kith::comm::shm
