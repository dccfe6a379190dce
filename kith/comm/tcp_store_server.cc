#include "kith/comm/tcp_store_server.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/net/handshake.h"
#include "kith/comm/net/strangers.h"
#include "kith/comm/tcp_store.h"
#include "kith/comm/tcp_store_message.h"
#include "kith/comm/will_store.h"

namespace kith::comm {
namespace {

using net::Handshake;
using tcp_store::Answer;
using tcp_store::Operation;
using tcp_store::Request;
using tcp_store::Status;

constexpr std::size_t kMostStrangers = 128;  // connections that have not proved themselves yet
constexpr int kMostAccepts = 32;             // at a time, so that who is here is heard meanwhile
// For who is in the middle of its proof when the server ends.
constexpr auto kLastChance = std::chrono::milliseconds(200);
constexpr int kMostRefusalsTold = 20;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr auto kAcceptPause = std::chrono::milliseconds(200);  // after running out of descriptors

struct Client {
  Client(net::Connection accepted, const std::string& secret, Deadline limit)
      : connection(std::move(accepted)), handshake(net::Side::server, secret), deadline(limit) {
    connection.limit(Handshake::kMostBytes);
    connection.lose_after(TcpStore::kSilence);
  }

  net::Connection connection;
  Handshake handshake;
  Deadline deadline;                   // of the handshake, or of the wait
  std::optional<std::string> awaited;  // the key it waits for
  std::optional<Request> will;         // what it wants set when it ends
  bool over = false;

  bool known() const { return handshake.state() == Handshake::State::done; }
  // While it waits or has an answer to take, only its end is of interest.
  short interest() const {
    if (connection.has_unsent()) return POLLOUT | POLLRDHUP;
    return awaited ? POLLRDHUP : POLLIN | POLLRDHUP;
  }
};

}  // namespace

class TcpStoreServer::Loop {
 public:
  explicit Loop(const TcpStoreServerOptions& options)
      : options_(options),
        listener_(std::in_place, options.listen),
        bound_(listener_->bound()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw Error("cannot make an eventfd", "store server");
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    change([this] { stopping_ = true; });
    thread_.join();
  }

  const net::Address& bound() const { return bound_; }

  bool drain(Deadline deadline) {
    change([this] { draining_ = true; });
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [this] { return empty_; });
  }

 private:
  template <class Body>
  void change(Body body) {
    {
      const std::lock_guard lock(mutex_);
      body();
    }
    ::eventfd_write(wake_.get(), 1);
  }

  void run() {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        if (draining_ && listener_) close_door();
        empty_ = !listener_ && clients_.empty();
        if (empty_) changed_.notify_all();
      }
      std::vector<pollfd> files{{wake_.get(), POLLIN, 0}};
      for (const Client& client : clients_)
        files.push_back({client.connection.fd(), client.interest(), 0});
      const Clock::Time before = SteadyClock().now();
      const bool accepting = listener_ && before >= accept_again_;
      if (accepting) files.push_back({listener_->fd(), POLLIN, 0});
      ::poll(files.data(), files.size(), timeout(before));

