#pragma once

#include <string>

#include "kith/comm/ucx/worker.h"

namespace kith::comm::ucx {

// How UCX is to use a network interface: TCP over it, RDMA where the interface belongs to an RDMA device, and
// nothing that cannot tell of a dead peer.
Settings settings_for(const std::string& interface);

}  // namespace kith::comm::ucx
