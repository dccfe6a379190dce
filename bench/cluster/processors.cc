#include "bench/cluster/processors.h"

#include <fstream>
#include <string>

#include <unistd.h>

#include "kith/base/error.h"

namespace kith::bench {

ProcessorTimes ProcessorTimes::now() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0;
  if (!(stat >> cpu >> user >> nice >> system >> idle >> io >> irq >> soft) || cpu != "cpu")
    throw Error("has no line of all processors", "/proc/stat");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return {(system + irq + soft) / ticks, (idle + io) / ticks,
          (user + nice + system + idle + io + irq + soft) / ticks};
}

}  // namespace kith::bench
