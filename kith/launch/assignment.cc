#include "kith/launch/assignment.h"

#include <charconv>
#include <cstdint>

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/shortened.h"
#include "kith/base/text.h"
#include "kith/launch/nodelist.h"
#include "kith/launch/secret.h"

namespace kith::launch {
namespace {

constexpr int kFirstDerivedPort = 20000;
constexpr std::size_t kMostOfValue = 60;  // characters of a variable that a message shows
constexpr int kDerivedPorts = 10000;      // below 32768, where Linux begins to give ports to clients

std::optional<int> to_number(std::string_view text) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// One port per job, the same on all its workers.
std::uint16_t derived_port(std::string_view job) {
  const std::string digest = sha256(job);
  const auto byte = [&](std::size_t i) { return int{static_cast<unsigned char>(digest[i])}; };
  return static_cast<std::uint16_t>(kFirstDerivedPort +
                                    (byte(0) << 16 | byte(1) << 8 | byte(2)) % kDerivedPorts);
}

// Reads a launcher's variables, remembers them, and gathers what is wrong with them.
class Reader {
 public:
  Reader(const Environment& environment, Assignment& assignment)
      : environment_(environment), assignment_(assignment) {}

  bool has(std::string_view name) const { return environment_.contains(name); }

  std::optional<std::string> text(const std::string& name) {
    const auto found = environment_.find(name);
    std::optional<std::string> value;
    if (found != environment_.end()) value = found->second;
    assignment_.variables.push_back({name, value});
    return value;
  }
  std::string need_text(const std::string& name) {
    const auto value = text(name);
    if (!value) missing(name);
    if (value && value->empty()) wrong(cat(name, " is empty"));
    return value.value_or("");
  }
  std::optional<int> number(const std::string& name) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto parsed = to_number(*value);
    if (!parsed) wrong(cat(name, " is not a number"));
    return parsed;
  }
  int need_number(const std::string& name) {
    if (!has(name)) {
      need_text(name);
      return 0;
    }
    return number(name).value_or(0);
  }
  std::optional<std::uint16_t> port(const std::string& name) {
    const auto value = number(name);
    if (value && (*value < 1 || *value > 65535)) wrong(cat(name, " is not a port"));
    return value ? std::optional(static_cast<std::uint16_t>(*value)) : std::nullopt;
  }
  void wrong(const std::string& problem) { problems_.push_back(problem); }
  void missing(const std::string& name) { missing_.push_back(name); }
  bool complete() const { return missing_.empty(); }

  // InputError with all problems and all variables that are set, when there are problems.
  void check() const {
    std::vector<std::string> problems = problems_;
    if (!missing_.empty())
      problems.insert(problems.begin(),
                      cat(kith::join(missing_), missing_.size() == 1 ? " is" : " are", " not set"));
    if (problems.empty()) return;
    std::string seen;
    for (const Variable& variable : assignment_.variables)
      if (variable.value) seen += cat(" ", variable.name, "=", shortened(*variable.value, kMostOfValue));
    throw InputError(cat(kith::join(problems, "; "), ", with", seen.empty() ? " nothing else" : seen),
                     cat("environment (", assignment_.launcher, ")"),
                     "set them as the launcher does, or unset them all");
  }

