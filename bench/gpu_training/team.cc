#include "bench/gpu_training/team.h"

#include <sstream>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {

Team::Team(std::vector<std::string> program, int workers, const GpuJob& job, Deadline deadline)
    : name_(program.back()), deadline_(deadline), folder_(std::make_unique<TempFolder>("kith-gpu-training")) {
  const std::vector<std::string> words = job.words();
  for (int rank = 0; rank < workers; ++rank) {
    std::vector<std::string> command = program;
    command.insert(command.end(), {std::to_string(rank), std::to_string(workers), folder_->path()});
    command.insert(command.end(), words.begin(), words.end());
    peers_.emplace_back(command, std::vector<std::string>{"OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"});
  }
}

Team Team::kith(int workers, const GpuJob& job, Deadline deadline) {
  return {{"/proc/self/exe", "--worker"}, workers, job, deadline};
}

Team Team::python(const std::string& script, int workers, const GpuJob& job, Deadline deadline) {
  return {{KITH_PYTHON, cat(KITH_BENCH_SOURCE, "/", script)}, workers, job, deadline};
}

std::vector<std::string> Team::answers() {
  std::vector<std::string> all;
  try {
    for (PeerProcess& peer : peers_)
      all.push_back(peer.answer(deadline_));
  } catch (...) {
    for (PeerProcess& peer : peers_)
      peer.kill();
    throw;
  }
  return all;
}

std::vector<std::string> Team::ask(const std::string& order) {
  for (PeerProcess& peer : peers_)
    peer.order(order);
  return answers();
}

Lap Team::run(const std::string& order) {
  std::vector<Lap> laps;
  for (const std::string& answer : ask(order))
    laps.push_back(Lap::parse(answer, name_));
  return together(laps);
}

double Team::number(const std::string& order) {
  std::istringstream words(ask(order).front());
  std::string word;
  double value = 0;
  if (!(words >> word >> value)) throw Error(cat("'", words.str(), "' is not an answer"), name_);
  return value;
}

}  // namespace kith::bench
