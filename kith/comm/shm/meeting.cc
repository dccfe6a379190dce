#include "kith/comm/shm/meeting.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/wait_note.h"
#include "kith/comm/mapped/window.h"

namespace kith::comm::shm {
namespace {

// Losses and new addresses have no descriptor to poll; while a window is being opened they are asked for this
// often, and the longer nothing comes the more rarely: workers that wait leave the cores to those they wait
// for.
constexpr Clock::Duration kPollStep = std::chrono::milliseconds(5);
constexpr Clock::Duration kLongestPollStep = std::chrono::milliseconds(40);
// When a peer that has not come is looked for, the first time and at most.
constexpr Clock::Duration kLookAfter = std::chrono::milliseconds(300);
constexpr Clock::Duration kLongestLook = std::chrono::milliseconds(2400);
constexpr Clock::Duration kSecondLook = std::chrono::milliseconds(100);
// Beyond this many peers, messages are waited for a moment longer.
constexpr std::size_t kMany = 24;
constexpr auto kTogether = std::chrono::milliseconds(2);
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
      workers_digest_(context.workers_digest()) {
  store_.set(key(context_.self()), listener_.address());
}

void Meeting::greet(Channel& channel) {
  Hello hello;
  hello.worker = context_.self().value;
  hello.workers_digest = workers_digest_;
  channel.send(to_bytes(hello));
}

void Meeting::try_connect(int index, Clock::Duration waited) {
  const bool only_looks = index > context_.self_index();
  Peer& peer = peers_[index];
  const Clock::Time now = SteadyClock().now();
  if (now < peer.next_try || (only_looks && waited < kLookAfter)) return;
  peer.next_try = now + (only_looks ? peer.look_again : kPollStep);
  if (only_looks) peer.look_again = std::min(2 * peer.look_again, kLongestLook);
  const auto address = store_.get(key(context_.worker(index)));
  if (!address) return;
  auto [channel, nobody_there] = connect(*address);
  if (nobody_there && context_.liveness().mark_lost(index)) {
    context_.log().warning(cat(context_.self(), ": ", context_.worker(index), " ended before it was met"));
  }
  if (!channel || only_looks) return;
  greet(*channel);
  peer.channel = std::move(channel);
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
      Peer& peer = peers_[welcome(*packet)];
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
  Peer& peer = peers_[index];
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
  Peer& peer = peers_[index];
  if (!std::exchange(progress.told, true)) peer.channel->send(kWant + to_bytes(own.head) + own.window.name);
  const auto wanted = peer.wanted.find(own.window.name);
  if (progress.handed || wanted == peer.wanted.end()) return;
  const protocol::Head theirs = peer.wanted.extract(wanted).mapped();
  protocol::check_same(own.window.name, context_.self(), own.head, context_.worker(index), theirs);
  if (!std::exchange(peer.watched, true)) peer.channel->send({kLife}, {own_life_});
  peer.channel->send(kMemory + own.window.name, {control, payload});
  progress.handed = true;
  progress.theirs = theirs;
}

protocol::Head Meeting::head_of(int index, const Offer& own, const Progress& progress) const {
  if (progress.theirs && progress.theirs->readers <= own.head.workers) return *progress.theirs;
  throw InputError(
      progress.theirs ? cat("memory for ", progress.theirs->readers, " readers among ", own.head.workers)
                      : std::string("memory of a window that it did not want"),
      cat(context_.self(), " opens window '", own.window.name, "' of ", context_.worker(index)), kRemedy);
}

void Meeting::exchange(const Offer& own, const std::vector<int>& peers, const Take& take, Deadline deadline) {
  mapped::WaitNote note(context_, own.window.name);
  const Shared control = duplicate(own.control), payload = duplicate(own.payload);
  std::map<int, Progress> progress;
  for (int index : peers)
    progress[index];
  std::optional<Deadline> look_until, mourn_until;
  Clock::Duration look_at = kLookAfter, pause = kPollStep;
  std::set<int> heard(peers.begin(), peers.end());  // who may have sent something
  for (;;) {
    accept_all();
    bool unsent = false;
    std::optional<int> waited_for, first_lost, mourned;
    for (int other : own.elsewhere.peers) {
      if (context_.liveness().lost(other) && !mourned) mourned = other;
    }
    for (auto& [index, at] : progress) {
      Peer& peer = peers_[index];
      if (!peer.channel) try_connect(index, note.waited());
      // Asked before receiving: what a peer sent before it was lost still counts.
      const bool lost = context_.liveness().lost(index);
      const bool concerned = !at.told || lost || heard.contains(index);
      if (peer.channel && (concerned || peer.channel->has_unsent())) {
        std::optional<Memory> memory = receive_from(index, own.window.name);
        offer(own, control, payload, index, at);
        if (memory) {
          memory->head = head_of(index, own, at);
          take(index, *memory);
        }
        at.taken = at.taken || memory;
      }
      if (!at.taken && (lost || (peer.channel && peer.channel->ended())) && !first_lost) first_lost = index;
      if (lost && !mourned) mourned = index;
      unsent = unsent || (peer.channel && peer.channel->has_unsent());
      at.done = at.taken && at.handed && !peer.channel->has_unsent();
      if (!at.done && !waited_for) waited_for = index;
    }
    if (!waited_for) return;
    const auto end_without = [&](int lost, std::optional<Deadline>& until, Clock::Duration grace) {
      if (!until) until = SteadyClock().now() + grace;
      if (SteadyClock().now() < *until) return;
      throw Error(cat(context_.worker(lost), " is lost"),
                  cat(context_.self(), " opens window '", own.window.name, "'"),
                  "open it among those who are left");
    };
    // Somebody who left because of a death may be seen to leave before the death is.
    if (first_lost) end_without(*first_lost, look_until, kSecondLook);
    if (mourned) end_without(*mourned, mourn_until, mapped::kMourning);
    mapped::check_going_on(own.window, cat(context_.self(), " opens window '", own.window.name, "'"));
    if (SteadyClock().now() >= deadline) give_up(own.window.name, peers, *waited_for);
    note.explain("waits for", *waited_for);
    if (own.elsewhere.look && note.waited() >= look_at) {
      look_at *= 2;
      own.elsewhere.look();
    }
    heard = sleep(progress, std::min<Deadline>(deadline, SteadyClock().now() + pause));
    pause = unsent || !heard.empty() ? kPollStep : std::min(2 * pause, kLongestPollStep);
  }
}

void Meeting::give_up(const std::string& window, const std::vector<int>& peers, int waited_for) const {
  const std::string place = cat(context_.self(), " opens window '", window, "'");
  const bool crowded = std::any_of(peers.begin(), peers.end(), [&](int index) {
    const auto& channel = peers_.at(index).channel;
    return channel && channel->crowded();
  });
  if (crowded)
    throw Error("too many descriptors of this user are under way between processes", place,
                raise_descriptors());
  throw Error(cat(context_.worker(waited_for), " has not opened it before the deadline"), place,
              "every worker must open the same windows in the same order");
}

std::set<int> Meeting::sleep(const std::map<int, Progress>& progress, Deadline until) const {
  std::vector<pollfd> files{{listener_.fd(), POLLIN, 0}};
  for (const Channel& stranger : strangers_)
    files.push_back({stranger.fd(), POLLIN, 0});
  const std::size_t others = files.size();
  std::vector<int> indices;
  for (const auto& [index, at] : progress) {
    const auto& channel = peers_.at(index).channel;
    if (at.done || !channel || channel->ended()) continue;
    const bool writes = channel->has_unsent() && !channel->crowded();
    files.push_back({channel->fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    indices.push_back(index);
  }
  const auto left = std::max<Clock::Duration>(until - SteadyClock().now(), Clock::Duration(0));
  const auto most = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  std::set<int> heard;
  if (::poll(files.data(), files.size(), most) <= 0) return heard;
  // What many send at about the same time is taken together.
  if (indices.size() > kMany) {
    std::this_thread::sleep_for(kTogether);
    ::poll(files.data(), files.size(), 0);
  }
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (files[others + i].revents != 0) heard.insert(indices[i]);
  return heard;
}

}  // namespace kith::comm::shm
