#include "kith/comm/etcd_store.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/comm/counter_text.h"
#include "kith/comm/etcd/base64.h"
#include "kith/comm/etcd/call.h"

namespace kith::comm {
namespace {

using etcd::to_base64;
using nlohmann::json;

constexpr auto kAttempt = std::chrono::seconds(3);  // for one member to answer
constexpr auto kFirstPause = std::chrono::milliseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(500);
// A member that is stopped says nothing on a watch: the key is asked for now and then.
constexpr auto kTurn = std::chrono::seconds(10);
constexpr std::size_t kMac = 32;

json range_of(const std::string& key) {
  return {{"key", to_base64(key)}};
}
// Everything under a prefix that ends with '/'.
json range_under(const std::string& prefix) {
  return {{"key", to_base64(prefix)}, {"range_end", to_base64(prefix.substr(0, prefix.size() - 1) + '0')}};
}
json absent(const std::string& key) {
  return {{"key", to_base64(key)}, {"target", "VERSION"}, {"version", "0"}};
}

struct Entry {
  std::string key;
  std::string sealed;
  std::string revision;  // in which it was last changed
};

// Whatever a member sends: null, or the empty text, where it is not what it should be.
json part(const json& whole, const char* name) {
  const auto found = whole.find(name);
  return found == whole.end() ? json() : *found;
}
std::string text_in(const json& whole, const char* name) {
  const json found = part(whole, name);
  return found.is_string() ? found.get<std::string>() : std::string();
}

std::vector<Entry> entries_in(const json& answer) {
  std::vector<Entry> entries;
  for (const json& kv : part(answer, "kvs"))
    entries.push_back({etcd::from_base64(text_in(kv, "key")).value_or(""),
                       etcd::from_base64(text_in(kv, "value")).value_or(""), text_in(kv, "mod_revision")});
  return entries;
}

// The answer to the i-th request of a transaction, each of which was a range.
std::vector<Entry> entries_in(const json& transaction, std::size_t i) {
  const json responses = part(transaction, "responses");
  return responses.is_array() && i < responses.size() ? entries_in(part(responses[i], "response_range"))
                                                      : std::vector<Entry>();
}

}  // namespace

// One call: asks the members, one after the other, until one answers.
class EtcdStore::Session {
 public:
  Session(EtcdStore& store, Clock::Duration patience, const std::stop_token& stop)
      : store_(store), options_(store.options_), patience_(patience), stop_(stop) {
    if (stop.stop_possible()) file_.emplace(stop);
  }

  std::string entry(std::string_view key) const { return cat("kith/", options_.run, "/k/", key); }
  std::string mark(std::string_view name) const { return cat("kith/", options_.run, "/a/", name); }
  std::string wills(std::string_view list) const { return cat("kith/", options_.run, "/w/", list, "/"); }
  std::string lives(std::string_view list) const { return cat("kith/", options_.run, "/l/", list, "/"); }

  json put(const std::string& key, std::string_view value) const {
    return {{"key", to_base64(key)}, {"value", to_base64(mac_of(key, value) + std::string(value))}};
  }
  std::string open(const Entry& entry) const {
    const std::string_view value = std::string_view(entry.sealed).substr(std::min(kMac, entry.sealed.size()));
    if (entry.sealed.size() < kMac ||
        !equal_in_constant_time(std::string_view(entry.sealed).substr(0, kMac), mac_of(entry.key, value))) {
      throw Error(cat("key '", entry.key, "' was not written by this run: its MAC is wrong"), place(),
                  "another run has the same name, or somebody else writes there");
    }
    return std::string(value);
  }

  std::optional<std::string> get(std::string_view key) {
    const std::vector<Entry> found = entries_in(ask("/v3/kv/range", range_of(entry(key))));
    return found.empty() ? std::nullopt : std::optional(open(found.front()));
  }

  json ask(const std::string& path, const json& body) {
    const std::string text = body.dump();
    const net::Limit limit{SteadyClock().now() + patience_, file_ ? file_->fd() : -1};
    std::string reason;
    for (Clock::Duration pause = kFirstPause;; pause = std::min<Clock::Duration>(2 * pause, kLongestPause)) {
      for (std::size_t i = 0; i < options_.endpoints.size(); ++i) {
        if (auto answer = ask_one(path, text, limit, reason)) return *answer;
        if (stop_.stop_requested()) throw Error("the call was stopped", place());
      }
      if (SteadyClock().now() >= limit.deadline) {
        throw Error(cat("lost: no member has answered within ", seconds(patience_), " s; the last: ", reason),
                    place(), "see that a majority of them runs and can be reached");
      }
      net::wait_ready(-1, 0, {std::min(limit.deadline, SteadyClock().now() + pause), limit.stop});
    }
  }

