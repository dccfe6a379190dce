#include "kith/comm/net/strangers.h"

#include <map>
#include <utility>

namespace kith::comm::net {
namespace {

std::string host_of(const Stranger& stranger) {
  return stranger.peer.substr(0, stranger.peer.rfind(':'));
}

}  // namespace

std::size_t who_goes(const std::vector<Stranger>& strangers) {
  std::map<std::string, int> of_host;
  for (const Stranger& stranger : strangers)
    ++of_host[host_of(stranger)];
  std::size_t goes = 0;
  std::pair<int, bool> first{0, false};
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    const std::pair claim{of_host[host_of(strangers[i])], !strangers[i].spoke};
    if (claim <= first) continue;
    goes = i;
    first = claim;
  }
  return goes;
}

}  // namespace kith::comm::net
