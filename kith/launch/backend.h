#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kith::launch {

// What decides how the workers of a world reach each other.
struct BackendQuestion {
  std::string asked = {};  // by the user; empty: nobody has said it
  int workers = 1;
  bool one_machine = false;  // they are known to share one
  bool on_gpu = false;       // their models lie on GPUs
};

// What was asked for; else the first of these that applies and is available:
//   cuda_ipc  models on GPUs of one machine: neighbours read each other's in GPU memory
//   inproc    one worker
//   shm       one machine
//   routed    anything
//   shm
std::string choose_backend(const BackendQuestion& question,
                           const std::function<bool(std::string_view backend)>& available);

// True for a backend that this build has and this machine can use.
bool backend_available(std::string_view backend);

}  // namespace kith::launch