  // Sleeps until something happens to the key or to a life of its list after the revision, or until the
  // deadline; false when nothing has happened.
  bool watch(const std::string& key, const std::string& list, std::int64_t after, Deadline deadline) {
    const auto create = [&](json what, int number) {
      what["start_revision"] = std::to_string(after + 1);
      what["watch_id"] = std::to_string(number);
      return json{{"create_request", std::move(what)}}.dump();
    };
    const net::Limit limit{deadline, file_ ? file_->fd() : -1};
    const std::size_t member = store_.first_;
    try {
      etcd::Call call(endpoint(member), options_.interface, "/v3/watch",
                      create(range_of(key), 1) + create(range_under(lives(list)), 2), limit);
      while (const auto line = call.line(limit)) {
        const json message = json::parse(*line);
        const json result = part(message, "result");
        if (message.contains("error") || part(result, "canceled") == true || result.contains("events"))
          return true;
      }
      return SteadyClock().now() < deadline && !stop_.stop_requested();  // the stream has ended
    } catch (const std::exception&) {
      next_after(member);
      net::wait_ready(-1, 0, {std::min<Deadline>(deadline, SteadyClock().now() + kFirstPause), limit.stop});
      return true;
    }
  }

  std::string place() const {
    std::vector<std::string> names;
    for (const net::Address& address : options_.endpoints)
      names.push_back(net::text_of(address));
    return cat("etcd at ", join(names));
  }

 private:
  const net::Address& endpoint(std::size_t number) const {
    return options_.endpoints[number % options_.endpoints.size()];
  }
  // Others may have found out at the same time.
  void next_after(std::size_t member) { store_.first_.compare_exchange_strong(member, member + 1); }

  std::optional<json> ask_one(const std::string& path, const std::string& text, const net::Limit& limit,
                              std::string& reason) {
    const std::size_t member = store_.first_;
    int status = 0;
    try {
      const net::Limit share{std::min<Deadline>(limit.deadline, SteadyClock().now() + kAttempt), limit.stop};
      etcd::Call call(endpoint(member), options_.interface, path, text, share);
      status = call.status(share);
      const std::string answer = call.body(share);
      if (status == 200) return json::parse(answer);
      const json problem = json::parse(answer, nullptr, false);
      reason =
          cat(net::text_of(endpoint(member)), ": ",
              problem.is_object() ? text_in(problem, "message") : std::string("an error without a reason"));
    } catch (const std::exception& error) {
      reason = error.what();
    }
    if (status >= 400 && status < 500) throw Error(cat("refused: ", reason), place());
    next_after(member);
    return std::nullopt;
  }

  std::string mac_of(const std::string& key, std::string_view value) const {
    return hmac_sha256(options_.secret, cat(key.size(), ":", key, value));
  }

