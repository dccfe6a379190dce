#include "kith/comm/routed/placement.h"

#include <algorithm>
#include <charconv>
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

constexpr std::string_view kMachines = "net/machines";

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

std::string text_of_machines(const std::vector<int>& machines) {
  std::string text;
  for (std::size_t i = 0; i < machines.size();) {
    std::size_t end = i;
    while (end < machines.size() && machines[end] == machines[i])
      ++end;
    text += cat(text.empty() ? "" : " ", machines[i], "*", end - i);
    i = end;
  }
  return text;
}

std::vector<int> parse_machines(std::string_view text, std::size_t workers, std::string_view place) {
  std::vector<int> machines;
  for (const std::string& run : split(text, ' ')) {
    int machine = -1;
    std::size_t count = 0;
    const char* const end = run.data() + run.size();
    const auto number = std::from_chars(run.data(), end, machine);
    const bool starred = number.ec == std::errc{} && number.ptr != end && *number.ptr == '*';
    const auto times = starred ? std::from_chars(number.ptr + 1, end, count) : number;
    if (!starred || times.ec != std::errc{} || times.ptr != end || machine < 0 ||
        static_cast<std::size_t>(machine) >= workers || count == 0 || count > workers - machines.size())
      throw InputError(cat("'", text, "'"), place, "run the same build of kith everywhere");
    machines.insert(machines.end(), count, machine);
  }
  if (machines.size() != workers)
    throw InputError(cat("machines of ", machines.size(), " workers, not of ", workers), place,
                     "start every worker with the same number of workers");
  return machines;
}

Presence presence_of(Store& store, WorkerId worker) {
  const std::string place = cat("what ", worker, " left in the store");
  const auto text = store.get(key(worker));
  if (!text) throw Error("it is gone", place, "a store serves a run as long as it lasts");
  return parse_presence(*text, place);
}

std::vector<int> meet_at_store(Store& store, WorkerId self, const Presence& own,
                               const std::vector<WorkerId>& workers, Deadline deadline,
                               const std::stop_token& stop) {
  const auto absent = [&](WorkerId worker) {
    return Error(cat(worker, " has not come to the store in time"), cat(self, " joins its run"),
                 "start every worker, and give all of them the same store");
  };
  store.set(key(self), text_of(own));
  if (self == workers.front()) {
    std::map<std::string, int> numbers;
    std::vector<int> machines;
    for (const WorkerId worker : workers) {
      const auto text = store.wait(key(worker), deadline, stop);
      if (!text) throw absent(worker);
      const std::string machine = parse_presence(*text, cat("what ", worker, " left in the store")).machine;
      machines.push_back(numbers.try_emplace(machine, static_cast<int>(numbers.size())).first->second);
    }
    store.set(kMachines, text_of_machines(machines));
    return machines;
  }
  const auto text = store.wait(kMachines, deadline, stop);
  if (text) return parse_machines(*text, workers.size(), "the machines of this run in the store");
  const auto missing =
      std::find_if(workers.begin(), workers.end(), [&](WorkerId worker) { return !store.get(key(worker)); });
  throw absent(missing == workers.end() ? workers.front() : *missing);
}

}  // namespace kith::comm::routed
