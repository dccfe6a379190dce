#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/supervisor.h"

namespace kith::cli {

// What `kith launch` shows: every line with its worker, "[3] loss 2.1", and at the end the last lines of the
// first worker that failed, or who was lost while the others went on.
class LaunchOutput {
 public:
  explicit LaunchOutput(OnDeath deaths) : deaths_(deaths) {}

  void line(const std::string& tag, Stream stream, std::string_view text);
  // `name` is "worker 3"; `tag` as of its lines. The first failure is remembered; where the others go on,
  // every death is said at once.
  void ended(const std::string& name, const std::string& tag, const Ending& ending);
  // `code` is the launch's.
  void finish(int code) const;

 private:
  struct Failure {
    std::string name;
    std::string tag;
    std::string text;
  };
  std::map<std::string, std::deque<std::string>> last_;  // by tag
  const OnDeath deaths_;
  std::optional<Failure> first_;
  std::vector<std::string> lost_;  // their names
};

}  // namespace kith::cli