  EtcdStore& store_;
  const EtcdStoreOptions& options_;
  const Clock::Duration patience_;
  const std::stop_token& stop_;
  std::optional<net::StopFile> file_;
};

EtcdStore::EtcdStore(EtcdStoreOptions options, Deadline deadline) : options_(std::move(options)) {
  KITH_CHECK(!options_.endpoints.empty(), "an etcd cluster has members");
  const std::stop_token none;
  Session session(*this, std::max<Clock::Duration>(deadline - SteadyClock().now(), Clock::Duration(0)), none);
  session.ask("/v3/kv/range", range_of(session.entry("")));
}

EtcdStore::~EtcdStore() {
  if (!will_) return;
  will_->heart = {};
  try {
    const std::stop_token none;
    Session(*this, std::chrono::milliseconds(500), none).ask("/v3/lease/revoke", {{"ID", will_->lease}});
  } catch (const Error&) {
    // It ends by itself then.
  }
}

void EtcdStore::set_for(std::string_view key, std::string_view value, std::stop_token stop) {
  Session session(*this, options_.patience, stop);
  session.ask("/v3/kv/put", session.put(session.entry(key), value));
}

std::optional<std::string> EtcdStore::get_for(std::string_view key, std::stop_token stop) {
  return Session(*this, options_.patience, stop).get(key);
}

std::string EtcdStore::set_once_for(std::string_view key, std::string_view value, std::stop_token stop) {
  Session session(*this, options_.patience, stop);
  const std::string entry = session.entry(key);
  const json answer = session.ask("/v3/kv/txn", {{"compare", {absent(entry)}},
                                                 {"success", {{{"request_put", session.put(entry, value)}}}},
                                                 {"failure", {{{"request_range", range_of(entry)}}}}});
  if (part(answer, "succeeded") == true) return std::string(value);
  const std::vector<Entry> found = entries_in(answer, 0);
  if (found.empty()) throw Error(cat("key '", key, "' is neither absent nor there"), session.place());
  return session.open(found.front());
}

// The sum is put together with a mark of this call, so that a request whose answer was lost is known to have
// counted: its mark is there, or its comparison fails for good once another's has succeeded.
std::int64_t EtcdStore::add_for(std::string_view key, std::int64_t delta, std::stop_token stop) {
  Session session(*this, options_.patience, stop);
  const std::string entry = session.entry(key), mark = session.mark(hex(random_bytes(8)));
  for (;;) {
    const json before = session.ask(
        "/v3/kv/txn",
        {{"success", {{{"request_range", range_of(entry)}}, {{"request_range", range_of(mark)}}}}});
    const std::vector<Entry> value = entries_in(before, 0), marked = entries_in(before, 1);
    const std::int64_t sum =
        marked.empty() ? add_to_counter(key, value.empty() ? "0" : session.open(value.front()), delta)
                       : parse_counter(key, session.open(marked.front()));
    const json unchanged =
        value.empty()
            ? absent(entry)
            : json{{"key", to_base64(entry)}, {"target", "MOD"}, {"mod_revision", value.front().revision}};
    const std::string text = std::to_string(sum);
    const json put = {
        {"compare", {unchanged}},
        {"success",
         {{{"request_put", session.put(entry, text)}}, {{"request_put", session.put(mark, text)}}}}};
    const bool counted = !marked.empty() || part(session.ask("/v3/kv/txn", put), "succeeded") == true;
    if (!counted) continue;
    session.ask("/v3/kv/deleterange", range_of(mark));
    return sum;
  }
}

std::optional<std::string> EtcdStore::wait_for(std::string_view key, Deadline deadline,
                                               std::stop_token stop) {
  Session session(*this, options_.patience, stop);
  const std::string entry = session.entry(key), list(list_of(key));
  std::int64_t revision = 0;  // since which nothing has happened; 0: look at everything
  try {
    for (;;) {
      std::vector<Entry> due;
      if (revision == 0) {
        const json all =
            session.ask("/v3/kv/txn", {{"success",
                                        {{{"request_range", range_of(entry)}},
                                         {{"request_range", range_under(session.wills(list))}},
                                         {{"request_range", range_under(session.lives(list))}}}}});
        const std::vector<Entry> found = entries_in(all, 0);
        if (!found.empty()) return session.open(found.front());
        revision = std::strtoll(text_in(part(all, "header"), "revision").c_str(), nullptr, 10);
        std::set<std::string> alive;
        for (const Entry& life : entries_in(all, 2))
          alive.insert(life.key.substr(session.lives(list).size()));
        for (const Entry& will : entries_in(all, 1))
          if (!alive.contains(will.key.substr(session.wills(list).size()))) due.push_back(will);
      } else if (auto value = session.get(key)) {
        return value;
      }
      for (const Entry& will : due) {
        put_on_list(*this, list, session.open(will));
        session.ask("/v3/kv/deleterange", range_of(will.key));
      }
      const Clock::Time now = SteadyClock().now();
      if (due.empty() && (now >= deadline || stop.stop_requested())) return std::nullopt;
      const bool happened =
          !due.empty() || session.watch(entry, list, revision, std::min<Deadline>(deadline, now + kTurn));
      if (happened) revision = 0;
    }
  } catch (const Error&) {
    if (stop.stop_requested()) return std::nullopt;
    throw;
  }
}

void EtcdStore::leave_will(std::string_view list, std::string_view value) {
  const std::stop_token none;
  Session session(*this, options_.patience, none);
  const json lease = session.ask("/v3/lease/grant", {{"TTL", std::to_string(options_.will_after.count())}});
  Will will{std::string(list), hex(random_bytes(8)), text_in(lease, "ID"), {}};
  json life = session.put(session.lives(list) + will.name, "");
  life["lease"] = will.lease;
  session.ask(
      "/v3/kv/txn",
      {{"success",
        {{{"request_put", life}}, {{"request_put", session.put(session.wills(list) + will.name, value)}}}}});
  withdraw_will();
  will.heart = std::jthread([this, id = will.lease](const std::stop_token& stop) { beat(id, stop); });
  will_ = std::move(will);
}

void EtcdStore::withdraw_will() {
  if (!will_) return;
  const Will will = std::move(*will_);
  will_.reset();
  try {
    const std::stop_token none;
    Session session(*this, std::chrono::seconds(1), none);
    session.ask("/v3/kv/deleterange", range_of(session.wills(will.list) + will.name));
    session.ask("/v3/lease/revoke", {{"ID", will.lease}});
  } catch (const Error&) {
    // Where the store is lost there is nobody to tell.
  }
}

void EtcdStore::beat(const std::string& lease, const std::stop_token& stop) {
  const net::StopFile file(stop);
  const Clock::Duration pause = Clock::Duration(options_.will_after) / 3;
  while (!stop.stop_requested()) {
    net::wait_ready(-1, 0, {SteadyClock().now() + pause, file.fd()});
    try {
      Session(*this, options_.will_after, stop).ask("/v3/lease/keepalive", {{"ID", lease}});
    } catch (const Error&) {
      // The next beat may be heard; who is not heard for long has ended, to the others.
    }
  }
}

}  // namespace kith::comm