      eventfd_t ignored = 0;
      ::eventfd_read(wake_.get(), &ignored);
      auto file = files.begin() + 1;
      for (Client& client : clients_)
        if ((file++)->revents != 0) serve(client);
      if (accepting && files.back().revents != 0) accept_all();
      const Clock::Time now = SteadyClock().now();
      for (Client& client : clients_)
        if (!client.over && now >= client.deadline) expire(client);
      bury();
    }
  }

  void bury() {
    for (auto client = clients_.begin(); client != clients_.end();) {
      if (!client->over) {
        ++client;
        continue;
      }
      const std::optional<Request> will = std::move(client->will);
      client = clients_.erase(client);
      if (!will) continue;
      wake(put_on_list(values_, will->key, will->argument));
    }
  }

  int timeout(Clock::Time now) const {
    Deadline next = now + std::chrono::hours(1);
    for (const Client& client : clients_)
      next = std::min(next, client.deadline);
    if (listener_ && now < accept_again_) next = std::min(next, accept_again_);
    const Clock::Duration left = std::max<Clock::Duration>(next - now, Clock::Duration(0));
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }

  void close_door() {
    listener_.reset();
    for (Client& client : clients_)
      if (!client.known()) client.deadline = std::min(client.deadline, SteadyClock().now() + kLastChance);
  }

  void accept_all() {
    try {
      for (int i = 0; i < kMostAccepts; ++i) {
        auto connection = listener_->accept();
        if (!connection) return;
        clients_.emplace_back(std::move(*connection), options_.secret,
                              SteadyClock().now() + options_.handshake_limit);
        serve(clients_.back());  // an honest one has said hello already
        make_room();
      }
    } catch (const Error& error) {
      accept_again_ = SteadyClock().now() + kAcceptPause;
      if (!std::exchange(told_of_descriptors_, true)) warn(error.what());
    }
  }

  // Strangers that say nothing must not use up the descriptors.
  void make_room() {
    std::vector<Client*> who;
    std::vector<net::Stranger> strangers;
    for (Client& client : clients_) {
      if (client.over || client.known()) continue;
      who.push_back(&client);
      strangers.push_back({client.connection.peer(), client.handshake.begun()});
    }
    if (who.size() > kMostStrangers)
      refuse(*who[net::who_goes(strangers)], "too many connections wait to prove themselves");
  }

  void expire(Client& client) {
    if (client.known()) {
      client.awaited.reset();
      answer(client, Status::nothing, {});
    } else {
      refuse(client, "it did not prove itself in time");
    }
  }

  void serve(Client& client) {
    try {
      client.connection.flush();
      while (!client.over && !client.awaited && !client.connection.has_unsent()) {
        const auto message = client.connection.receive();
        if (!message) break;
        client.known() ? handle(client, *message) : greet(client, *message);
      }
      if (client.awaited || client.connection.has_unsent()) notice_end(client);
      if (client.connection.ended()) end(client);
    } catch (const std::exception& error) {
      client.known() ? end(client) : refuse(client, error.what());
    }
  }

  // A waiting client sends nothing, so anything that is there to read is its end (or a breach of protocol).
  void notice_end(Client& client) {
    pollfd file{client.connection.fd(), POLLRDHUP, 0};
    if (::poll(&file, 1, 0) > 0) end(client);
  }

  void end(Client& client) {
    if (!client.known() && !client.over) return refuse(client, "it closed the connection");
    client.over = true;
  }

  void refuse(Client& client, std::string_view reason) {
    client.over = true;
    if (refusals_ >= kMostRefusalsTold) return;
    warn(cat("refused ", client.connection.peer(), ": ", reason));
    if (++refusals_ == kMostRefusalsTold) warn("further refusals are not told");
  }

  void warn(std::string_view line) {
    if (options_.log) options_.log->warning(cat("store at ", net::text_of(bound_), ": ", line));
  }

  void greet(Client& client, const std::string& message) {
    const std::string reply = client.handshake.take(message);
    if (!reply.empty()) client.connection.queue(reply);
    if (client.handshake.state() == Handshake::State::refused) refuse(client, client.handshake.reason());
    if (client.known()) {
      client.deadline = Deadline::max();
      client.connection.limit(kMostBytes);
    }
  }

  void answer(Client& client, Status status, std::string_view value) {
    client.deadline = Deadline::max();
    try {
      client.connection.queue(encode(Answer{status, std::string(value)}));
    } catch (const Error&) {
      client.over = true;  // it cannot be reached; whoever made its answer come is not to blame
    }
  }

  void answer(Client& client, const std::optional<std::string>& value) {
    value ? answer(client, Status::value, *value) : answer(client, Status::nothing, {});
  }

  void handle(Client& client, const std::string& message) {
    try {
      const auto parsed = tcp_store::parse_request(message);
      if (!parsed) throw Error(cat("a request of ", message.size(), " bytes is malformed"), "store server");
      const Request& request = *parsed;
      switch (request.operation) {
        case Operation::set:
          values_.set(request.key, request.argument);
          answer(client, Status::value, {});
          return wake(request.key);
        case Operation::get:
          return answer(client, values_.get(request.key));
        case Operation::wait:
          return wait(client, request);
        case Operation::add:
          answer(client, Status::value, std::to_string(values_.add(request.key, request.number)));
          return wake(request.key);
        case Operation::set_once:
          answer(client, Status::value, values_.set_once(request.key, request.argument));
          return wake(request.key);
        case Operation::will:
          client.will = request.key.empty() ? std::nullopt : parsed;
          return answer(client, Status::value, {});
      }
    } catch (const Error& error) {
      answer(client, Status::error, error.what());
    }
  }

  void wait(Client& client, const Request& request) {
    const std::int64_t milliseconds = std::clamp<std::int64_t>(request.number, 0, 86'400'000);
    const auto value = values_.get(request.key);
    if (value || milliseconds == 0) return answer(client, value);
    client.awaited = request.key;
    client.deadline = SteadyClock().now() + std::chrono::milliseconds(milliseconds);
  }

  void wake(const std::string& key) {
    for (Client& client : clients_) {
      if (client.over || client.awaited != key) continue;
      client.awaited.reset();
      answer(client, values_.get(key));
    }
  }

  const TcpStoreServerOptions options_;
  std::optional<net::Listener> listener_;  // the thread's, until draining
  const net::Address bound_;
  const shm::Descriptor wake_;

  // The thread's own.
  std::list<Client> clients_;
  MemoryStore values_;
  Clock::Time accept_again_{};
  bool told_of_descriptors_ = false;
  int refusals_ = 0;

  std::mutex mutex_;  // guards the three below
  bool stopping_ = false;
  bool draining_ = false;
  bool empty_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : loop_(std::make_unique<Loop>(options)) {}
TcpStoreServer::~TcpStoreServer() = default;

const net::Address& TcpStoreServer::bound() const {
  return loop_->bound();
}
bool TcpStoreServer::drain(Deadline deadline) {
  return loop_->drain(deadline);
}

}  // namespace kith::comm
