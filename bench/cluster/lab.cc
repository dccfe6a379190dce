#include "bench/cluster/lab.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <sstream>
#include <thread>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {

HostLab::HostLab(int hosts)
    : lab_({KITH_PYTHON, KITH_HOSTLAB "/hostlab", "--hosts", std::to_string(hosts)}, {}) {
  for (std::string line = lab_.answer(); line != "ready"; line = lab_.answer()) {
    std::istringstream words(line);
    std::string host, number, address, pid;
    words >> host >> number >> address >> pid;
    pids_.push_back(pid);
  }
}

void HostLab::set_rate(const std::string& rate) {
  lab_.order(cat("rate ", rate));
  if (const std::string answer = lab_.answer(); answer != "ok") throw Error(answer, "host lab");
}

std::vector<double> HostLab::sent() {
  lab_.order("bytes");
  std::istringstream words(lab_.answer());
  std::string bytes;
  words >> bytes;
  std::vector<double> all;
  for (double sent = 0, received = 0; words >> sent >> received;)
    all.push_back(sent);
  return all;
}

void HostLab::wait_until_quiet() {
  constexpr auto kQuiet = std::chrono::milliseconds(20);
  for (std::vector<double> last; sent() != last;) {
    last = sent();
    std::this_thread::sleep_for(kQuiet);
  }
}

std::vector<std::string> HostLab::on(int host, const std::vector<std::string>& command) const {
  std::vector<std::string> words{
      "nsenter", "-t", pids_[static_cast<std::size_t>(host)], "-m", "-u", "-i", "-n", "-p", "--"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string HostLab::address(int host) {
  return cat("10.77.0.", host + 1);
}

LinkMeasurement HostLab::measure_link(int megabytes) {
  std::vector<PeerProcess> ends;
  for (int host = 0; host < 2; ++host) {
    ends.emplace_back(on(host, {KITH_PYTHON, KITH_HOSTLAB "/transfer.py", std::to_string(megabytes), "both"}),
                      std::vector<std::string>{cat("RANK=", host), "WORLD_SIZE=2",
                                               cat("MASTER_ADDR=", address(0)), "MASTER_PORT=29400"});
  }
  LinkMeasurement link{std::numeric_limits<double>::infinity(), 0};
  const double at_ends = 4.0 * megabytes * (1 << 20);  // sent and received, both ways
  for (PeerProcess& end : ends) {
    std::istringstream words(end.answer());
    std::string received;
    double megabits = 0, busy = 0;
    words >> received >> megabits >> busy;
    link.bytes_per_s = std::min(link.bytes_per_s, megabits * 1e6 / 8);
    link.cpu_s_per_byte = std::max(link.cpu_s_per_byte, busy / at_ends);
  }
  return link;
}

}  // namespace kith::bench
