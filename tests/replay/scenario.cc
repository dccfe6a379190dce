#include "tests/replay/scenario.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include <sched.h>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/comm/memory_store.h"
#include "kith/engine/engine.h"
#include "kith/launch/views.h"
#include "tests/replay/mass.h"
#include "tests/replay/world.h"
#include "tests/support/processes.h"

namespace kith::replay {
namespace {

constexpr std::array<std::size_t, 2> kSizes{9, 16};
// Of the run's time: losses are told within half a second, and nothing else takes any.
constexpr double kLongest = 10;
constexpr std::string_view kPushed = "bucket0/pushed";

// How a worker's program ended.
struct Ending {
  enum class Kind : std::uint8_t { none, finished, left_out, failed } kind = Kind::none;
  std::string why;      // it failed
  std::string members;  // of the last view
  std::string model;
  std::string mean;                   // of all models
  std::vector<std::string> gathered;  // what each gather gave it
};

// Pulls elsewhere on every worker.
class Model {
 public:
  Model(int worker, std::span<const std::size_t> sizes) {
    Rng rng(hash_words(3, worker));
    for (const std::size_t size : sizes) {
      parameters_.emplace_back(size, 0.5 + worker);
      gradients_.emplace_back(size, 0.0);
      targets_.emplace_back(size, 0.0);
      for (double& value : targets_.back())
        value = rng.uniform() * 4 - 2;
    }
  }

  std::vector<engine::Segment> segments() {
    std::vector<engine::Segment> all;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::size_t size = parameters_[i].size();
      all.push_back({cat("p", i), parameters_[i].data(), size, DType::f64, size});
    }
    return all;
  }
  std::vector<engine::SegmentInput> backward(const engine::Engine& engine) {
    std::vector<engine::SegmentInput> inputs(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto* const x = static_cast<const double*>(engine.data(i));
      for (std::size_t k = 0; k < gradients_[i].size(); ++k)
        gradients_[i][k] = x[k] - targets_[i][k];
      inputs[i] = {gradients_[i].data(), DType::f64, 0.1, 0.01};
    }
    return inputs;
  }
  std::string text(const engine::Engine& engine) const {
    std::string text;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto* const x = static_cast<const double*>(engine.data(i));
      for (std::size_t k = 0; k < parameters_[i].size(); ++k)
        text += cat(std::hexfloat, x[k], " ");
    }
    return text;
  }
  // The mean of all models, among the members.
  std::string mean(engine::Engine& engine) {
    std::vector<std::vector<double>> parts;
    std::vector<void*> to;
    for (const auto& parameter : parameters_)
      parts.emplace_back(parameter.size(), 0.0);
    for (auto& part : parts)
      to.push_back(part.data());
    engine.average(to);
    std::string text;
    for (const auto& part : parts)
      for (const double value : part)
        text += cat(std::hexfloat, value, " ");
    return text;
  }

 private:
  std::vector<std::vector<double>> parameters_, gradients_, targets_;
};

// One run, as all of its workers' threads share it.
class Run {
 public:
  explicit Run(const Scenario& scenario)
      : scenario_(scenario),
        scheduler_({scenario.seed, scenario.faults}),
        world_(World::create(
            {scenario.workers, scenario.machines, scenario.travels, scenario.slow, scenario.bug})),
        mass_(scenario.workers, scenario.options.schedule, std::string(kPushed)),
        endings_(static_cast<std::size_t>(scenario.workers)) {}

  Verdict verdict() {
    std::vector<std::function<void()>> bodies;
    for (int i = 0; i < scenario_.workers; ++i)
      bodies.emplace_back([this, i] { work(i); });
    scheduler_.run(bodies, [this] { world_->carry_news(); });
    Verdict verdict;
    verdict.problem = scheduler_.failure();
    if (verdict.problem.empty()) verdict.problem = look(verdict);
    verdict.digest = scheduler_.digest();
    verdict.points = scheduler_.points();
    verdict.views = views_;
    verdict.overtaken = overtaken_;
    for (const Death& death : scheduler_.deaths())
      if (!death.orderly) verdict.deaths.push_back(death.at);
    return verdict;
  }

 private:
  void work(int worker) {
    Ending& ending = endings_[static_cast<std::size_t>(worker)];
    try {
      const auto transport = world_->join(worker, &silent_);
      try {
        train(worker, *transport, ending);
        ending.kind = Ending::Kind::finished;
      } catch (const launch::LeftOut& error) {
        ending.kind = Ending::Kind::left_out;
        ending.why = error.what();
      }
    } catch (const std::exception& error) {
      ending.kind = Ending::Kind::failed;
      ending.why = error.what();
    }
  }

