#include "cli/watch_server.h"

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include <httplib.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/observe/page.h"
#include "kith/observe/prometheus.h"
#include "kith/observe/run_json.h"

namespace kith::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(500);  // between two looks at the files
constexpr std::string_view kBearer = "Bearer ";

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Takes as long whatever the first difference.
bool equal(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t k = 0; k < a.size(); ++k)
    difference |= static_cast<unsigned char>(a[k] ^ b[k % std::max<std::size_t>(1, b.size())]);
  return difference == 0;
}

bool knows(const httplib::Request& request, const std::string& token) {
  if (token.empty()) return true;
  const std::string header = request.get_header_value("Authorization");
  if (header.starts_with(kBearer)) return equal(header.substr(kBearer.size()), token);
  return equal(request.get_param_value("token"), token);
}

// The run as many browsers look at it.
class Shared {
 public:
  explicit Shared(observe::RunReader& run) : run_(run) {}

  template <class Use>
  std::string with(const Use& use) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ >= kPause) {
      run_.refresh();
      looked_ = now;
    }
    return use(run_, unix_now());
  }

 private:
  std::mutex mutex_;
  observe::RunReader& run_;                         // guarded by mutex_
  std::chrono::steady_clock::time_point looked_{};  // guarded by mutex_
};

}  // namespace

std::string server_obstacle() {
  return {};
}

void serve(observe::RunReader& run, const ServerOptions& options,
           const std::function<void(int port)>& started) {
  Shared shared(run);
  httplib::Server server;
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    response.set_header("Cache-Control", "no-store");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("X-Frame-Options", "DENY");
    response.set_header("Content-Security-Policy",
                        cat("default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-",
                            options.nonce, "'; connect-src 'self'"));
    if (knows(request, options.token)) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("the token is missing or wrong: open the address that kith watch printed\n",
                         "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(observe::page("kith watch: " + run.name(), R"({"page":"watch"})", options.nonce),
                         "text/html; charset=utf-8");
  });
  server.Get("/data", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(shared.with([](const observe::RunReader& r, double now) {
      return observe::page_text(observe::run_json(r, now));
    }),
                         "application/json");
  });
  server.Get("/metrics", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(
        shared.with([](const observe::RunReader& r, double now) { return observe::prometheus_text(r, now); }),
        "text/plain; version=0.0.4");
  });
  // Without the default's sharing of a port among several servers.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  int port = options.port;
  const bool bound = port == 0 ? (port = server.bind_to_any_port(options.address.c_str())) > 0
                               : server.bind_to_port(options.address.c_str(), port);
  if (!bound)
    throw InputError(cat("cannot listen on ", options.address, " port ", options.port), "--port",
                     "take another port, or leave it out");
  started(port);
  server.listen_after_bind();
}

}  // namespace kith::cli
