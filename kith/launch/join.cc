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

constexpr auto kFarewell = std::chrono::seconds(10);  // for the others to leave before the store does
constexpr auto kLongWait = std::chrono::seconds(5);   // after which a wait explains itself
constexpr auto kAnswer = std::chrono::seconds(20);  // beyond the patience, for worker 0 to say what it found

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

std::string own_name(const Place& place) {
  return cat("worker ", place.worker);
}

std::vector<Fact> facts_of(const Place& place, const JoinOptions& options) {
  std::vector<Fact> facts{{"kith's version", KITH_VERSION},
                          {"the windows' protocol", std::to_string(comm::protocol::kProtocol)},
                          {"the run", place.run},
                          {"the number of workers", std::to_string(place.workers)},
                          {"the transport", options.backend}};
  facts.insert(facts.end(), options.facts.begin(), options.facts.end());
  return facts;
}

std::unique_ptr<comm::TcpStoreServer> serve(const Place& place, Log* log) {
  const MeetingPoint& at = *place.store;
  std::unique_ptr<comm::TcpStoreServer> server;
  try {
    server = std::make_unique<comm::TcpStoreServer>(comm::TcpStoreServerOptions{
        .listen = {.at = at.address, .interface = place.interface}, .secret = place.secret, .log = log});
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.what(), cat("the store's port (", at.origin, ")"), "set KITH_PORT on all workers");
  }
  if (log) {
    log->info(cat("the store listens on ", comm::net::text_of(server->bound()), " (", at.origin, "), ",
                  place.secret.empty() ? "whoever reaches it may join: KITH_SECRET_FILE is not set"
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
void judge(comm::Store& store, const Place& place, Deadline deadline, Log* log) {
  std::vector<std::vector<Fact>> facts;
  std::vector<int> missing;
  for (int worker = 0; worker < place.workers; ++worker) {
    const std::string explanation = cat("waits for worker ", worker, " to join, of ", place.workers);
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

void agree(comm::Store& store, const Place& place, const JoinOptions& options, Deadline deadline) {
  const std::string who = cat(host_name(), ", process ", ::getpid());
  std::vector<Fact> record{{who, hex(random_bytes(8))}};
  for (Fact& fact : facts_of(place, options))
    record.push_back(std::move(fact));
  const std::string own = encode_facts(record);
  if (const std::string first = store.set_once(key_of(place.worker), own); first != own) {
    throw InputError(cat("there is one already: ", decode_facts(first).front().name), own_name(place),
                     "each worker's number must be given once, and a store serves one run");
  }
  if (place.worker == 0) judge(store, place, deadline, options.log);
  const auto verdict = wait_for(store, std::string(kVerdict), deadline + kAnswer, options.log,
                                "has joined and waits for the others");
  const std::string limit = cat("within ", seconds(options.patience), " s");
  if (!verdict) throw Error(cat("worker 0 has not answered ", limit), own_name(place), "see how it ended");
  const std::string problem = verdict->substr(1);
  if (verdict->front() == kMissing)
    throw Error(cat(problem, " ", limit), own_name(place), "see how it ended");
  if (verdict->front() == kDiffer)
    throw InputError(cat("the workers differ: ", problem), own_name(place), "start all with the same setup");
}

BackendQuestion question_of(const Place& place, const JoinOptions& options) {
  return {.asked = options.backend,
          .workers = place.workers,
          .one_machine = place.local_workers == place.workers,
          .on_gpu = options.gpu.has_value()};
}

}  // namespace

Joined::Joined(Joined&&) noexcept = default;

Joined::~Joined() {
  transport_.reset();
  store_.reset();
  if (server_) server_->drain(SteadyClock().now() + kFarewell);
}

Joined join(const Place& place, const JoinOptions& asked) {
  JoinOptions options = asked;
  options.backend = choose_backend(question_of(place, asked), backend_available);
  const Deadline deadline = SteadyClock().now() + options.patience;
  Joined world;
  world.members_ = Members::first(place.workers);
  if (!place.store) {
    world.store_ = std::make_unique<comm::MemoryStore>();
  } else if (place.store->is_folder()) {
    world.store_ = std::make_unique<comm::FileStore>(place.store->folder);
  } else {
    if (place.worker == 0) world.server_ = serve(place, options.log);
    comm::TcpStoreOptions client{
        .server = world.server_ ? reach(world.server_->bound()) : place.store->address,
        .secret = place.secret,
        .log = options.log};
    if (!world.server_) client.interface = place.interface;
    world.store_ = std::make_unique<comm::TcpStore>(client, deadline);
  }
  agree(*world.store_, place, options, deadline);

  comm::TransportOptions transport;
  transport.self = WorkerId{place.worker};
  transport.workers = world.members_.workers;
  transport.store = world.store_.get();
  if (place.workers == 1) transport.world = comm::InprocWorld::create(1);
  transport.device = options.gpu.value_or(0);
  transport.log = options.log;
  transport.network.secret = place.secret;
  transport.network.interface = place.interface;
  transport.network.meet_within = options.patience;
  world.transport_ = comm::make_transport(options.backend, transport);
  return world;
}

}  // namespace kith::launch
