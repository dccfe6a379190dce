#pragma once

#include <memory>
#include <string>

#include "kith/comm/transport.h"

namespace kith::comm {

struct TransportOptions;

// The two backends that need UCX. The build takes backends.cc where UCX is, else no_backends.cc, whose
// obstacle says what is missing.
std::string ucx_obstacle();
std::unique_ptr<Transport> create_ucx(const TransportOptions& options);
std::unique_ptr<Transport> create_routed(const TransportOptions& options);

}  // namespace kith::comm