  void train(int worker, comm::Transport& transport, Ending& ending) {
    const StderrLog loud(cat("worker ", worker));
    WorkersStore store(shared_, worker, scenario_.bug);
    const SteadyClock clock;
    Log* const log = std::getenv("KITH_REPLAY_LOG") != nullptr ? const_cast<StderrLog*>(&loud) : silent();
    const engine::WorldParts parts{&transport, &store, Members::first(scenario_.workers),
                                   &clock,     log,    nullptr};
    Model model(worker, kSizes);
    engine::Engine engine(parts, scenario_.options, model.segments());
    engine.start();
    engine.gather(0);  // everybody has the first model
    scheduler_.expose();
    for (const Operation operation : scenario_.operations) {
      step(worker, engine, model);
      log->info(cat("has made step ", engine.steps(), ", then ", static_cast<int>(operation), ", after ",
                    engine.operations(), " operations"));
      operate(operation, worker, engine, model, ending);
    }
    scheduler_.spare_everybody();
    ending.mean = model.mean(engine);
    log->info(cat("is at the end, after ", engine.operations(), " operations"));
    ending.model = model.text(engine);
    for (const WorkerId member : engine.world().members.workers)
      ending.members += cat(member.value, " ");
    // Whoever is left first would be missed by those who are still at it.
    ending.kind = Ending::Kind::finished;
    while (std::ranges::any_of(endings_, [&](const Ending& other) {
      return other.kind == Ending::Kind::none && !scheduler_.dead(static_cast<int>(&other - endings_.data()));
    }))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  Log* silent() { return &silent_; }

  void step(int worker, engine::Engine& engine, Model& model) {
    const std::int64_t before = engine.steps();
    const engine::StepReport report = engine.step(model.backward(engine), {});
    if (engine.steps() != before + 1 || report.step != before)
      scheduler_.fail(cat("worker ", worker, " makes step ", report.step, " after ", before, " steps"));
    note_members(worker, engine.world().members);
    if (!pushes()) return;
    for (const engine::StateSpan& span : engine.state()) {
      if (!span.name.ends_with("bucket0/weight")) continue;
      double weight = 0;
      std::memcpy(&weight, span.bytes.data(), sizeof(weight));
      mass_.stepped(worker, engine.world().members, {report.view, static_cast<std::uint64_t>(before) + 1},
                    weight);
    }
  }

  bool waits() const {
    return std::ranges::any_of(scenario_.faults,
                               [](const Fault& fault) { return fault.pause > std::chrono::seconds(1); });
  }
  bool pushes() const {
    return scenario_.options.algorithm == "sgp" || scenario_.options.algorithm == "q-push";
  }

  // Whoever is in a view knows the same members.
  void note_members(int worker, const Members& members) {
    const auto [known, fresh] = members_.emplace(members.view, members);
    views_ = std::max<std::uint64_t>(views_, members.view);
    if (!fresh && known->second.workers != members.workers)
      scheduler_.fail(cat("worker ", worker, " knows other members of view ", members.view));
  }

  void operate(Operation operation, int worker, engine::Engine& engine, Model& model, Ending& ending) {
    try {
      switch (operation) {
        case Operation::none:
          break;
        case Operation::gather: {
          std::string text;
          for (const double value : engine.gather(worker + 1))
            text += cat(value, " ");
          ending.gathered.push_back(text);
          break;
        }
        case Operation::average:
          model.mean(engine);
          break;
        case Operation::mean: {
          std::vector<double> numbers{1.0 * worker, 1};
          engine.mean(numbers);
          if (numbers[1] != 1) scheduler_.fail(cat("worker ", worker, ": the mean of ones is ", numbers[1]));
          break;
        }
        case Operation::distance:
          engine.consensus_distance();
          break;
      }
    } catch (const engine::Overtaken&) {
      ++overtaken_;
    }
  }

  // That of the first who is left of a worker's node.
  const std::string& model_of_node(int worker, const std::set<int>& survivors) const {
    const graph::Shape& shape = scenario_.options.schedule.shape;
    const auto first = std::ranges::find_if(
        survivors, [&](int other) { return shape.node_of(other) == shape.node_of(worker); });
    return endings_[static_cast<std::size_t>(*first)].model;
  }

  // What must hold at the end.
  std::string look(Verdict& verdict) {
    std::set<int> survivors;
    std::string members;
    for (int i = 0; i < scenario_.workers; ++i) {
      const Ending& ending = endings_[static_cast<std::size_t>(i)];
      if (ending.kind == Ending::Kind::failed) return cat("worker ", i, " failed: ", ending.why);
      if (ending.kind == Ending::Kind::left_out) {
        ++verdict.left_out;
        if (!scenario_.slow) return cat("worker ", i, " was left out, and nobody was slow: ", ending.why);
      }
      if (ending.kind != Ending::Kind::finished) continue;
      survivors.insert(i);
      members += cat(i, " ");
    }
    if (survivors.empty()) return "nobody is left";
    const double took = seconds(scheduler_.now() - Scheduler::kBeginning);
    if (!waits() && took > kLongest)
      return cat("it took ", took, " s: somebody waited for long, and nobody was slow");
    const Ending& first = endings_[static_cast<std::size_t>(*survivors.begin())];
    for (const int i : survivors) {
      const Ending& ending = endings_[static_cast<std::size_t>(i)];
      if (ending.members != members)
        return cat("worker ", i, " ends with the members ", ending.members, "and those left are ", members);
      if (ending.mean != first.mean) return cat("worker ", i, " has another mean of all models");
      // Who is late is missing to those who waited, and not to itself.
      if (!scenario_.slow && ending.gathered != first.gathered)
        return cat("worker ", i, " gathered other numbers");
      if (scenario_.options.algorithm == "allreduce" && ending.model != first.model)
        return cat("worker ", i, " has another model");
      if (scenario_.options.inside == "allreduce" && ending.model != model_of_node(i, survivors))
        return cat("worker ", i, " has another model than its node");
      if (ending.model.find("nan") != std::string::npos || ending.model.find("inf") != std::string::npos)
        return cat("worker ", i, " has a model that is not finite");
    }
    if (!pushes()) return {};
    verdict.lost_mass = mass_.lost(world_->records(), survivors);
    return mass_.problem(world_->records(), survivors);
  }

  const Scenario& scenario_;
  NullLog silent_;
  Scheduler scheduler_;
  const std::shared_ptr<World> world_;
  comm::MemoryStore shared_;
  MassBook mass_;
  std::vector<Ending> endings_;
  std::map<std::uint32_t, Members> members_;
  std::uint64_t views_ = 0, overtaken_ = 0;
};

// Threads that take turns do so fastest there.
void stay_on_one_core(int which) {
  cpu_set_t cores, own;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  int left = which % CPU_COUNT(&cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || left-- > 0) continue;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof(own), &own);
    return;
  }
}

}  // namespace

