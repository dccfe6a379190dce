#include "python/src/caller.h"

#include <chrono>
#include <utility>

#include <pybind11/pybind11.h>

#include "kith/base/error.h"

namespace kith::python {
namespace {

namespace py = pybind11;

// How long a signal may wait for its handler.
constexpr auto kLook = std::chrono::milliseconds(50);

}  // namespace

Caller::Caller(std::function<void()> cancel)
    : cancel_(std::move(cancel)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

void Caller::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return body_ != nullptr; })) {
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*body_)();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = std::move(failure);
    body_ = nullptr;
    changed_.notify_all();
  }
}

void Caller::run(const std::function<void()>& body) {
  if (interrupted_) {
    throw Error("a call was interrupted, and neighbours have gone on without this worker", "kith",
                "save what you need, and go on from a checkpoint");
  }
  if (std::this_thread::get_id() == thread_.get_id())
    throw InputError("asks the model, which waits for it", "give_position()",
                     "return what is known without collective functions and the state of kith's optimizers");
  std::optional<py::error_already_set> raised;
  std::exception_ptr failure;
  {
    const py::gil_scoped_release released;
    std::unique_lock lock(mutex_);
    body_ = &body;
    changed_.notify_all();
    while (!changed_.wait_for(lock, kLook, [&] { return body_ == nullptr; })) {
      if (raised) continue;
      lock.unlock();
      {
        const py::gil_scoped_acquire held;
        if (PyErr_CheckSignals() != 0) raised.emplace();
      }
      if (raised) cancel_();
      lock.lock();
    }
    failure = std::exchange(failure_, nullptr);
  }
  if (raised) {
    interrupted_ = true;
    throw std::move(*raised);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kith::python
