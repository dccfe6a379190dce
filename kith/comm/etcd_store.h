#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kith/comm/net/address.h"
#include "kith/comm/net/limit.h"
#include "kith/comm/will_store.h"

namespace kith::comm {

struct EtcdStoreOptions {
  std::vector<net::Address> endpoints;  // of the members; one suffices, all are better
  std::string run;                      // keys lie under "kith/RUN/"; runs do not see each other
  std::string secret = {};              // of the run; empty: values prove nothing
  std::string interface = {};           // to connect from; empty: the kernel's choice
  // For an answer that need not wait for anybody, from any of the members.
  Clock::Duration patience = std::chrono::minutes(1);
  // After how long without a sign of life a process has ended, for its will.
  std::chrono::seconds will_after{30};
};

// A store in an etcd cluster, for runs that must outlive any machine: the v3 API by its JSON gateway. Goes on
// with the next member when one fails or does not answer; a request whose answer was lost is repeated, and
// add counts once all the same. Every value carries a MAC, by the run's secret, of its key and itself: Error
// that says so when it is wrong. A value has at most about 1 MiB (etcd's own limit). Error that names the
// members and the last reason when none of them answers within the patience.
class EtcdStore final : public WillStore {
 public:
  // Error when no member answers before the deadline.
  EtcdStore(EtcdStoreOptions options, Deadline deadline);
  // The will comes true, if there is one.
  ~EtcdStore() override;

  // By one thread at a time.
  void leave_will(std::string_view list, std::string_view value) override;
  void withdraw_will() override;

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override;
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override;
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;

  class Session;  // one call of the store
  struct Will {
    std::string list, name, lease;
    std::jthread heart;
  };
  void beat(const std::string& lease, const std::stop_token& stop);

  const EtcdStoreOptions options_;
  std::atomic<std::size_t> first_{0};  // which member is asked first
  std::optional<Will> will_;           // used by one thread
};

}  // namespace kith::comm
