#include "kith/comm/routed/backends.h"

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/routed/transport.h"
#include "kith/comm/shm/transport.h"

namespace kith::comm {
namespace {

std::unique_ptr<Transport> create(const TransportOptions& options, RoutedTransport::Route route) {
  const std::string_view name = route == RoutedTransport::Route::ucx ? "ucx" : "routed";
  if (options.store == nullptr) {
    throw InputError("no store given", cat("backend ", name),
                     "give every worker a store that they share, such as a TcpStore");
  }
  if (options.network.lanes < 1 || options.network.lanes > 64)
    throw InputError(cat(options.network.lanes, " lanes"), cat("backend ", name), "use 1 to 64");
  return std::make_unique<RoutedTransport>(options, route);
}

}  // namespace

std::string ucx_obstacle() {
  return shm_obstacle();
}

std::unique_ptr<Transport> create_ucx(const TransportOptions& options) {
  return create(options, RoutedTransport::Route::ucx);
}

std::unique_ptr<Transport> create_routed(const TransportOptions& options) {
  return create(options, RoutedTransport::Route::routed);
}

}  // namespace kith::comm
