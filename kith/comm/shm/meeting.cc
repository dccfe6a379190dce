#include "kith/comm/shm/meeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <poll.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/wait_note.h"

namespace kith::comm::shm {
namespace {

// Losses and new addresses have no descriptor to poll; while a
// window is being opened they are asked for this often.
constexpr Clock::Duration kPollStep = std::chrono::milliseconds(5);
constexpr std::string_view kRemedy = "run the same build of kith on every worker";

template <class T>
std::string to_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// REQUIRES: at least sizeof(T) bytes.
template <class T>
T from_bytes(std::string_view bytes) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
  return value;
}

}  // namespace

std::string Meeting::key(WorkerId worker) {
  return cat("shm/", worker.value);
}

Meeting::Meeting(mapped::Context& context, Store& store, Life& life)
    : context_(context),
      store_(store),
      life_(life),
      workers_digest_(context.workers_digest()),
      peers_(context.workers().size()) {
  store_.set(key(context_.self()), listener_.address());
}

void Meeting::greet(Channel& channel) {
  Hello hello;
  hello.worker = context_.self().value;
  hello.workers_digest = workers_digest_;
  channel.send(to_bytes(hello), {life_.descriptor().get()});
}

void Meeting::try_connect(int peer) {
  const auto address = store_.get(key(context_.worker(peer)));
  if (!address) return;
  auto channel = connect(*address);
  if (!channel) return;
  greet(*channel);
  peers_[static_cast<std::size_t>(peer)].channel = std::move(channel);
}

void Meeting::accept_all() {
  while (auto channel = listener_.accept()) {
    greet(*channel);
    strangers_.push_back(std::move(*channel));
  }
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const auto packet = stranger->receive();
    if (!packet && !stranger->ended()) {
      ++stranger;
      continue;
    }
    if (packet) {
      Peer& peer = peers_[static_cast<std::size_t>(welcome(*packet))];
      peer.channel = std::move(*stranger);
      peer.greeted = true;
    }
    stranger = strangers_.erase(stranger);
  }
}

int Meeting::welcome(const Packet& packet) {
  const std::string place = cat(context_.self(), " meets another worker");
  if (packet.bytes.size() < sizeof(Hello) || packet.descriptors.size() != 1) {
    throw InputError(cat("a hello of ", packet.bytes.size(), " bytes"), place, kRemedy);
  }
  const auto hello = from_bytes<Hello>(packet.bytes);
  if (hello.magic != protocol::kMagic) {
    throw InputError(cat("its magic is ", hello.magic, ", this worker's ", protocol::kMagic), place, kRemedy);
  }
  const WorkerId id{hello.worker};
  if (hello.protocol != protocol::kProtocol) {
    throw InputError(cat(id, " speaks protocol version ", hello.protocol, ", ", context_.self(), " version ",
                         protocol::kProtocol),
                     place, kRemedy);
  }
  const int index = context_.index_of(id);
  if (index < 0 || index == context_.self_index() || hello.workers_digest != workers_digest_) {
    throw InputError(cat(id, " belongs to another list of workers than ", context_.self()), place,
                     "give every worker the same list");
  }
  life_.watch(index, packet.descriptors[0], context_.self_index(), place);
  return index;
}

void Meeting::receive_from(int index) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  peer.channel->flush();
  while (auto packet = peer.channel->receive()) {
    if (!peer.greeted) {
      welcome(*packet);
      peer.greeted = true;
      continue;
    }
    if (packet->bytes.size() < sizeof(protocol::Head) || packet->descriptors.size() != 2) {
      throw InputError(cat("an announcement of ", packet->bytes.size(), " bytes"),
                       cat(context_.self(), " meets ", context_.worker(index)), kRemedy);
    }
    peer.announced.emplace(
        packet->bytes.substr(sizeof(protocol::Head)),
        Announcement{from_bytes<protocol::Head>(packet->bytes), std::move(packet->descriptors[0]),
                     std::move(packet->descriptors[1])});
  }
}

std::vector<Announcement> Meeting::exchange(const std::string& window, const Offer& own,
                                            const std::vector<int>& peers, Deadline deadline) {
  mapped::WaitNote note(context_, window);
  std::map<int, Announcement> gathered;
  std::vector<int> untold = peers;
  for (;;) {
    accept_all();
    for (int index : peers) {
      Peer& peer = peers_[static_cast<std::size_t>(index)];
      if (!peer.channel && index < context_.self_index()) try_connect(index);
    }
    std::erase_if(untold, [&](int index) {
      Peer& peer = peers_[static_cast<std::size_t>(index)];
      if (peer.channel) peer.channel->send(to_bytes(own.head) + window, {own.control, own.payload});
      return peer.channel.has_value();
    });

    std::vector<int> missing;
    for (int index : peers) {
      Peer& peer = peers_[static_cast<std::size_t>(index)];
      // Asked before receiving: what a peer sent before it was lost still counts.
      const bool lost = context_.liveness().lost(index);
      if (peer.channel) receive_from(index);
      if (gathered.contains(index)) continue;
      if (const auto found = peer.announced.find(window); found != peer.announced.end()) {
        gathered.emplace(index, std::move(peer.announced.extract(found).mapped()));
      } else if (lost || (peer.channel && peer.channel->ended())) {
        throw Error(cat(context_.worker(index), " is lost"),
                    cat(context_.self(), " opens window '", window, "'"), "open it among those who are left");
      } else {
        missing.push_back(index);
      }
    }
    const bool all_sent = std::none_of(peers.begin(), peers.end(), [&](int index) {
      const auto& channel = peers_[static_cast<std::size_t>(index)].channel;
      return channel && channel->has_unsent();
    });
    if (missing.empty() && untold.empty() && all_sent) break;
    const int waited_for = missing.empty() ? peers.front() : missing.front();
    if (SteadyClock().now() >= deadline) {
      throw Error(cat(context_.worker(waited_for), " has not opened it before the deadline"),
                  cat(context_.self(), " opens window '", window, "'"),
                  "every worker must open the same windows in the same order");
    }
    note.explain("waits for", waited_for);
    sleep(peers, deadline);
  }
  std::vector<Announcement> ordered;
  for (int index : peers)
    ordered.push_back(std::move(gathered.at(index)));
  return ordered;
}

void Meeting::sleep(const std::vector<int>& peers, Deadline deadline) const {
  std::vector<pollfd> files{{listener_.fd(), POLLIN, 0}};
  for (const Channel& stranger : strangers_)
    files.push_back({stranger.fd(), POLLIN, 0});
  for (int index : peers) {
    const auto& channel = peers_[static_cast<std::size_t>(index)].channel;
    if (!channel || channel->ended()) continue;
    files.push_back(
        {channel->fd(), static_cast<short>(channel->has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
  }
  const auto left =
      std::clamp<Clock::Duration>(deadline - SteadyClock().now(), Clock::Duration(0), kPollStep);
  ::poll(files.data(), files.size(),
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace kith::comm::shm
