#include "kith/launch/vigil.h"

#include <charconv>
#include <string>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::launch {
namespace {

// A list of workers (WillStore), "3", or "3 joined" for one that nobody needs any more to join.
constexpr std::string_view kEnded = "kith/ended";
constexpr std::string_view kJoined = " joined";

}  // namespace

Vigil::Vigil(comm::WillStore& store, WorkerId self) : store_(store), self_(self) {
  store_.leave_will(kEnded, std::to_string(self.value));
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Vigil::~Vigil() {
  watcher_.request_stop();
  watcher_.join();
  if (in_peace_) store_.withdraw_will();
}

void Vigil::become_dispensable() {
  store_.leave_will(kEnded, cat(self_.value, kJoined));
}

std::optional<WorkerId> Vigil::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Vigil::watch(const std::stop_token& stop) {
  try {
    for (int number = 1;; ++number) {
      const auto word = store_.wait(comm::list_key(kEnded, number), Deadline::max(), stop);
      if (!word) return;
      hear(*word);
    }
  } catch (const Error&) {
    // The store is lost: whoever asks it finds that out.
  }
}

void Vigil::hear(const std::string& word) {
  WorkerId worker;
  const char* const end = word.data() + word.size();
  const auto [rest, status] = std::from_chars(word.data(), end, worker.value);
  if (status != std::errc{}) return;
  const bool needed = std::string_view(rest, end) != kJoined;
  if (needed) {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = worker;
  }
  losses_->tell(worker, needed ? comm::Losses::Needed::yes : comm::Losses::Needed::no);
}

}  // namespace kith::launch
