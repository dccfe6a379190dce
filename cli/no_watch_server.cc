#include "cli/watch_server.h"
#include "kith/base/error.h"

namespace kith::cli {

std::string server_obstacle() {
  return "this kith was built without cpp-httplib (libcpp-httplib-dev)";
}

void serve(observe::RunReader& run, const ServerOptions&, const std::function<void(int port)>&) {
  throw InputError(server_obstacle(), run.folder().string(), "look at the run with --text");
}

}  // namespace kith::cli