Verdict replay(const Scenario& scenario) {
  auto* const run = new Run(scenario);  // threads of the dead keep using it
  return run->verdict();
}

std::string encode(const Verdict& verdict) {
  std::string text = cat(verdict.digest, " ", verdict.points, " ", verdict.views, " ", verdict.overtaken, " ",
                         verdict.left_out, " ", verdict.lost_mass, "\n", verdict.problem, "\n");
  for (const std::string& death : verdict.deaths)
    text += death + "\n";
  return text;
}

Verdict decode_verdict(const std::string& text) {
  Verdict verdict;
  std::istringstream in(text);
  in >> verdict.digest >> verdict.points >> verdict.views >> verdict.overtaken >> verdict.left_out >>
      verdict.lost_mass;
  in.ignore();
  std::getline(in, verdict.problem);
  for (std::string death; std::getline(in, death);)
    verdict.deaths.push_back(death);
  return verdict;
}

namespace {

std::vector<Verdict> replay_apart(std::span<const Scenario> scenarios) {
  support::Processes processes(static_cast<int>(scenarios.size()), [&](int i) {
    stay_on_one_core(i);
    return encode(replay(scenarios[static_cast<std::size_t>(i)]));
  });
  std::vector<Verdict> verdicts;
  for (const support::Ending& ending : processes.join(std::chrono::seconds(60))) {
    if (ending.good()) {
      verdicts.push_back(decode_verdict(ending.report));
    } else {
      verdicts.emplace_back().problem = ending.timed_out
                                            ? "it does not come to an end"
                                            : cat("it crashed: signal ", ending.signal, " ", ending.report);
    }
  }
  return verdicts;
}

}  // namespace

void replay_all(const std::vector<Scenario>& scenarios, const Look& look) {
  constexpr std::size_t kAtOnce = 4;
  for (std::size_t first = 0; first < scenarios.size(); first += kAtOnce) {
    const std::span<const Scenario> some =
        std::span(scenarios).subspan(first, std::min(kAtOnce, scenarios.size() - first));
    const std::vector<Verdict> verdicts = replay_apart(some);
    for (std::size_t k = 0; k < some.size(); ++k)
      if (!look(some[k], verdicts[k])) return;
  }
}

}  // namespace kith::replay
