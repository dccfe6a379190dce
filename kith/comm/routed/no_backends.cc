#include "kith/base/check.h"
#include "kith/comm/routed/backends.h"

namespace kith::comm {

std::string ucx_obstacle() {
  return "this kith was built without UCX (libucx-dev)";
}

std::unique_ptr<Transport> create_ucx(const TransportOptions&) {
  KITH_CHECK(false, "a backend with an obstacle is not created");
  return nullptr;
}

std::unique_ptr<Transport> create_routed(const TransportOptions& options) {
  return create_ucx(options);
}

}  // namespace kith::comm
