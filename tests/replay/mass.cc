#include "tests/replay/mass.h"

#include <algorithm>
#include <cmath>

#include "kith/base/text.h"
#include "kith/graph/matrix.h"

namespace kith::replay {

void MassBook::stepped(int worker, const Members& members, Version v, double weight) {
  members_.emplace(members.view, members);
  after_.emplace(std::pair{worker, v}, weight);
}

double MassBook::share(const Members& members, Version v, int from, int to) const {
  const auto rank_of = [&](int worker) {
    const auto found = std::ranges::find(members.workers, WorkerId{worker});
    return found == members.workers.end() ? -1 : static_cast<int>(found - members.workers.begin());
  };
  if (rank_of(from) < 0 || rank_of(to) < 0) return 0;
  graph::ScheduleOptions options = schedule_;
  options.shape = graph::Shape::single_node(members.size());
  const auto schedule = graph::make_schedule(options);
  return graph::mixing_matrix(*schedule, static_cast<std::int64_t>(v.step) - 1)(rank_of(to), rank_of(from));
}

double MassBook::held(int worker) const {
  double weight = 1;
  for (const auto& [key, after] : after_)
    if (key.first == worker) weight = after;  // in the order of versions
  return weight;
}

std::string MassBook::problem(const Records& records, const std::set<int>& survivors) const {
  std::vector<std::map<Version, const Records::Publication*>> all;
  for (int worker = 0; worker < workers_; ++worker)
    all.push_back(records.of(worker, window_));
  for (const auto& [key, after] : after_) {
    const auto& [worker, v] = key;
    const Members& members = members_.at(v.view);
    const Records::Publication& own = *all[static_cast<std::size_t>(worker)].at(v);
    double least = share(members, v, worker, worker) * own.weight, most = least;
    for (const int reader : own.known_lost)
      least += share(members, v, worker, reader) * own.weight;
    for (const int reader : own.known_lost_at)
      most += share(members, v, worker, reader) * own.weight;
    for (int writer = 0; writer < workers_; ++writer) {
      const auto found = all[static_cast<std::size_t>(writer)].find(v);
      if (writer == worker || found == all[static_cast<std::size_t>(writer)].end()) continue;
      if (!found->second->taken.contains(worker)) continue;
      const double taken = share(members, v, writer, worker) * found->second->weight;
      least += taken;
      most += taken;
    }
    if (after < least - 1e-12 || after > most + 1e-12) {
      return cat("worker ", worker, " has the weight ", after, " after version ", v, ", by the account ",
                 least, " to ", most);
    }
  }
  double mass = lost(records, survivors);
  for (const int worker : survivors)
    mass += held(worker);
  if (std::abs(mass - workers_) > 1e-9)
    return cat("survivors hold, and the dead took along, ", mass, " of ", workers_);
  return {};
}

double MassBook::lost(const Records& records, const std::set<int>& survivors) const {
  double lost = 0;
  for (int worker = 0; worker < workers_; ++worker) {
    bool under_way = false;  // the last publication, of a step that was not finished
    for (const auto& [v, published] : records.of(worker, window_)) {
      if (!members_.contains(v.view)) continue;
      const Members& members = members_.at(v.view);
      const auto after = after_.find({worker, v});
      double taken = 0, kept = 0;
      for (const int reader : published->taken)
        if (after_.contains({reader, v})) taken += share(members, v, worker, reader) * published->weight;
      under_way = after == after_.end();
      if (under_way) {
        lost += published->weight - taken;
        continue;
      }
      // Whatever it has now that it did not take from others it has kept.
      kept = after->second;
      for (int writer = 0; writer < workers_; ++writer) {
        const auto others = records.of(writer, window_);
        const auto found = others.find(v);
        if (writer == worker || found == others.end() || !found->second->taken.contains(worker)) continue;
        kept -= share(members, v, writer, worker) * found->second->weight;
      }
      lost += published->weight - taken - kept;
    }
    if (!survivors.contains(worker) && !under_way) lost += held(worker);
  }
  return lost;
}

}  // namespace kith::replay
