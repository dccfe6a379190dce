#include "kith/comm/routed/placement.h"

#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::routed {
namespace {

std::string key(WorkerId worker) {
  return cat("net/", worker.value);
}

}  // namespace

std::string this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &space) != 0) {
    // Alone on a machine of its own is always right, only slower.
    return cat("unknown ", ::gethostid(), " ", ::getpid());
  }
  return cat(boot, " ", space.st_dev, ":", space.st_ino, " ", ::geteuid());
}

std::string default_interface() {
  std::ifstream routes("/proc/net/route");
  std::string line;
  std::getline(routes, line);
  while (std::getline(routes, line)) {
    std::istringstream fields(line);
    std::string interface, destination;
    fields >> interface >> destination;
    if (destination == "00000000") return interface;
  }
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "lo";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(found, ::freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable && entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET) return entry->ifa_name;
  }
  return "lo";
}

std::string text_of(const Presence& presence) {
  return cat(presence.machine, "\n", net::text_of(presence.address));
}

Presence parse_presence(std::string_view text, std::string_view place) {
  const std::vector<std::string> parts = split(text, '\n');
  if (parts.size() != 2)
    throw InputError(cat("'", text, "'"), place, "run the same build of kith everywhere");
  return {parts[0], net::parse_address(parts[1], place)};
}

std::vector<Presence> exchange_presence(Store& store, WorkerId self, const Presence& own,
                                        const std::vector<WorkerId>& workers, Deadline deadline,
                                        const std::stop_token& stop) {
  store.set(key(self), text_of(own));
  std::vector<Presence> presences;
  for (const WorkerId worker : workers) {
    const auto text = store.wait(key(worker), deadline, stop);
    if (!text) {
      throw Error(cat(worker, " has not come to the store in time"), cat(self, " joins its run"),
                  "start every worker, and give all of them the same store");
    }
    presences.push_back(parse_presence(*text, cat("what ", worker, " left in the store")));
  }
  return presences;
}

std::vector<int> number_machines(const std::vector<Presence>& presences) {
  std::map<std::string, int> numbers;
  std::vector<int> machines;
  for (const Presence& presence : presences)
    machines.push_back(numbers.try_emplace(presence.machine, static_cast<int>(numbers.size())).first->second);
  return machines;
}

}  // namespace kith::comm::routed
