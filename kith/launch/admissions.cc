#include "kith/launch/admissions.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "kith/base/text.h"
#include "kith/launch/admission_words.h"
#include "kith/launch/parcel.h"

namespace kith::launch {
namespace {

constexpr auto kLookAgain = std::chrono::milliseconds(20);

bool has(const std::vector<WorkerId>& workers, WorkerId worker) {
  return std::ranges::find(workers, worker) != workers.end();
}

}  // namespace

Admissions::Admissions(comm::Store& store, comm::ExtensibleTransport& transport, const Clock& clock, Log& log,
                       AdmissionsOptions options)
    : store_(store), transport_(transport), clock_(clock), log_(log), options_(std::move(options)) {
  listener_ = std::jthread([this](const std::stop_token& stop) {
    try {
      listen(stop);
    } catch (const Error&) {
      // The store is lost, or a stop was requested: whoever needs the store finds out.
    }
  });
}

Admissions::~Admissions() = default;

std::string Admissions::key(std::int64_t number, std::string_view part) const {
  return admission_key(options_.name, number, part);
}

void Admissions::listen(const std::stop_token& stop) {
  for (std::int64_t number = options_.after + 1;; ++number) {
    const auto application = store_.wait(application_key(options_.name, number), Deadline::max(), stop);
    if (!application) return;
    admit(number, *application, stop);
    const std::lock_guard lock(mutex_);
    current_.reset();
  }
}

void Admissions::admit(std::int64_t number, const std::string& application, const std::stop_token& stop) {
  const Answer answer = decode_answer(this->answer(number, application, stop));
  if (!answer.refusal.empty() || !has(answer.workers, transport_.self())) return;
  Current current{number, decode_application(application).worker, answer.workers, {}};
  try {
    current.transport = transport_.extend(key(number, "transport"), current.workers);
  } catch (const Error& error) {
    return fail(number, error.what(), stop);
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = current;
  }
  store_.set(key(number, cat("met/", transport_.self().value)), "yes", stop);
  if (answer.donor == transport_.self()) give(current, stop);
  see_through(current, stop);
}

// The lowest member that is alive says it; the next one when it dies.
std::string Admissions::answer(std::int64_t number, const std::string& application,
                               const std::stop_token& stop) {
  while (true) {
    const Members members = options_.members();
    const auto gone = [&](WorkerId w) { return w != transport_.self() && transport_.lost(w); };
    const auto speaker = std::ranges::find_if_not(members.workers, gone);
    if (speaker != members.workers.end() && *speaker == transport_.self()) {
      const Application asked = decode_application(application);
      Answer own;
      own.refusal = options_.objection(asked.facts, members);
      own.view = members.view;
      std::ranges::copy_if(members.workers, std::back_inserter(own.workers),
                           [&](WorkerId w) { return !gone(w); });
      // Another one each time, so that one that cannot give is not asked again at once.
      own.donor = own.workers[static_cast<std::size_t>(number) % own.workers.size()];
      if (!has(own.workers, asked.worker)) own.workers.push_back(asked.worker);
      std::ranges::sort(own.workers);
      return store_.set_once(key(number, "answer"), encode(own), stop);
    }
    if (auto told = store_.wait(key(number, "answer"), clock_.now() + kLookAgain, stop)) return *told;
    if (stop.stop_requested()) throw Error("stopped", cat(transport_.self()));
  }
}

void Admissions::give(const Current& current, const std::stop_token& stop) {
  const auto state = options_.copy(stop);
  if (!state) return;
  ParcelOptions parcel{"state", transport_.self(), current.newcomer, clock_.now() + options_.patience,
                       std::make_shared<comm::Cancellation>()};
  const std::stop_callback ended(stop, [&] { parcel.cancellation->cancel(); });
  try {
    const Clock::Time begin = clock_.now();
    send_parcel(*current.transport, parcel, *state);
    log_.info(cat("gave ", current.newcomer, " ", state->size(), " bytes of state in ",
                  seconds(clock_.now() - begin), " s"));
  } catch (const Error& error) {
    fail(current.number, error.what(), stop);
  }
}

void Admissions::see_through(const Current& current, const std::stop_token& stop) {
  const Deadline deadline = clock_.now() + options_.patience;
  const auto missed = [&](WorkerId w) {
    return w != transport_.self() && w != current.newcomer && transport_.lost(w) &&
           !store_.get(key(current.number, cat("met/", w.value)), stop);
  };
  while (!stop.stop_requested()) {
    const auto outcome = store_.wait(key(current.number, "outcome"), clock_.now() + kLookAgain, stop);
    if (outcome) {
      const std::uint32_t view = taken_view(*outcome);
      if (options_.members().view >= view) return;  // 0: it failed
      std::unique_lock lock(mutex_);
      settled_.wait_for(lock, stop, kLookAgain, [&] { return options_.members().view >= view; });
      continue;
    }
    if (current.transport->lost(current.newcomer)) {
      fail(current.number, cat(current.newcomer, " is gone"), stop);
    } else if (std::ranges::any_of(current.workers, missed)) {
      fail(current.number, "a member is gone", stop);
    } else if (clock_.now() >= deadline) {
      fail(current.number, cat(current.newcomer, " has not come within ", seconds(options_.patience), " s"),
           stop);
    }
  }
}

void Admissions::fail(std::int64_t number, const std::string& why, const std::stop_token& stop) {
  if (stop.stop_requested()) return;
  if (taken_view(store_.set_once(key(number, "outcome"), cat("failed: ", why), stop)) == 0)
    log_.warning(cat("admission ", number, " came to nothing: ", why));
}

std::optional<Candidate> Admissions::candidate(const Members& members) {
  std::unique_lock lock(mutex_);
  if (!current_ || !current_->transport) return {};
  const Current current = *current_;
  lock.unlock();
  const bool reachable =
      std::ranges::all_of(members.workers, [&](WorkerId w) { return has(current.workers, w); });
  if (!reachable || has(members.workers, current.newcomer) || current.transport->lost(current.newcomer))
    return {};
  const auto ready = store_.get(key(current.number, "ready"));
  if (!ready) return {};
  if (store_.set_once(key(current.number, "outcome"), taken_for(members.view)) != taken_for(members.view))
    return {};
  Candidate candidate{current.newcomer, current.number, 0};
  std::from_chars(ready->data(), ready->data() + ready->size(), candidate.steps);
  return candidate;
}

std::shared_ptr<comm::Transport> Admissions::transport(std::int64_t admission) const {
  const std::lock_guard lock(mutex_);
  return current_ && current_->number == admission ? current_->transport : nullptr;
}

bool Admissions::lost(WorkerId worker) const {
  const std::lock_guard lock(mutex_);
  if (!current_ || !current_->transport || worker != current_->newcomer) return false;
  return current_->transport->lost(worker);
}

void close_admissions(comm::Store& store, const std::string& name) {
  store.set_once(over_key(name), "yes");
}

}  // namespace kith::launch
