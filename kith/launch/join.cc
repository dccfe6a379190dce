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
#include "kith/launch/vigil.h"

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

std::shared_ptr<comm::WillStore> open_store(const Assignment& assignment, Log* log, Deadline deadline,
                                            std::unique_ptr<comm::TcpStoreServer, Farewell>& server) {
  if (assignment.store->is_folder()) return std::make_shared<comm::FileStore>(assignment.store->folder);
  if (assignment.worker == 0) server.reset(serve(assignment, log).release());
  comm::TcpStoreOptions client{.server = server ? reach(server->bound()) : assignment.store->address,
                               .secret = assignment.secret,
                               .log = log};
  if (!server) client.interface = assignment.interface;
  return std::make_shared<comm::TcpStore>(client, deadline);
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
  value = joining.store.get(key);
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
  comm::TransportOptions transport;
  if (!assignment.store) {
    world.store = std::make_shared<comm::MemoryStore>();
  } else {
    const std::shared_ptr<comm::WillStore> store =
        open_store(assignment, options.log, deadline, world.server);
    world.store = store;
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
  if (world.vigil) world.vigil->leave_in_peace();
  return World(std::move(world));
}

World join(const JoinOptions& options) {
  return join(discover(read_environment()), options);
}

}  // namespace kith::launch
