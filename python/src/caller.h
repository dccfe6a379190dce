#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>

namespace kith::python {

// Makes calls that may wait, on a thread of its own, while the interpreter's thread sees to signals. A signal
// handler that raises (KeyboardInterrupt) ends the call by `cancel`, and the exception goes to who made it.
class Caller {
 public:
  // `cancel` is safe from any thread and makes the call under way end soon.
  explicit Caller(std::function<void()> cancel);
  // Waits for the call under way.
  ~Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // What `body` returns or throws. REQUIRES: the caller holds the interpreter's lock, which is released
  // meanwhile; one call at a time. InputError for a call from within one.
  template <class Body>
  std::invoke_result_t<Body> operator()(Body body) {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      run(body);
    } else {
      std::optional<std::invoke_result_t<Body>> result;
      run([&] { result.emplace(body()); });
      return std::move(*result);
    }
  }

  bool interrupted() const { return interrupted_; }

 private:
  void run(const std::function<void()>& body);
  void work(const std::stop_token& stop);

  const std::function<void()> cancel_;
  bool interrupted_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  const std::function<void()>* body_ = nullptr;  // under way, or to be
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace kith::python
