#include "bench/cluster/contest.h"

#include <filesystem>
#include <numeric>
#include <sstream>

#include "bench/cluster/processors.h"
#include "bench/cluster/worker.h"
#include "kith/base/text.h"
#include "kith/telemetry/file_sink.h"

namespace kith::bench {
namespace {

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

bool of_pytorch(const std::string& mode) {
  return mode == "torch" || mode == "ddp" || mode.starts_with("ddp-");
}

std::string Setup::name() const {
  return cat(size, "_", hosts, "x", workers_per_host);
}

graph::Shape Setup::shape() const {
  return graph::Shape(std::vector<int>(static_cast<std::size_t>(hosts), workers_per_host));
}

Contest::Contest(const Setup& setup, const ContestOptions& options)
    : setup_(setup), trace_(options.trace), lab_(setup.hosts) {
  if (trace_ != "-") std::filesystem::create_directories(trace_);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> kith =
      joined({program, "--worker"},
             WorkerOptions{options.transport, options.trace, setup.hosts, setup.problem}.words());
  for (int rank = 0; rank < setup.workers(); ++rank) {
    const int host = rank / setup.workers_per_host;
    const std::vector<std::string> environment = environment_of(rank);
    kith_.emplace_back(lab_.on(host, kith), environment);
    ddp_.emplace_back(lab_.on(host, joined({KITH_PYTHON, KITH_DDP_SCRIPT, std::to_string(rank),
                                            std::to_string(setup.workers()), folder_.path()},
                                           setup.problem.words())),
                      environment);
  }
  for (PeerProcess& peer : ddp_)
    peer.answer();
}

// As torchrun would place it, one thread, and on the interface whose rate is limited.
std::vector<std::string> Contest::environment_of(int rank) const {
  return {cat("RANK=", rank),
          cat("WORLD_SIZE=", setup_.workers()),
          cat("LOCAL_RANK=", rank % setup_.workers_per_host),
          cat("LOCAL_WORLD_SIZE=", setup_.workers_per_host),
          cat("MASTER_ADDR=", HostLab::address(0)),
          "MASTER_PORT=29500",
          "OMP_NUM_THREADS=1",
          "GLOO_SOCKET_IFNAME=eth0",
          "UCX_NET_DEVICES=eth0",
          "KITH_INTERFACE=eth0"};
}

Block Contest::run(const std::string& mode, int untimed, int timed) {
  const bool pytorch = of_pytorch(mode);
  std::vector<PeerProcess>& peers = pytorch ? ddp_ : kith_;
  const std::string order = mode == "ddp"     ? "run"
                            : mode == "torch" ? "alone"
                            : pytorch         ? mode.substr(mode.find('-') + 1)
                                              : cat("run ", mode);
  const std::vector<double> before = lab_.sent();
  const ProcessorTimes start = ProcessorTimes::now();
  for (PeerProcess& peer : peers)
    peer.order(cat(order, " ", untimed, " ", timed));
  Block block;
  block.steps = timed;
  std::vector<Lap> laps;
  const double host_steps = static_cast<double>(untimed + timed) * setup_.hosts;
  for (PeerProcess& peer : peers) {
    const std::string answer = peer.answer();
    laps.push_back(Lap::parse(answer, cat(setup_.name(), ", ", mode)));
    if (!pytorch) block.from_ledgers += std::stod(answer.substr(answer.rfind(' '))) / host_steps;
  }
  const ProcessorTimes spent = ProcessorTimes::now() - start;
  block.in_kernel = spent.kernel / spent.all;
  block.idle = spent.idle / spent.all;
  block.lap = together(laps);
  lab_.wait_until_quiet();
  const std::vector<double> after = lab_.sent();
  block.sent = (std::accumulate(after.begin(), after.end(), 0.0) -
                std::accumulate(before.begin(), before.end(), 0.0)) /
               host_steps;
  return block;
}

void Contest::finish() {
  for (std::vector<PeerProcess>* peers : {&kith_, &ddp_}) {
    for (PeerProcess& peer : *peers)
      peer.dismiss();
    peers->clear();
  }
  if (trace_ == "-") return;
  std::vector<std::string> traces;
  for (int rank = 0; rank < setup_.workers(); ++rank)
    traces.push_back(cat(trace_, "/worker-", rank, ".json"));
  telemetry::merge_traces(traces, cat(trace_, "/", setup_.name(), ".json"));
}

}  // namespace kith::bench
