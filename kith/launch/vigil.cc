#include "kith/launch/vigil.h"

#include <charconv>

#include "kith/base/error.h"

namespace kith::launch {
namespace {

constexpr std::string_view kEnded = "kith/ended";

}  // namespace

Vigil::Vigil(comm::WillStore& store, WorkerId self) : store_(store) {
  store_.leave_will(kEnded, std::to_string(self.value));
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Vigil::~Vigil() {
  watcher_.request_stop();
  watcher_.join();
  if (in_peace_) store_.withdraw_will();
}

std::optional<WorkerId> Vigil::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Vigil::watch(const std::stop_token& stop) {
  std::optional<std::string> text;
  try {
    text = store_.wait(kEnded, Deadline::max(), stop);
  } catch (const Error&) {
    return;  // the store is lost: whoever asks it finds that out
  }
  WorkerId worker;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), worker.value).ec != std::errc{})
    return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = worker;
  }
  losses_->tell(worker);
}

}  // namespace kith::launch
