#include "bench/common/peer_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::bench {
namespace {

constexpr auto kGrace = std::chrono::seconds(20);

// True when the file can be read before the deadline.
bool readable(int file, Deadline deadline) {
  pollfd waiting{file, POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock().now()).count();
    const auto most = std::clamp<std::int64_t>(left, 0, 60'000);
    if (::poll(&waiting, 1, static_cast<int>(most)) > 0) return true;
    if (left <= 0) return false;
  }
}

}  // namespace

PeerProcess::PeerProcess(const std::vector<std::string>& command,
                         const std::vector<std::string>& environment) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
    throw Error(std::strerror(errno), "pipe");
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    std::vector<std::string> copies = environment, words = command;
    for (std::string& entry : copies)
      ::putenv(entry.data());
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    std::fprintf(stderr, "cannot start %s: %s\n", argv[0], std::strerror(errno));
    std::_Exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::exchange(other.in_, -1)),
      out_(std::exchange(other.out_, -1)),
      buffered_(std::move(other.buffered_)) {}

PeerProcess::~PeerProcess() {
  if (pid_ < 0) return;
  dismiss();
  ::close(out_);
  const auto ending = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  if (ending < 0 || !readable(ending, SteadyClock().now() + kGrace)) kill();
  if (ending >= 0) ::close(ending);
  ::waitpid(pid_, nullptr, 0);
}

void PeerProcess::kill() {
  ::kill(pid_, SIGKILL);
}

void PeerProcess::dismiss() {
  if (in_ >= 0) ::close(std::exchange(in_, -1));
}

void PeerProcess::order(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw Error(cat("a worker does not take the order '", line, "'"), "bench");
  }
}

std::string PeerProcess::answer(Deadline deadline) {
  while (true) {
    const auto end = buffered_.find('\n');
    if (end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    if (!readable(out_, deadline)) throw Error("a worker has not answered in time", "bench");
    std::array<char, 4096> chunk{};
    const ssize_t got = ::read(out_, chunk.data(), chunk.size());
    if (got <= 0) throw Error("a worker ended instead of answering", "bench", "its message is above");
    buffered_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace kith::bench