 private:
  const Environment& environment_;
  Assignment& assignment_;
  std::vector<std::string> problems_;
  std::vector<std::string> missing_;
};

// The meeting point that goes with any launcher: KITH_STORE itself, or the host at KITH_PORT, or at the
// launcher's own port.
struct Usual {
  std::string host;
  std::optional<std::uint16_t> port;
  std::string origin;
};

void find_store(Reader& reader, Assignment& assignment, const Usual& usual) {
  const auto store = reader.text("KITH_STORE");
  const auto port = reader.port("KITH_PORT");
  // Where one is told, others may join who begins alone.
  if (store && (assignment.workers > 1 || assignment.launcher == "kith")) {
    assignment.store = parse_meeting_point(*store, "KITH_STORE");
  } else if (assignment.workers <= 1) {
    return;
  } else if (usual.host.empty()) {
    reader.wrong("nothing tells where worker 0 is: set KITH_STORE=HOST:PORT on all workers");
  } else if (port) {
    assignment.store = MeetingPoint{{}, {usual.host, *port}, "KITH_PORT"};
  } else if (usual.port) {
    assignment.store = MeetingPoint{{}, {usual.host, *usual.port}, usual.origin};
  } else {
    reader.wrong("there is no port for the store: set KITH_PORT on all workers");
  }
}

void check_numbers(Reader& reader, const Assignment& assignment) {
  if (assignment.workers < 1 && !reader.complete()) return;  // nothing to compare with
  if (assignment.workers < 1) reader.wrong("a world has at least one worker");
  if (assignment.newcomer && assignment.worker < assignment.workers)
    reader.wrong(cat("worker ", assignment.worker, " of ", assignment.workers, " is no newcomer"));
  if (!assignment.newcomer && assignment.worker >= assignment.workers && assignment.workers > 0)
    reader.wrong(
        cat("worker ", assignment.worker, " of ", assignment.workers, " does not exist (they count from 0)"));
  if (assignment.local_rank.has_value() != assignment.local_workers.has_value()) {
    reader.wrong("of local rank and local size only one is told");
  } else if (assignment.local_rank) {
    if (*assignment.local_rank >= *assignment.local_workers)
      reader.wrong(
          cat("local rank ", *assignment.local_rank, " of ", *assignment.local_workers, " does not exist"));
    if (*assignment.local_workers > assignment.workers)
      reader.wrong(cat(*assignment.local_workers, " workers on this machine are more than ",
                       assignment.workers, " in all"));
  }
}

void from_flags(Reader& reader, Assignment& assignment, const AssignmentFlags& flags) {
  assignment.worker = *flags.worker;
  if (!flags.workers) {
    throw InputError(cat("worker ", *flags.worker, " of how many?"), "--worker", "give --workers too");
  }
  assignment.workers = *flags.workers;
  if (assignment.worker < 0 || assignment.worker >= assignment.workers) {
    throw InputError(cat("worker ", assignment.worker, " of ", assignment.workers, " does not exist"),
                     "--worker", "workers count from 0");
  }
  if (!flags.store.empty()) {
    assignment.store = parse_meeting_point(flags.store, "--store");
  } else {
    find_store(reader, assignment, {});
  }
}

void from_kith(Reader& reader, Assignment& assignment) {
  assignment.worker = reader.need_number("KITH_WORKER");
  assignment.workers = reader.need_number("KITH_WORKERS");
  assignment.local_rank = reader.number("KITH_LOCAL_RANK");
  assignment.local_workers = reader.number("KITH_LOCAL_WORKERS");
  assignment.newcomer = reader.text(std::string(kNewcomer)).has_value();
  assignment.left_file = reader.text(std::string(kLeftFile)).value_or("");
  find_store(reader, assignment, {});
}

void from_torchrun(Reader& reader, Assignment& assignment) {
  assignment.worker = reader.need_number("RANK");
  assignment.workers = reader.need_number("WORLD_SIZE");
  assignment.local_rank = reader.number("LOCAL_RANK");
  assignment.local_workers = reader.number("LOCAL_WORLD_SIZE");
  const std::string host = reader.need_text("MASTER_ADDR");
  const std::string master_port = reader.need_text("MASTER_PORT");
  assignment.run = reader.text("TORCHELASTIC_RUN_ID").value_or("");
  if (const auto restart = reader.text("TORCHELASTIC_RESTART_COUNT")) assignment.run += cat("/", *restart);
  Usual usual{host, std::nullopt, "MASTER_PORT + 1"};
  if (const auto taken = to_number(master_port)) {
    if (*taken < 1 || *taken > 65535) reader.wrong("MASTER_PORT is not a port");
    if (*taken < 65535) usual.port = static_cast<std::uint16_t>(*taken + 1);
  } else if (!master_port.empty()) {
    reader.wrong("MASTER_PORT is not a number");
  }
  find_store(reader, assignment, usual);
  if (assignment.store && assignment.store->origin == "KITH_PORT" &&
      std::to_string(assignment.store->address.port) == master_port) {
    reader.wrong("KITH_PORT is MASTER_PORT, which the launcher itself holds");
  }
}

// The first address in "1762066432.0;tcp://10.0.0.5,192.168.0.5:43419;tcp6://...": where mpirun runs.
std::string host_of_mpirun(const std::string& uri) {
  constexpr std::string_view kScheme = "tcp://";
  const auto at = uri.find(kScheme);
  if (at == std::string::npos) return {};
  const auto begin = at + kScheme.size();
  return uri.substr(begin, uri.find_first_of(",:;", begin) - begin);
}

void from_open_mpi(Reader& reader, Assignment& assignment) {
  assignment.worker = reader.need_number("OMPI_COMM_WORLD_RANK");
  assignment.workers = reader.need_number("OMPI_COMM_WORLD_SIZE");
  assignment.local_rank = reader.need_number("OMPI_COMM_WORLD_LOCAL_RANK");
  assignment.local_workers = reader.need_number("OMPI_COMM_WORLD_LOCAL_SIZE");
  assignment.run = reader.text("PMIX_NAMESPACE").value_or("");
  const std::string mpirun = host_of_mpirun(reader.text("OMPI_MCA_orte_hnp_uri").value_or(""));
  const bool one_machine = assignment.local_workers == assignment.workers;
  Usual usual{one_machine ? "127.0.0.1" : mpirun, std::nullopt, "from PMIX_NAMESPACE"};
  if (!assignment.run.empty()) usual.port = derived_port(assignment.run);
  find_store(reader, assignment, usual);
}

void from_slurm(Reader& reader, Assignment& assignment) {
  assignment.worker = reader.need_number("SLURM_PROCID");
  assignment.workers = reader.need_number("SLURM_STEP_NUM_TASKS");
  assignment.local_rank = reader.need_number("SLURM_LOCALID");
  const int node = reader.need_number("SLURM_NODEID");
  const std::string list = reader.need_text("SLURM_STEP_NODELIST");
  const std::string tasks = reader.need_text("SLURM_STEP_TASKS_PER_NODE");
  assignment.run = cat(reader.need_text("SLURM_JOB_ID"), ".", reader.need_text("SLURM_STEP_ID"));
  reader.check();
  const std::vector<std::string> nodes = expand_nodelist(list, "SLURM_STEP_NODELIST");
  const std::vector<int> per_node = expand_tasks_per_node(tasks, "SLURM_STEP_TASKS_PER_NODE");
  if (nodes.size() != per_node.size() || node >= static_cast<int>(nodes.size())) {
    reader.wrong(cat("node ", node, " of ", nodes.size(), " with ", per_node.size(), " task counts"));
    assignment.local_rank.reset();
  } else {
    assignment.local_workers = per_node[static_cast<std::size_t>(node)];
  }
  find_store(reader, assignment,
             {nodes.size() == 1 ? "127.0.0.1" : nodes.front(), derived_port(assignment.run),
              "from SLURM_JOB_ID and SLURM_STEP_ID"});
}

}  // namespace

