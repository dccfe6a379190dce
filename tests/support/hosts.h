#pragma once

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "tests/support/processes.h"

namespace kith::support {

inline void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0)
    throw Error(cat("'", command, "' failed"), "test hosts", "needs root and iproute2");
}

// Two hosts on one machine: network namespaces of their own, 10.77.0.1 and 10.77.0.2, joined by a cable
// (veth). They have no names, so nothing is left when the test ends, however it ends.
class TwoHosts {
 public:
  TwoHosts()
      : holders_(2, [](int) {
          if (::unshare(CLONE_NEWNET) != 0)
            throw Error("cannot make a network namespace", "test hosts", "needs root");
          ::raise(SIGSTOP);  // says that it is ready
          ::pause();
          return std::string();
        }) {
    for (int host : {0, 1}) {
      int status = 0;
      if (::waitpid(holders_.pid(host), &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
        throw Error("a host does not start", "test hosts", "needs root");
    }
    shell(
        cat("ip link add eth0 netns ", holders_.pid(0), " type veth peer name eth0 netns ", holders_.pid(1)));
    for (int host : {0, 1}) {
      on(host, "ip link set lo up");
      on(host, cat("ip addr add 10.77.0.", host + 1, "/24 dev eth0"));
      on(host, "ip link set eth0 up");
    }
    // The kernel says a little later that the cable carries.
    for (int host : {0, 1})
      on(host, "timeout 10 sh -c 'until ip link show eth0 | grep -q \"state UP\"; do sleep 0.01; done'");
  }

  // Moves the calling process, which must have one thread, to that host.
  void enter(int host) const {
    const int fd = ::open(cat("/proc/", holders_.pid(host), "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0)
      throw Error("cannot enter a network namespace", "test hosts");
    ::close(fd);
    // /sys shows the devices of the namespace it was mounted in.
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
                         ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
    if (!mounted) throw Error("cannot mount a sysfs of its own", "test hosts");
  }

  void unplug(int host) const { on(host, "ip link set eth0 down"); }

 private:
  void on(int host, const std::string& command) const {
    shell(cat("nsenter -t ", holders_.pid(host), " -n ", command));
  }

  Processes holders_;
};

}  // namespace kith::support
