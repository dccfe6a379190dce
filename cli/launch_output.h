#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cli/supervisor.h"

namespace kith::cli {

// What `kith launch` shows: every line with its worker, "[3] loss 2.1", and at the end the last lines of the
// first worker that failed.
class LaunchOutput {
 public:
  void line(const std::string& tag, Stream stream, std::string_view text);
  // `name` is "worker 3"; `tag` as of its lines. The first failure is remembered.
  void ended(const std::string& name, const std::string& tag, const Ending& ending);
  void finish() const;

 private:
  struct Failure {
    std::string name;
    std::string tag;
    std::string text;
  };
  std::map<std::string, std::deque<std::string>> last_;  // by tag
  std::optional<Failure> first_;
};

}  // namespace kith::cli