Assignment discover(const Environment& environment, const AssignmentFlags& flags) {
  Assignment assignment;
  Reader reader(environment, assignment);
  const bool open_mpi = reader.has("OMPI_COMM_WORLD_RANK") || reader.has("OMPI_COMM_WORLD_SIZE");
  // A batch script has SLURM_PROCID too, but only srun makes steps.
  const bool slurm = reader.has("SLURM_PROCID") && reader.has("SLURM_STEP_ID");
  // WORLD_SIZE alone is often exported for programs that another launcher starts.
  const bool torchrun =
      reader.has("RANK") || reader.has("LOCAL_RANK") || (reader.has("WORLD_SIZE") && !open_mpi && !slurm);
  if (flags.worker) {
    assignment.launcher = "flags";
    from_flags(reader, assignment, flags);
  } else if (reader.has("KITH_WORKER") || reader.has("KITH_WORKERS")) {
    assignment.launcher = "kith";
    from_kith(reader, assignment);
  } else if (torchrun) {
    assignment.launcher = "torchrun";
    from_torchrun(reader, assignment);
  } else if (open_mpi) {
    assignment.launcher = "Open MPI";
    from_open_mpi(reader, assignment);
  } else if (slurm) {
    assignment.launcher = "Slurm";
    from_slurm(reader, assignment);
  } else if (reader.text("KITH_STORE")) {
    reader.wrong("KITH_STORE is set, and nothing tells which worker this is");
  }
  if (assignment.assigned()) check_numbers(reader, assignment);
  if (!flags.store.empty() && !flags.worker && assignment.workers > 1) {
    assignment.store = parse_meeting_point(flags.store, "--store");
  }
  const auto interface = reader.text("KITH_INTERFACE");
  assignment.interface = flags.interface.empty() ? interface.value_or("") : flags.interface;
  const auto secret_file = reader.text("KITH_SECRET_FILE");
  reader.check();
  if (!secret_file) return assignment;
  assignment.secret = read_secret(*secret_file, "KITH_SECRET_FILE");
  assignment.secret_file = *secret_file;
  return assignment;
}

}  // namespace kith::launch
