#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "cli/supervised_files.h"
#include "cli/supervisor.h"
#include "kith/base/clock.h"
#include "kith/base/log.h"
#include "kith/comm/store.h"
#include "kith/comm/will_store.h"

namespace kith::cli {

// How `kith scale` asks a launcher for another number of workers: through the store in which its workers
// meet. Requests are numbered, and each is answered in a sentence: '=' and what is done, or '!' and why not.

struct ScaleRequest {
  int workers = 0;         // wanted
  bool can_leave = false;  // kith train runs there, whose workers leave when they are asked
};
// "6 1".
std::string to_words(const ScaleRequest& request);
ScaleRequest parse_scale_request(std::string_view words);

// Hears requests, one after the other, in a thread of its own: a store may take its time, and a supervisor
// has none. Who cannot reach the store says so once in the log.
class ScaleClerk {
 public:
  using Open = std::function<std::shared_ptr<comm::WillStore>(Deadline deadline)>;
  // `ask` is called from the supervisor's wait; answer() follows, then or later. The supervisor outlives it.
  ScaleClerk(Supervisor& supervisor, Open open, std::function<void(const ScaleRequest& request)> ask,
             Log& log);
  // At once, whatever the store does; within a second where it cannot be reached.
  ~ScaleClerk();
  ScaleClerk(const ScaleClerk&) = delete;
  ScaleClerk& operator=(const ScaleClerk&) = delete;

  void answer(const std::string& sentence);

 private:
  // Null when a stop is requested first.
  std::shared_ptr<comm::WillStore> reach(const std::stop_token& stop);
  void serve(const std::stop_token& stop);
  std::optional<std::string> await_answer(const std::stop_token& stop);

  const Open open_;
  Log& log_;
  Pipe pipe_;         // from the thread to the supervisor
  std::mutex mutex_;  // guards answer_
  std::condition_variable_any answered_;
  std::optional<std::string> answer_;
  std::jthread thread_;  // last: it uses everything above
};

// What a launcher says when `act` has done what was asked, or has thrown an InputError.
std::string answer_of(const std::function<std::string()>& act);

// The other side: the launcher's answer. InputError when it refuses, Error when nobody answers in time.
// `place`: of the store, for messages.
std::string ask_to_scale(comm::Store& store, const std::string& place, int workers, Deadline deadline);

}  // namespace kith::cli
