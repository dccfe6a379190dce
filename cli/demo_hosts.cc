#include "cli/demo_hosts.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "cli/run.h"
#include "cli/supervisor.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/data/shipped.h"

namespace kith::cli {
namespace {

constexpr std::string_view kWorker0 = "[0@host0] ";
constexpr double kObstacleLimitS = 20;

}  // namespace

bool is_stop(int code) {
  return code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP;
}

double parse_rate(const std::string& rate) {
  char* end = nullptr;
  const double value = std::strtod(rate.c_str(), &end);
  const std::string_view unit(end);
  const double bits = unit == "kbit" ? 1e3 : unit == "mbit" ? 1e6 : unit == "gbit" ? 1e9 : 0;
  if (!(value > 0) || bits == 0)
    throw InputError(cat("'", rate, "' is not a rate"), "--rate", "write 200mbit or 1gbit");
  return value * bits;
}

int run_heard(const std::vector<std::string>& command, const DemoHosts::OnLine& on_line,
              const DemoHosts::OnLine& on_error) {
  Supervisor supervisor;
  supervisor.start({.command = command,
                    .environment = {{"OMP_NUM_THREADS", "1"}},
                    .on_line = [&](Stream stream, std::string_view line) {
                      (stream == Stream::out ? on_line : on_error)(line);
                    }});
  return supervisor.wait();
}

DemoHosts::DemoHosts(int hosts, std::string rate) : hosts_(hosts), rate_(std::move(rate)) {}

std::vector<std::string> DemoHosts::lab(double limit_s) const {
  const std::filesystem::path program =
      train::shipped_file(std::filesystem::read_symlink("/proc/self/exe"), "hostlab/hostlab");
  return {program.string(), "--hosts", std::to_string(hosts_), "--rate", rate_, "--timeout",
          cat(limit_s),     "--"};
}

std::string DemoHosts::obstacle() const {
  std::vector<std::string> command = lab(kObstacleLimitS);
  command.push_back("true");
  std::string reason;
  const auto keep = [&](std::string_view line) {
    reason += (reason.empty() ? "" : "; ") + std::string(line);
  };
  const int code = run_heard(command, keep, keep);
  if (code == 0) return {};
  if (is_stop(code)) throw ExitCode{code};
  return reason.empty() ? cat("the host lab ended with exit code ", code) : reason;
}

int DemoHosts::run(const std::vector<std::string>& command, double limit_s, const OnLine& on_line) const {
  std::vector<std::string> words = lab(limit_s);
  words.insert(words.end(), command.begin(), command.end());
  const auto of_worker0 = [&](std::string_view line) {
    if (line.starts_with(kWorker0)) on_line(line.substr(kWorker0.size()));
  };
  return run_heard(words, of_worker0, [](std::string_view line) { std::cerr << line << "\n"; });
}

}  // namespace kith::cli
