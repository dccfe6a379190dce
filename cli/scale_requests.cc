#include "cli/scale_requests.h"

#include <charconv>
#include <iostream>
#include <utility>

#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/train/run/begun.h"

namespace kith::cli {
namespace {

constexpr auto kAttempt = std::chrono::seconds(1);  // to reach a store that somebody else may have to start
constexpr int kMostAttempts = 300;
constexpr char kDone = '=';
constexpr char kRefused = '!';

std::string scale_key(int number, const char* part) {
  return cat("launch/scale/", number, "/", part);
}

int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string to_words(const ScaleRequest& request) {
  return cat(request.workers, request.can_leave ? " 1" : " 0");
}

ScaleRequest parse_scale_request(std::string_view words) {
  return {.workers = number_in(words), .can_leave = words.ends_with(" 1")};
}

ScaleClerk::ScaleClerk(Supervisor& supervisor, Open open,
                       std::function<void(const ScaleRequest& request)> ask, Log& log)
    : open_(std::move(open)), log_(log), pipe_(make_pipe()) {
  supervisor.hear(
      pipe_.read.get(), [ask = std::move(ask)](std::string_view words) { ask(parse_scale_request(words)); },
      [] {});
  thread_ = std::jthread([this](const std::stop_token& stop) {
    try {
      serve(stop);
    } catch (const Error& error) {
      if (!stop.stop_requested()) log_.warning(cat("cannot be scaled: ", error.what()));
    }
  });
}

ScaleClerk::~ScaleClerk() = default;

void ScaleClerk::answer(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  answer_ = sentence;
  answered_.notify_all();
}

std::optional<std::string> ScaleClerk::await_answer(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  answered_.wait(lock, stop, [&] { return answer_.has_value(); });
  return std::exchange(answer_, std::nullopt);
}

std::shared_ptr<comm::WillStore> ScaleClerk::reach(const std::stop_token& stop) {
  for (int attempt = 1; !stop.stop_requested(); ++attempt) {
    try {
      return open_(SteadyClock().now() + kAttempt);
    } catch (const InputError&) {
      throw;
    } catch (const Error&) {
      if (attempt == kMostAttempts) throw;
    }
    std::unique_lock lock(mutex_);
    answered_.wait_for(lock, stop, kAttempt, [] { return false; });
  }
  return nullptr;
}

void ScaleClerk::serve(const std::stop_token& stop) {
  const std::shared_ptr<comm::WillStore> store = reach(stop);
  if (!store) return;
  for (int number = 0;; ++number) {
    const auto wanted = store->wait(scale_key(number, "wanted"), Deadline::max(), stop);
    if (!wanted) return;
    const ScaleRequest request{number_in(*wanted), store->get(train::kBegunKey, stop).has_value()};
    const std::string words = to_words(request) + "\n";
    if (::write(pipe_.write.get(), words.data(), words.size()) < 0) return;  // the supervisor is gone
    const auto answer = await_answer(stop);
    if (!answer) return;
    store->set(scale_key(number, "answer"), *answer, stop);
  }
}

std::string answer_of(const std::function<std::string()>& act) {
  try {
    const std::string done = act();
    std::cerr << "kith launch: " << done << std::endl;
    return kDone + done;
  } catch (const InputError& error) {
    return kRefused + std::string(error.what());
  }
}

std::string ask_to_scale(comm::Store& store, const std::string& place, int workers, Deadline deadline) {
  const std::string own = cat(workers, " ", hex(random_bytes(8)));  // two may ask at once
  int number = 0;
  while (store.set_once(scale_key(number, "wanted"), own) != own)
    ++number;
  const auto answer = store.wait(scale_key(number, "answer"), deadline);
  if (!answer || answer->empty())
    throw Error("nobody answers", place,
                "a run can be scaled that was started by kith launch --elastic MIN:MAX");
  if (answer->front() == kRefused) throw InputError(answer->substr(1), "kith launch");
  return answer->substr(1);
}

}  // namespace kith::cli
