#pragma once

#include <functional>
#include <string>

#include "kith/observe/run_reader.h"

namespace kith::cli {

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;       // 0: any that is free
  std::string token;  // whoever asks must know it; empty: anybody may look
  std::string nonce;  // for the page's policy; another one for every server
};

// Why a page cannot be served here; empty: it can.
std::string server_obstacle();

// Serves the page of a run until the process ends: "/" the page, "/data" what it draws, "/metrics" for
// Prometheus; all of them GET, with the token as "?token=" or "Authorization: Bearer". `started` is called
// with the port once it listens. InputError when it cannot listen there.
void serve(observe::RunReader& run, const ServerOptions& options,
           const std::function<void(int port)>& started);

}  // namespace kith::cli
