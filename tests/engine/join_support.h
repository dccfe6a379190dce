#pragma once

#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kith/comm/extensible.h"
#include "kith/optim/methods.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {

// A world that begins with `founders` workers, and that those beyond may join: every body of run_world gets
// one, of the same `shared`.
class Elastic {
 public:
  Elastic(support::Worker& own, std::string_view backend, int founders,
          const std::shared_ptr<comm::InprocGenerations>& shared, comm::Store* store = nullptr)
      : transport_(make(own, backend, founders, shared)),
        worker{own.rank, founders, transport_, store ? *store : own.store} {}

 private:
  static comm::MakeGeneration generations(support::Worker& own, std::string_view backend,
                                          const std::shared_ptr<comm::InprocGenerations>& shared) {
    if (backend == "inproc") return comm::generations_of_threads(shared, own.id());
    comm::TransportOptions options = support::transport_options(own.rank, own.size, own.store);
    options.network.interface = "lo";
    options.network.secret = "a secret of tests";
    options.network.meet_within = std::chrono::seconds(20);
    if (backend == "routed") options.network.machine = own.rank % 2 == 0 ? "even" : "odd";
    return comm::generations_of_processes(std::string(backend), options);
  }
  static comm::ExtensibleTransport make(support::Worker& own, std::string_view backend, int founders,
                                        const std::shared_ptr<comm::InprocGenerations>& shared) {
    const comm::MakeGeneration generation = generations(own, backend, shared);
    if (own.rank < founders) return {generation("first", Members::first(founders).workers), generation};
    return {comm::InprocWorld::create(std::vector{own.id()})->join(own.id()), generation};
  }

  comm::ExtensibleTransport transport_;

 public:
  support::Worker worker;  // its size is the number of founders
};

inline constexpr int kFounders = 3;
inline constexpr int kMore = 10;  // steps after the last change

// Newcomers come when all founders have started: whoever dies before that ends them all.
inline void come_after_founders(support::Worker& worker) {
  if (worker.rank >= kFounders) {
    EXPECT_TRUE(worker.store.wait("founded", support::in_time()));
  }
}
inline void start(support::Worker& worker, Quadratic<double>& quadratic) {
  quadratic.engine().start();
  if (worker.rank < kFounders && worker.store.add("founders", 1) == kFounders)
    worker.store.set("founded", "");
}

inline EngineOptions options_of(const std::string& algorithm) {
  const optim::Method& method = optim::method_of(algorithm);
  const bool directed = algorithm == "sgp" || algorithm == "q-push";
  EngineOptions options =
      options_for(algorithm, method.optimizer.empty() ? "adamw" : std::string(method.optimizer),
                  directed                ? "exp-directed"
                  : algorithm == "diloco" ? "complete"
                  : algorithm == "noloco" ? "matching"
                                          : "exp");
  if (method.codec == optim::Method::Codec::needed) options.codec = "qsgd 4";
  if (method.takes_outer) options.mix_every = 3;
  options.reforms = true;
  return options;
}

inline std::vector<std::string> all_methods() {
  std::vector<std::string> names;
  for (const optim::Method& method : optim::methods())
    names.emplace_back(method.name);
  return names;
}

inline std::string members_of(Quadratic<double>& quadratic) {
  std::string text;
  for (const WorkerId worker : quadratic.engine().world().members.workers)
    text += cat(worker.value, " ");
  return text;
}

inline void step_slowly(Quadratic<double>& quadratic) {
  const StepReport report = quadratic.step();
  EXPECT_TRUE(report.late.empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Steps until the view has these members, then for as long as everybody does.
inline void step_until(Quadratic<double>& quadratic, const std::string& members) {
  const Deadline deadline = support::in_time();
  while (members_of(quadratic) != members) {
    ASSERT_LT(SteadyClock().now(), deadline) << members_of(quadratic) << "where " << members << "should be";
    step_slowly(quadratic);
  }
}
inline void step_to(Quadratic<double>& quadratic, std::int64_t steps) {
  while (quadratic.engine().steps() < steps)
    step_slowly(quadratic);
}

inline std::vector<double> mean_of(Quadratic<double>& quadratic) {
  std::vector<std::vector<double>> parts{std::vector<double>(7), std::vector<double>(1),
                                         std::vector<double>(40), std::vector<double>(16)};
  std::vector<void*> to;
  for (auto& part : parts)
    to.push_back(part.data());
  quadratic.engine().average(to);
  std::vector<double> all;
  for (const auto& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline double weight_of(Quadratic<double>& quadratic) {
  double weight = 0;
  for (const StateSpan& span : quadratic.engine().state())
    if (span.name.ends_with("bucket0/weight")) std::memcpy(&weight, span.bytes.data(), sizeof(weight));
  return weight;
}

inline double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Members, the step, the mean of all models, and with all-reduce the model.
inline std::string account(Quadratic<double>& quadratic) {
  const bool reduces = quadratic.engine().options().algorithm == "allreduce";
  return cat(members_of(quadratic), "at ", quadratic.engine().steps(), " | ", text_of(mean_of(quadratic)),
             reduces ? cat(" | ", text_of(quadratic.model())) : "");
}

inline void expect_equal(const std::vector<std::string>& reports, const std::set<int>& who) {
  std::set<std::string> different;
  for (const int rank : who)
    different.insert(reports.at(static_cast<std::size_t>(rank)));
  EXPECT_EQ(different.size(), 1u) << testing::PrintToString(different);
  EXPECT_FALSE(different.begin()->empty());
}

struct Case {
  std::string algorithm, backend;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.algorithm << " over " << c.backend;
  }
};

}  // namespace kith::engine
