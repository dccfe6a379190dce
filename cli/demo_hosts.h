#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kith::cli {

// Bits per second of "200mbit", "1.5gbit". InputError otherwise.
double parse_rate(const std::string& rate);

// Whether a program ended with this code because somebody asked it to: Ctrl-C, kill, a terminal that is gone.
bool is_stop(int code);

// Where the demo's workers run: a host each behind a link (share/hostlab), or this machine's memory.
class DemoHosts {
 public:
  // REQUIRES: parse_rate accepts the rate.
  DemoHosts(int hosts, std::string rate);

  // Why there can be no hosts here; empty: there can. Makes them, once, and ends them; ExitCode when that is
  // stopped.
  std::string obstacle() const;

  using OnLine = std::function<void(std::string_view line)>;
  // Runs a command on every host, as its worker, and hears what worker 0 prints; returns the exit code of the
  // first worker that failed. Ctrl-C goes to the workers. All is over after `limit_s`.
  int run(const std::vector<std::string>& command, double limit_s, const OnLine& on_line) const;

 private:
  std::vector<std::string> lab(double limit_s) const;

  const int hosts_;
  const std::string rate_;
};

// Runs a command of this machine, hears its output and returns its exit code. Ctrl-C goes to it.
int run_heard(const std::vector<std::string>& command, const DemoHosts::OnLine& on_line,
              const DemoHosts::OnLine& on_error);

}  // namespace kith::cli
