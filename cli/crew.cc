#include "cli/crew.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <numeric>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/agreement.h"

namespace kith::cli {

Crew::Crew(Supervisor& supervisor, CrewOptions options)
    : supervisor_(supervisor),
      options_(std::move(options)),
      began_with_(std::accumulate(options_.hosts.begin(), options_.hosts.end(), 0)),
      newcomers_(began_with_) {}

void Crew::begin() {
  int worker = 0;
  for (std::size_t host = 0; host < options_.hosts.size(); ++host)
    for (int local = 0; local < options_.hosts[host]; ++local)
      start(worker++, {static_cast<int>(host), local});
}

void Crew::start(int worker, Seat seat) {
  running_[worker] = {.seat = seat, .began = SteadyClock().now()};
  options_.start(worker, seat);
}

void Crew::ended(int worker, const Ending& ending, bool left) {
  const Worker gone = running_.extract(worker).mapped();
  if (ending.code == 0 && !left) one_finished_ = true;
  replace(worker, gone, ending.code);
  say_when_over();
}

void Crew::replace(int worker, const Worker& gone, int code) {
  if (!options_.elastic || code == 0 || gone.leaves || closing()) return;
  const auto lived = SteadyClock().now() - gone.began;
  const auto id = newcomers_.replace(code, std::chrono::duration_cast<std::chrono::milliseconds>(lived));
  if (newcomers_.given_up())
    std::cerr << "kith launch: nobody replaces worker " << worker
              << ": the last three that died had lived for less than 5 s" << std::endl;
  if (!id) return;
  ++coming_;
  supervisor_.hold();
  supervisor_.later(Newcomers::kPause, [this, id, worker, gone] {
    --coming_;
    supervisor_.release();
    if (closing() || no_host_left()) return say_when_over();
    std::cerr << "kith launch: worker " << *id << " comes for worker " << worker << std::endl;
    start(*id, gone_hosts_.contains(gone.seat.host) ? free_seat() : gone.seat);
  });
}

std::vector<int> Crew::host_ended(int host, int code) {
  gone_hosts_.insert(host);
  std::vector<int> there;
  for (const auto& [worker, known] : running_)
    if (known.seat.host == host) there.push_back(worker);
  for (const int worker : there)
    replace(worker, running_.extract(worker).mapped(), code);
  say_when_over();
  return there;
}

void Crew::say_when_over() {
  if (running_.empty() && coming_ == 0 && options_.over) options_.over();
}

std::string Crew::names() const {
  std::vector<int> workers;
  for (const auto& [worker, known] : running_)
    workers.push_back(worker);
  return workers.empty() ? "ssh" : launch::name_workers(workers);
}

// ---- kith scale

std::string Crew::scale_to(int wanted, bool can_leave) {
  const Elastic& elastic = *options_.elastic;
  if (wanted < elastic.least || wanted > elastic.most)
    throw InputError(cat(wanted, " workers are asked for"), "--elastic",
                     cat("a number from ", elastic.least, " to ", elastic.most));
  if (closing()) throw InputError("the job is about to end");
  const auto stays = [](const auto& entry) { return !entry.second.leaves; };
  const int there = coming_ + static_cast<int>(std::ranges::count_if(running_, stays));
  if (wanted < there && !can_leave)
    throw InputError("no kith train has begun here", "kith scale",
                     "only its workers leave when they are asked");
  const std::string who = wanted > there   ? add(wanted - there)
                          : wanted < there ? take_away(there - wanted)
                                           : std::string();
  return cat(wanted, wanted == 1 ? " worker is wanted" : " workers are wanted",
             who.empty() ? ", as there are" : cat(": ", who));
}

Seat Crew::free_seat() const {
  std::vector<int> counts(options_.hosts.size(), 0);
  for (const auto& [worker, known] : running_)
    ++counts[static_cast<std::size_t>(known.seat.host)];
  for (const int host : gone_hosts_)
    counts[static_cast<std::size_t>(host)] = std::numeric_limits<int>::max();
  Seat seat{static_cast<int>(std::ranges::min_element(counts) - counts.begin()), 0};
  const auto taken = [&](const auto& entry) {
    return entry.second.seat.host == seat.host && entry.second.seat.local == seat.local;
  };
  while (std::ranges::any_of(running_, taken))
    ++seat.local;
  return seat;
}

std::string Crew::add(int many) {
  if (no_host_left()) throw InputError("no machine is left");
  std::vector<std::string> names;
  for (int k = 0; k < many; ++k) {
    const int id = newcomers_.add();
    start(id, free_seat());
    names.push_back(cat("worker ", id));
  }
  return cat(kith::join(names), many == 1 ? " comes" : " come");
}

std::string Crew::take_away(int many) {
  std::vector<std::string> names;
  for (auto entry = running_.rbegin(); entry != running_.rend() && many > 0; ++entry) {
    if (entry->second.leaves) continue;
    entry->second.leaves = true;
    names.push_back(cat("worker ", entry->first));
    options_.ask_to_leave(entry->first, entry->second.seat);
    --many;
  }
  return cat(kith::join(names), names.size() == 1 ? " leaves" : " leave");
}

}  // namespace kith::cli
