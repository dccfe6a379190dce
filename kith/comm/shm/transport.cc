#include "kith/comm/shm/transport.h"

#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/window.h"

namespace kith::comm {
namespace {

using protocol::Control;
using protocol::Head;
using shm::Payload;
using shm::Segment;
using shm::Sharing;

std::shared_ptr<const void> keep(const Segment& control, const Payload& payload) {
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      control.memory(), payload.memory);
}

}  // namespace

ShmTransport::ShmTransport(const TransportOptions& options)
    : ShmTransport(options, "shm", shm::host_payloads()) {}

ShmTransport::ShmTransport(const TransportOptions& options, std::string_view backend,
                           std::unique_ptr<shm::PayloadMemory> payloads)
    : backend_(backend),
      payloads_(std::move(payloads)),
      context_(
          std::make_shared<mapped::Context>(options.self, options.workers, options.log, options.long_wait)),
      life_(static_cast<int>(options.workers.size()),
            [this](int worker, bool died) { report_lost(worker, died); }),
      meeting_(*context_, *options.store, life_) {}

void ShmTransport::report_lost(int worker, bool died) {
  if (!context_->liveness().mark_lost(worker)) return;
  if (died) {
    context_->log().warning(cat(context_->self(), ": ", context_->worker(worker), " died"));
  } else {
    context_->log().debug(cat(context_->self(), ": ", context_->worker(worker), " closed its transport"));
  }
}

std::unique_ptr<Window> ShmTransport::open(const WindowOptions& asked, Deadline deadline) {
  WindowOptions options = mapped::checked(asked, *context_);
  const Head head = Head::of(options, static_cast<int>(workers().size()));
  const std::string label = cat("kith ", self().value, " ", options.name);
  const Segment control = Segment::create(label, Control::size_of(head), Sharing::read_write);
  const Payload payload = payloads_->create(label, protocol::payload_size(head));
  const mapped::Block own{Control::create(control.data(), head), payload.data, keep(control, payload)};

  std::vector<int> indices;
  for (WorkerId peer : options.peers)
    indices.push_back(context_->index_of(peer));
  std::lock_guard lock(open_mutex_);
  const auto announcements = meeting_.exchange(
      options.name, {head, control.descriptor().get(), payload.descriptor.get()}, indices, deadline);

  std::vector<mapped::PeerBlock> peers;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const shm::Announcement& theirs = announcements[i];
    const std::string place = cat(self(), " opens window '", options.name, "' of ", options.peers[i]);
    protocol::check_same(options.name, self(), head, options.peers[i], theirs.head);
    const Segment words = Segment::map(theirs.control, Control::size_of(head), Sharing::read_write, place);
    const Payload data = payloads_->map(theirs.payload, protocol::payload_size(head), place);
    peers.push_back({indices[i], {Control::view(words.data(), head), data.data, keep(words, data)}});
  }
  return std::make_unique<mapped::MappedWindow>(context_, std::move(options), own, std::move(peers));
}

bool ShmTransport::lost(WorkerId peer) const {
  const int index = context_->index_of(peer);
  KITH_CHECK(index >= 0, cat(peer, " is not a worker of this transport"));
  return context_->liveness().lost(index);
}

std::string shm_obstacle() {
  return shm::Life::obstacle();
}

}  // namespace kith::comm
