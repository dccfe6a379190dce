#include "kith/comm/shm/descriptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <sys/resource.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::shm {
namespace {

rlimit limit_now() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

std::size_t open_now() {
  std::error_code unreadable;
  const std::filesystem::directory_iterator all("/proc/self/fd", unreadable);
  return unreadable ? 0 : static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

std::string raise_descriptors() {
  return cat("raise RLIMIT_NOFILE (ulimit -n), which is ", limit_now().rlim_cur);
}

void fail(std::string_view what, std::string_view place) {
  const int reason = errno;
  throw Error(cat(what, ": ", std::strerror(reason)), place,
              reason == EMFILE ? raise_descriptors() : std::string());
}

void make_room(std::size_t more, std::string_view place) {
  rlimit limit = limit_now();
  const rlim_t needed = open_now() + more;
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    throw Error(cat("RLIMIT_NOFILE is ", limit.rlim_max, ", ", needed, " are needed"), place,
                cat("raise the limit of open files: ulimit -n ", needed));
  }
  limit.rlim_cur = needed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) fail(cat("cannot raise RLIMIT_NOFILE to ", needed), place);
}

}  // namespace kith::comm::shm
