// A newcomer's part in joining: Note [How a worker joins] in admissions.h.
#include <charconv>
#include <thread>
#include <utility>

#include "kith/base/text.h"
#include "kith/launch/admission_words.h"
#include "kith/launch/admissions.h"
#include "kith/launch/parcel.h"

namespace kith::launch {
namespace {

constexpr auto kTryAgain = std::chrono::milliseconds(20);
constexpr auto kFirstPause = std::chrono::milliseconds(100);  // between two calls for a view
constexpr int kMostAttempts = 20;

class Newcomer {
 public:
  using Look = std::function<std::int64_t(const std::vector<std::byte>&)>;

  Newcomer(comm::Store& store, comm::ExtensibleTransport& transport, const Clock& clock, Log& log,
           const NewcomerOptions& options)
      : store_(store),
        transport_(transport),
        clock_(clock),
        log_(log),
        options_(options),
        deadline_(clock.now() + options.patience) {}

  Entrance enter(const Look& look) {
    std::string why = "nobody answers";
    for (int attempt = 0; attempt < kMostAttempts && clock_.now() < deadline_; ++attempt) {
      try {
        number_ = take_number(attempt);
        return apply(look);
      } catch (const InputError&) {
        throw;
      } catch (const TooLate&) {
        throw;
      } catch (const Error& error) {
        why = error.what();
        log_.warning(cat("admission ", number_, ": ", why, "; applies again"));
        // The members may not know: a donor that went after it had met everybody has told nobody.
        store_.set_once(key("outcome"), cat("failed: ", why));
      }
    }
    throw Error(cat("has not been taken in: ", why), place(), "see the logs of the members");
  }

 private:
  std::string place() const { return cat(transport_.self(), " joins ", options_.name); }
  std::string key(std::string_view part) const { return admission_key(options_.name, number_, part); }

  // The first that nobody has applied under, whoever died in the middle of it.
  std::int64_t take_number(int attempt) {
    require_running();
    const std::string latest = views_key(options_.name, "applications");
    const std::string own = encode(Application{transport_.self(), attempt, options_.facts});
    std::int64_t number = 1;
    if (const auto known = store_.get(latest))
      std::from_chars(known->data(), known->data() + known->size(), number);
    while (store_.set_once(application_key(options_.name, number), own) != own)
      ++number;
    store_.set(latest, cat(number));
    return number;
  }

  void require_running() {
    if (store_.get(over_key(options_.name)))
      throw TooLate("the job is over", place(), "nothing is left to do");
  }

  // Why the admission has failed; empty: it has not.
  std::string failure() {
    const auto outcome = store_.get(key("outcome"));
    return outcome && taken_view(*outcome) == 0 ? *outcome : std::string();
  }

  // Error as soon as the admission has failed, or the job is over.
  std::vector<std::byte> receive(comm::Transport& transport, WorkerId donor) {
    const auto cancellation = std::make_shared<comm::Cancellation>();
    const std::jthread watch([&](const std::stop_token& stop) {
      try {
        while (!store_.wait(key("outcome"), clock_.now() + kTryAgain, stop) && !stop.stop_requested() &&
               !store_.get(over_key(options_.name), stop)) {
        }
      } catch (const Error&) {
        // The store is lost, or the state has come.
      }
      if (!stop.stop_requested()) cancellation->cancel();
    });
    return receive_parcel(transport, {"state", donor, transport_.self(), deadline_, cancellation});
  }

  // Bounded; Error when the admission has failed meanwhile, TooLate when the job is over.
  std::string await(const std::string& wanted, std::string_view what) {
    while (true) {
      if (auto value = store_.wait(wanted, clock_.now() + kTryAgain)) return *value;
      require_running();
      if (const std::string why = failure(); !why.empty()) throw Error(why, place());
      if (clock_.now() >= deadline_)
        throw TooLate(cat(what, " has not come within ", seconds(options_.patience), " s"), place(),
                      "is the job still running, and can it take newcomers in?");
    }
  }

  Entrance apply(const Look& look) {
    const Answer answer = decode_answer(await(key("answer"), "an answer of the members"));
    if (!answer.refusal.empty())
      throw InputError(answer.refusal, place(), "start it with the setup of the job that it joins");
    Entrance entrance;
    entrance.transport = transport_.extend(key("transport"), answer.workers);
    store_.set(key(cat("met/", transport_.self().value)), "yes");
    entrance.state = receive(*entrance.transport, answer.donor);
    const std::int64_t steps = look(entrance.state);
    for (const WorkerId worker : answer.workers)
      await(key(cat("met/", worker.value)), cat(worker));
    store_.set(key("ready"), cat(steps));
    entrance.view = call(answer.view);
    return entrance;
  }

  // For one view after the other, until one takes this worker in.
  View call(std::uint32_t stood) {
    auto pause = kFirstPause;
    for (std::uint32_t view = stood + 1;; ++view) {
      if (!store_.get(view_key(options_.name, view, "view")))
        store_.set_once(view_key(options_.name, view, "called"),
                        gentle_call(cat(transport_.self(), " joins")));
      const View agreed = decode_view(await(view_key(options_.name, view, "view"), cat("view ", view)));
      if (agreed.has(transport_.self())) return agreed;
      const auto outcome = store_.get(key("outcome"));
      if (outcome && taken_view(*outcome) <= view) throw Error(cat("view ", view, " is without it"), place());
      // Somebody was in the middle of an operation.
      store_.wait(key("outcome"), clock_.now() + pause);
      pause *= 2;
    }
  }

  comm::Store& store_;
  comm::ExtensibleTransport& transport_;
  const Clock& clock_;
  Log& log_;
  const NewcomerOptions& options_;
  const Deadline deadline_;
  std::int64_t number_ = 0;
};

}  // namespace

Entrance enter(comm::Store& store, comm::ExtensibleTransport& transport, const Clock& clock, Log& log,
               const NewcomerOptions& options,
               const std::function<std::int64_t(const std::vector<std::byte>& state)>& look) {
  return Newcomer(store, transport, clock, log, options).enter(look);
}

}  // namespace kith::launch
