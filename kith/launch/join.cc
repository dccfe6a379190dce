#include "kith/launch/join.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/comm/extensible.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/protocol/layout.h"
#include "kith/comm/registry.h"
#include "kith/launch/agreement.h"
#include "kith/launch/backend.h"
#include "kith/launch/vigil.h"

namespace kith::launch {
namespace {

constexpr auto kLongWait = std::chrono::seconds(5);  // after which a wait explains itself
constexpr auto kAnswer = std::chrono::seconds(20);   // beyond the patience, for worker 0 to say what it found

// What to do where a store is lost.
constexpr const char* kWorkersRemedy =
    "worker 0 holds it, and the run ends with it: see how that one ended, and go on from the last "
    "checkpoint; "
    "with kith launch, or with --store etcd://HOST:PORT/NAME, tcp://HOST:PORT or a folder, no worker holds "
    "it";

constexpr auto kMeetAgain = std::chrono::seconds(20);  // for a transport with a newcomer in it
constexpr int kMostTries = 10000;                      // for an id that is free

constexpr const char* kRunFact = "the run";
constexpr const char* kWorkersFact = "the number of workers";
constexpr const char* kTransportFact = "the transport";
constexpr std::string_view kVerdict = "kith/join/verdict";
constexpr char kAgreed = '=';
constexpr char kDiffer = '!';
constexpr char kMissing = '?';

std::string key_of(int worker) {
  return cat("kith/join/", worker);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

std::string own_name(const Assignment& assignment) {
  return cat("worker ", assignment.worker);
}

std::vector<Fact> facts_of(const Assignment& assignment, const JoinOptions& options) {
  std::vector<Fact> facts{{"kith's version", KITH_VERSION},
                          {"the windows' protocol", std::to_string(comm::protocol::kProtocol)},
                          {kRunFact, assignment.run},
                          {kWorkersFact, std::to_string(assignment.workers)},
                          {kTransportFact, options.backend}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  return facts;
}

comm::net::Address reach(const comm::net::Address& bound) {
  return bound.host == "0.0.0.0" ? comm::net::Address{"127.0.0.1", bound.port} : bound;
}

// Of an etcd cluster: with the name of the run.
MeetingPoint named(const Assignment& assignment) {
  MeetingPoint at = *assignment.store;
  // What torchrun calls a run is the same for all of them unless the user says otherwise.
  if (at.run.empty() && assignment.launcher != "torchrun") at.run = assignment.run;
  if (at.is_etcd() && at.run.empty()) {
    throw InputError(cat("'", at.text(), "' does not name the run"), at.origin,
                     "etcd://HOST:PORT,.../NAME, with another name for every run");
  }
  return at;
}

std::shared_ptr<comm::WillStore> open_store(const Assignment& assignment, Log* log, Deadline deadline,
                                            std::unique_ptr<comm::TcpStoreServer, Farewell>& server) {
  MeetingPoint at = named(assignment);
  ReachOptions client{.interface = assignment.interface, .secret = assignment.secret, .log = log};
  if (!at.served) client.remedy = kWorkersRemedy;
  if (assignment.worker == 0 && at.by_worker()) {
    const ServeOptions serving{.interface = assignment.interface, .secret = assignment.secret, .log = log};
    server.reset(serve_store(at, serving).release());
    at.address = reach(server->bound());
    client.interface.clear();
  }
  return reach_store(at, client, deadline);
}

// What the parts of joining share.
struct Joining {
  const Assignment& assignment;
  const JoinOptions& options;
  const Deadline deadline;
  comm::WillStore& store;
  std::unique_ptr<Vigil> vigil;
};

[[noreturn]] void fail_without(WorkerId worker, const Assignment& assignment) {
  throw Error(cat(worker, " ended before everybody had joined"), own_name(assignment), "see how it ended");
}

// Waits, and says for whom when it takes long. Error when somebody ends meanwhile.
std::optional<std::string> wait_for(const Joining& joining, const std::string& key, Deadline deadline,
                                    const std::string& explanation) {
  const std::stop_token stop = joining.vigil->losses()->any();
  const Deadline patient = std::min<Deadline>(deadline, SteadyClock().now() + kLongWait);
  auto value = joining.store.wait(key, patient, stop);
  if (!value && patient < deadline && !stop.stop_requested()) {
    if (Log* log = joining.options.log) log->info(explanation);
    value = joining.store.wait(key, deadline, stop);
  }
  if (value || !stop.stop_requested()) return value;
  // Whoever ended may have done so because of what the key says.
  try {
    value = joining.store.get(key);
  } catch (const Error&) {
    // Who held the store may have ended too, and for the same reason.
  }
  if (!value) fail_without(joining.vigil->ended().value(), joining.assignment);
  return value;
}

// Worker 0's part: hears everybody out and publishes what it found.
void judge(const Joining& joining) {
  const Assignment& assignment = joining.assignment;
  std::vector<std::vector<Fact>> facts;
  std::vector<int> missing;
  for (int worker = 0; worker < assignment.workers; ++worker) {
    const std::string explanation = cat("waits for worker ", worker, " to join, of ", assignment.workers);
    const auto told = wait_for(joining, key_of(worker), joining.deadline, explanation);
    if (!told) {
      missing.push_back(worker);
      continue;
    }
    facts.push_back(decode_facts(*told));
    facts.back().erase(facts.back().begin());  // who it is, in which all differ
  }
  std::string verdict(1, kAgreed);
  if (!missing.empty()) {
    verdict = cat(kMissing, name_workers(missing), missing.size() > 1 ? " have" : " has", " not come");
  } else if (const std::string problem = differences(facts); !problem.empty()) {
    verdict = cat(kDiffer, problem);
  }
  joining.store.set(kVerdict, verdict);
}

void agree(Joining& joining) {
  const Assignment& assignment = joining.assignment;
  const JoinOptions& options = joining.options;
  const std::string who = cat(host_name(), ", process ", ::getpid());
  std::vector<Fact> record{{who, hex(random_bytes(8))}};
  for (Fact& fact : facts_of(assignment, options))
    record.push_back(std::move(fact));
  const std::string own = encode_facts(record);
  joining.vigil = std::make_unique<Vigil>(joining.store, WorkerId{assignment.worker});
  if (const std::string first = joining.store.set_once(key_of(assignment.worker), own); first != own) {
    joining.vigil->leave_in_peace();  // the other one may be well
    throw InputError(cat("there is one already: ", decode_facts(first).front().name), own_name(assignment),
                     "each worker's number must be given once, and a store serves one run");
  }
  if (assignment.worker == 0) judge(joining);
  const auto verdict = wait_for(joining, std::string(kVerdict), joining.deadline + kAnswer,
                                "has joined and waits for the others");
  const std::string limit = cat("within ", seconds(options.patience), " s");
  if (!verdict)
    throw Error(cat("worker 0 has not answered ", limit), own_name(assignment), "see how it ended");
  if (verdict->starts_with(kMissing))
    throw Error(cat(verdict->substr(1), " ", limit), own_name(assignment), "see how it ended");
  if (verdict->starts_with(kDiffer))
    throw InputError(cat("the workers differ: ", verdict->substr(1)), own_name(assignment),
                     "start all with the same setup");
  if (!verdict->starts_with(kAgreed)) throw Error("worker 0's verdict is malformed", own_name(assignment));
}

BackendQuestion question_of(const Assignment& assignment, const JoinOptions& options) {
  return {.asked = options.backend,
          .workers = assignment.workers,
          .one_machine = assignment.local_workers == assignment.workers,
          .on_gpu = options.gpu.has_value()};
}

std::string fact_named(const std::vector<Fact>& facts, std::string_view name) {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? std::string() : found->value;
}

// How workers of other lists than the first reach each other; none where models lie in memory of GPUs.
comm::MakeGeneration generations(const std::string& backend, comm::TransportOptions options) {
  if (backend == "cuda_ipc" || options.store == nullptr) return {};
  options.network.meet_within = kMeetAgain;
  options.world = nullptr;
  const bool alone = backend == "inproc";  // the first list had one worker
  return comm::generations_of_processes(alone ? (backend_available("shm") ? "shm" : "routed") : backend,
                                        std::move(options));
}

void make_extensible(WorldParts& world, const std::string& backend, const comm::TransportOptions& options) {
  comm::MakeGeneration make = generations(backend, options);
  if (!make) return;
  auto transport = std::make_unique<comm::ExtensibleTransport>(std::move(world.transport), std::move(make));
  world.extensible = transport.get();
  world.transport = std::move(transport);
}

// What the worker that began as number 0 said of the run, once all had agreed on it.
std::vector<Fact> facts_of_run(const Assignment& assignment, const JoinOptions& options, comm::Store& store,
                               Deadline deadline) {
  const auto verdict = store.wait(kVerdict, deadline);
  const auto told = verdict && verdict->starts_with(kAgreed) ? store.get(key_of(0)) : std::nullopt;
  if (!told)
    throw Error(cat("the run has not begun within ", seconds(options.patience), " s"), own_name(assignment),
                "a newcomer joins a job that runs, with that job's store");
  std::vector<Fact> facts = decode_facts(*told);
  facts.erase(facts.begin());
  return facts;
}

// An id that is free, from the one that was assigned on, and word of this process under it.
int take_id(const Assignment& assignment, comm::Store& store) {
  const std::string who = cat(host_name(), ", process ", ::getpid());
  const std::string own = encode_facts({{who, hex(random_bytes(8))}});
  for (int id = assignment.worker; id < assignment.worker + kMostTries; ++id) {
    if (store.set_once(key_of(id), own) == own) return id;
  }
  throw Error(cat("no id is free from ", assignment.worker, " on"), own_name(assignment));
}

// A newcomer: agrees with what the run was begun with, and is a world of its own until a model takes it in.
World join_running(Assignment assignment, JoinOptions options) {
  const Deadline deadline = SteadyClock().now() + options.patience;
  if (!assignment.store)
    throw InputError("a newcomer needs the store of the job that it joins", own_name(assignment),
                     "KITH_STORE, or --join STORE");
  WorldParts world;
  world.newcomer = true;
  const std::shared_ptr<comm::WillStore> store = open_store(assignment, options.log, deadline, world.server);
  world.store = store;
  std::vector<Fact> run = facts_of_run(assignment, options, *store, deadline);
  options.backend = fact_named(run, kTransportFact);
  if (assignment.workers == 0) assignment.workers = std::stoi(fact_named(run, kWorkersFact));
  if (assignment.run.empty()) assignment.run = fact_named(run, kRunFact);
  assignment.worker = std::max(assignment.worker, assignment.workers);
  const std::vector<Fact> own = facts_of(assignment, options);
  // What it does not say of itself it takes from the run.
  std::erase_if(
      run, [&](const Fact& fact) { return std::ranges::find(own, fact.name, &Fact::name) == own.end(); });
  if (const std::string problem = differences({run, own}); !problem.empty())
    throw InputError(cat("the newcomer, here called worker 1, differs from the run: ", problem),
                     own_name(assignment), "start it with the setup of the job that it joins");
  assignment.worker = take_id(assignment, *store);
  if (!options.log) {
    world.own_log = std::make_unique<StderrLog>(own_name(assignment));
    options.log = world.own_log.get();
  }
  world.log = options.log;
  const WorkerId self{assignment.worker};
  world.vigil = std::make_shared<Vigil>(*store, self);
  world.vigil->leave_in_peace();
  world.vigil->become_dispensable();
  comm::TransportOptions transport{.self = self,
                                   .workers = {self},
                                   .store = world.store.get(),
                                   .device = options.gpu.value_or(0),
                                   .world = nullptr,
                                   .log = options.log,
                                   .network = {},
                                   .losses = world.vigil->losses()};
  transport.network.secret = assignment.secret;
  transport.network.interface = assignment.interface;
  world.transport = comm::InprocWorld::create(std::vector<WorkerId>{self})->join(self, options.log);
  make_extensible(world, options.backend, transport);
  if (!world.extensible)
    throw InputError(cat("a job over '", options.backend, "' takes nobody in"), own_name(assignment),
                     "workers in GPU memory cannot be joined: go on from a checkpoint with more of them");
  return World(std::move(world));
}

}  // namespace

World join(const Assignment& assignment, const JoinOptions& asked) {
  if (assignment.newcomer) return join_running(assignment, asked);
  JoinOptions options = asked;
  options.backend = choose_backend(question_of(assignment, options), backend_available);
  const Deadline deadline = SteadyClock().now() + options.patience;
  WorldParts world;
  if (!options.log) {
    world.own_log = std::make_unique<StderrLog>(own_name(assignment));
    options.log = world.own_log.get();
  }
  world.log = options.log;
  const auto complete = [&](comm::Store& store) {
    if (!asked.complete) return;
    asked.complete(store, options);
    options.backend = choose_backend(question_of(assignment, options), backend_available);
  };
  comm::TransportOptions transport;
  if (!assignment.store) {
    world.store = std::make_shared<comm::MemoryStore>();
    complete(*world.store);
  } else {
    const std::shared_ptr<comm::WillStore> store =
        open_store(assignment, options.log, deadline, world.server);
    world.store = store;
    complete(*store);
    Joining joining{assignment, options, deadline, *store, {}};
    agree(joining);
    world.vigil = std::move(joining.vigil);
    transport.losses = world.vigil->losses();
  }

  transport.self = WorkerId{assignment.worker};
  transport.workers = Members::first(assignment.workers).workers;
  transport.store = world.store.get();
  if (assignment.workers == 1) transport.world = comm::InprocWorld::create(1);
  transport.device = options.gpu.value_or(0);
  transport.log = options.log;
  transport.network.secret = assignment.secret;
  transport.network.interface = assignment.interface;
  transport.network.meet_within = options.patience;
  try {
    world.transport = comm::make_transport(options.backend, transport);
  } catch (const InputError&) {
    throw;
  } catch (const Error&) {
    const auto ended = world.vigil ? world.vigil->ended() : std::nullopt;
    if (ended) fail_without(*ended, assignment);
    throw;
  }
  if (assignment.store) make_extensible(world, options.backend, transport);
  if (world.vigil) world.vigil->leave_in_peace();
  if (world.vigil && options.deaths == Deaths::go_on) world.vigil->become_dispensable();
  return World(std::move(world));
}

World join(const JoinOptions& options) {
  return join(discover(read_environment()), options);
}

}  // namespace kith::launch
