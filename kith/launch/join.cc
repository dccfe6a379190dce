#include "kith/launch/join.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/comm/inproc/world.h"
#include "kith/comm/memory_store.h"
#include "kith/comm/protocol/layout.h"
#include "kith/comm/registry.h"
#include "kith/comm/tcp_store.h"
#include "kith/launch/agreement.h"
#include "kith/launch/backend.h"

namespace kith::launch {
namespace {

constexpr auto kLongWait = std::chrono::seconds(5);  // after which a wait explains itself
constexpr auto kAnswer = std::chrono::seconds(20);   // beyond the patience, for worker 0 to say what it found

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
                          {"the run", assignment.run},
                          {"the number of workers", std::to_string(assignment.workers)},
                          {"the transport", options.backend}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  return facts;
}

std::unique_ptr<comm::TcpStoreServer> serve(const Assignment& assignment, Log* log) {
  const MeetingPoint& at = *assignment.store;
  std::unique_ptr<comm::TcpStoreServer> server;
  try {
    server = std::make_unique<comm::TcpStoreServer>(
        comm::TcpStoreServerOptions{.listen = {.at = at.address, .interface = assignment.interface},
                                    .secret = assignment.secret,
                                    .log = log});
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.what(), cat("the store's port (", at.origin, ")"), "set KITH_PORT on all workers");
  }
  if (log) {
    log->info(cat("the store listens on ", comm::net::text_of(server->bound()), " (", at.origin, "), ",
                  assignment.secret.empty() ? "whoever reaches it may join: KITH_SECRET_FILE is not set"
                                            : "joining needs the run secret"));
  }
  return server;
}

comm::net::Address reach(const comm::net::Address& bound) {
  return bound.host == "0.0.0.0" ? comm::net::Address{"127.0.0.1", bound.port} : bound;
}

// Waits, and says for whom when it takes long.
std::optional<std::string> wait_for(comm::Store& store, const std::string& key, Deadline deadline, Log* log,
                                    const std::string& explanation) {
  const Deadline patient = std::min<Deadline>(deadline, SteadyClock().now() + kLongWait);
  if (auto value = store.wait(key, patient)) return value;
  if (patient == deadline) return std::nullopt;
  if (log) log->info(explanation);
  return store.wait(key, deadline);
}

// Worker 0's part: hears everybody out and publishes what it found.
void judge(comm::Store& store, const Assignment& assignment, Deadline deadline, Log* log) {
  std::vector<std::vector<Fact>> facts;
  std::vector<int> missing;
  for (int worker = 0; worker < assignment.workers; ++worker) {
    const std::string explanation = cat("waits for worker ", worker, " to join, of ", assignment.workers);
    const auto told = wait_for(store, key_of(worker), deadline, log, explanation);
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
  store.set(kVerdict, verdict);
}

void agree(comm::Store& store, const Assignment& assignment, const JoinOptions& options, Deadline deadline) {
  const std::string who = cat(host_name(), ", process ", ::getpid());
  std::vector<Fact> record{{who, hex(random_bytes(8))}};
  for (Fact& fact : facts_of(assignment, options))
    record.push_back(std::move(fact));
  const std::string own = encode_facts(record);
  if (const std::string first = store.set_once(key_of(assignment.worker), own); first != own) {
    throw InputError(cat("there is one already: ", decode_facts(first).front().name), own_name(assignment),
                     "each worker's number must be given once, and a store serves one run");
  }
  if (assignment.worker == 0) judge(store, assignment, deadline, options.log);
  const auto verdict = wait_for(store, std::string(kVerdict), deadline + kAnswer, options.log,
                                "has joined and waits for the others");
  const std::string limit = cat("within ", seconds(options.patience), " s");
  if (!verdict)
    throw Error(cat("worker 0 has not answered ", limit), own_name(assignment), "see how it ended");
  const std::string problem = verdict->substr(1);
  if (verdict->front() == kMissing)
    throw Error(cat(problem, " ", limit), own_name(assignment), "see how it ended");
  if (verdict->front() == kDiffer)
    throw InputError(cat("the workers differ: ", problem), own_name(assignment),
                     "start all with the same setup");
}

BackendQuestion question_of(const Assignment& assignment, const JoinOptions& options) {
  return {.asked = options.backend,
          .workers = assignment.workers,
          .one_machine = assignment.local_workers == assignment.workers,
          .on_gpu = options.gpu.has_value()};
}

}  // namespace

World join(const Assignment& assignment, const JoinOptions& asked) {
  JoinOptions options = asked;
  options.backend = choose_backend(question_of(assignment, asked), backend_available);
  const Deadline deadline = SteadyClock().now() + options.patience;
  WorldParts world;
  if (!options.log) {
    world.own_log = std::make_unique<StderrLog>(own_name(assignment));
    options.log = world.own_log.get();
  }
  world.log = options.log;
  if (!assignment.store) {
    world.store = std::make_shared<comm::MemoryStore>();
  } else if (assignment.store->is_folder()) {
    world.store = std::make_shared<comm::FileStore>(assignment.store->folder);
  } else {
    if (assignment.worker == 0) world.server.reset(serve(assignment, options.log).release());
    comm::TcpStoreOptions client{
        .server = world.server ? reach(world.server->bound()) : assignment.store->address,
        .secret = assignment.secret,
        .log = options.log};
    if (!world.server) client.interface = assignment.interface;
    world.store = std::make_shared<comm::TcpStore>(client, deadline);
  }
  agree(*world.store, assignment, options, deadline);

  comm::TransportOptions transport;
  transport.self = WorkerId{assignment.worker};
  transport.workers = Members::first(assignment.workers).workers;
  transport.store = world.store.get();
  if (assignment.workers == 1) transport.world = comm::InprocWorld::create(1);
  transport.device = options.gpu.value_or(0);
  transport.log = options.log;
  transport.network.secret = assignment.secret;
  transport.network.interface = assignment.interface;
  transport.network.meet_within = options.patience;
  world.transport = comm::make_transport(options.backend, transport);
  return World(std::move(world));
}

World join(const JoinOptions& options) {
  return join(discover(read_environment()), options);
}

}  // namespace kith::launch
