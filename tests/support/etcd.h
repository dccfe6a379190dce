#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sys/prctl.h>

#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/net/address.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

namespace kith::support {

inline bool has_etcd() {
  for (const std::string& folder : split(std::getenv("PATH") ? std::getenv("PATH") : "", ':'))
    if (::access((folder + "/etcd").c_str(), X_OK) == 0) return true;
  return false;
}

// An etcd cluster on the loopback, with its data in a folder that goes with it.
class EtcdCluster {
 public:
  explicit EtcdCluster(int members) {
    std::vector<std::string> peers;
    for (int i = 0; i < members; ++i) {
      const std::uint16_t port = free_port();
      endpoints_.push_back({"127.0.0.1", port});
      peers.push_back(cat("m", i, "=http://127.0.0.1:", port + 1));
    }
    for (int i = 0; i < members; ++i) {
      const comm::net::Address& at = endpoints_[static_cast<std::size_t>(i)];
      const std::string client = cat("http://127.0.0.1:", at.port);
      const std::string peer = cat("http://127.0.0.1:", at.port + 1);
      commands_.push_back(std::make_unique<Command>(folder_.path(), Words{"timeout",
                                                                          "-s",
                                                                          "KILL",
                                                                          "300",
                                                                          "etcd",
                                                                          "--name",
                                                                          cat("m", i),
                                                                          "--data-dir",
                                                                          cat(folder_.path(), "/m", i),
                                                                          "--listen-client-urls",
                                                                          client,
                                                                          "--advertise-client-urls",
                                                                          client,
                                                                          "--listen-peer-urls",
                                                                          peer,
                                                                          "--initial-advertise-peer-urls",
                                                                          peer,
                                                                          "--initial-cluster",
                                                                          join(peers, ","),
                                                                          "--heartbeat-interval",
                                                                          "50",
                                                                          "--election-timeout",
                                                                          "500"}));
    }
  }

  const std::vector<comm::net::Address>& endpoints() const { return endpoints_; }
  // To the member's whole process group.
  void send(int member, int signal) const {
    ::kill(-commands_[static_cast<std::size_t>(member)]->pid(), signal);
  }
  std::string log_of(int member) const { return commands_[static_cast<std::size_t>(member)]->err(); }

 private:
  const kith::TempFolder folder_{"kith-etcd"};
  std::vector<comm::net::Address> endpoints_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace kith::support
