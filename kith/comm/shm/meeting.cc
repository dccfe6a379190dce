#include "kith/comm/shm/meeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/wait_note.h"
#include "kith/comm/mapped/window.h"

namespace kith::comm::shm {
namespace {

// Losses and new addresses have no descriptor to poll; while a
// window is being opened they are asked for this often.
constexpr Clock::Duration kPollStep = std::chrono::milliseconds(5);
constexpr Clock::Duration kSecondLook = std::chrono::milliseconds(100);
// After the hello a message is one of these letters and what belongs to it.
constexpr char kWant = 'w';    // Head, the name of the window
constexpr char kLife = 'l';    // its life segment
constexpr char kMemory = 'm';  // the name of the window, its control block and its payload
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

std::shared_ptr<const Descriptor> duplicate(int fd) {
  auto copy = std::make_shared<const Descriptor>(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!*copy) fail("cannot duplicate a descriptor", "backend shm");
  return copy;
}

}  // namespace

std::string Meeting::key(WorkerId worker) {
  return cat("shm/", worker.value);
}

Meeting::Meeting(mapped::Context& context, Store& store, Life& life)
    : context_(context),
      store_(store),
      life_(life),
      own_life_(duplicate(life.descriptor().get())),
      workers_digest_(context.workers_digest()),
      peers_(context.workers().size()) {
  store_.set(key(context_.self()), listener_.address());
}

void Meeting::greet(Channel& channel) {
  Hello hello;
  hello.worker = context_.self().value;
  hello.workers_digest = workers_digest_;
  channel.send(to_bytes(hello));
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
  if (packet.bytes.size() < sizeof(Hello)) {
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
  return index;
}

std::optional<Memory> Meeting::receive_from(int index, const std::string& window) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  const std::string place = cat(context_.self(), " meets ", context_.worker(index));
  std::optional<Memory> memory;
  peer.channel->flush();
  while (auto packet = peer.channel->receive()) {
    if (!peer.greeted) {
      welcome(*packet);
      peer.greeted = true;
      continue;
    }
    const char kind = packet->bytes.empty() ? '\0' : packet->bytes.front();
    const std::string_view rest = std::string_view(packet->bytes).substr(packet->bytes.empty() ? 0 : 1);
    std::vector<Descriptor>& files = packet->descriptors;
    if (kind == kWant && rest.size() >= sizeof(protocol::Head)) {
      peer.wanted.emplace(rest.substr(sizeof(protocol::Head)), from_bytes<protocol::Head>(rest));
    } else if (kind == kLife && files.size() == 1) {
      life_.watch(index, files[0], context_.self_index(), place);
    } else if (kind == kMemory && files.size() == 2) {
      // Of another window only where this worker gave up opening that one.
      if (rest == window) memory = Memory{std::move(files[0]), std::move(files[1])};
    } else {
      throw InputError(
          cat("a message of ", packet->bytes.size(), " bytes and ", files.size(), " descriptors"), place,
          kRemedy);
    }
  }
  return memory;
}

void Meeting::offer(const Offer& own, const Shared& control, const Shared& payload, int index,
                    Progress& progress) {
  Peer& peer = peers_[static_cast<std::size_t>(index)];
  if (!std::exchange(progress.told, true)) peer.channel->send(kWant + to_bytes(own.head) + own.window.name);
  const auto wanted = peer.wanted.find(own.window.name);
  if (progress.handed || wanted == peer.wanted.end()) return;
  const protocol::Head theirs = peer.wanted.extract(wanted).mapped();
  protocol::check_same(own.window.name, context_.self(), own.head, context_.worker(index), theirs);
  if (!std::exchange(peer.watched, true)) peer.channel->send({kLife}, {own_life_});
  peer.channel->send(kMemory + own.window.name, {control, payload});
  progress.handed = true;
}

void Meeting::exchange(const Offer& own, const std::vector<int>& peers, const Take& take, Deadline deadline) {
  mapped::WaitNote note(context_, own.window.name);
  const Shared control = duplicate(own.control), payload = duplicate(own.payload);
  std::map<int, Progress> progress;
  for (int index : peers)
    progress[index];
  std::optional<Deadline> look_until;
  for (;;) {
    accept_all();
    std::optional<int> waited_for, first_lost;
    for (auto& [index, at] : progress) {
      Peer& peer = peers_[static_cast<std::size_t>(index)];
      if (!peer.channel && index < context_.self_index()) try_connect(index);
      // Asked before receiving: what a peer sent before it was lost still counts.
      const bool lost = context_.liveness().lost(index);
      if (peer.channel) {
        const std::optional<Memory> memory = receive_from(index, own.window.name);
        offer(own, control, payload, index, at);
        if (memory) take(index, *memory);
        at.taken = at.taken || memory;
      }
      if (!at.taken && (lost || (peer.channel && peer.channel->ended())) && !first_lost) first_lost = index;
      const bool done = at.taken && at.handed && !peer.channel->has_unsent();
      if (!done && !waited_for) waited_for = index;
    }
    if (!waited_for) return;
    if (first_lost) {
      // Somebody who left because of a death may be seen to leave before the death is.
      if (!look_until) look_until = SteadyClock().now() + kSecondLook;
      if (SteadyClock().now() >= *look_until) {
        throw Error(cat(context_.worker(*first_lost), " is lost"),
                    cat(context_.self(), " opens window '", own.window.name, "'"),
                    "open it among those who are left");
      }
    }
    mapped::check_going_on(own.window, cat(context_.self(), " opens window '", own.window.name, "'"));
    if (SteadyClock().now() >= deadline) give_up(own.window.name, peers, *waited_for);
    note.explain("waits for", *waited_for);
    sleep(peers, deadline);
  }
}

void Meeting::give_up(const std::string& window, const std::vector<int>& peers, int waited_for) const {
  const std::string place = cat(context_.self(), " opens window '", window, "'");
  const bool crowded = std::any_of(peers.begin(), peers.end(), [&](int index) {
    const auto& channel = peers_[static_cast<std::size_t>(index)].channel;
    return channel && channel->crowded();
  });
  if (crowded)
    throw Error("too many descriptors of this user are under way between processes", place,
                raise_descriptors());
  throw Error(cat(context_.worker(waited_for), " has not opened it before the deadline"), place,
              "every worker must open the same windows in the same order");
}

void Meeting::sleep(const std::vector<int>& peers, Deadline deadline) const {
  std::vector<pollfd> files{{listener_.fd(), POLLIN, 0}};
  for (const Channel& stranger : strangers_)
    files.push_back({stranger.fd(), POLLIN, 0});
  for (int index : peers) {
    const auto& channel = peers_[static_cast<std::size_t>(index)].channel;
    if (!channel || channel->ended()) continue;
    const bool writes = channel->has_unsent() && !channel->crowded();
    files.push_back({channel->fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  const auto left =
      std::clamp<Clock::Duration>(deadline - SteadyClock().now(), Clock::Duration(0), kPollStep);
  ::poll(files.data(), files.size(),
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace kith::comm::shm
