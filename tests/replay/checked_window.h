#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "kith/comm/window.h"
#include "tests/replay/world.h"

namespace kith::replay {

// A window whose every call is a point of the scheduler, and whose every outcome is checked against what was
// published: contents and weight, and that an arrival does not change while it is held; late only after its
// deadline, lost only when dead.
class CheckedWindow final : public comm::Window, private comm::Arrival::Releaser {
 public:
  CheckedWindow(std::shared_ptr<World> world, int self, std::unique_ptr<comm::Window> inner)
      : world_(std::move(world)), self_(self), inner_(std::move(inner)) {}

  const comm::WindowOptions& options() const override { return inner_->options(); }
  std::span<std::byte> slot(Version v) override { return inner_->slot(v); }
  std::variant<std::span<std::byte>, comm::Late> begin(Version v, Deadline deadline) override;
  void publish(Version v, const comm::PublishOptions& options) override;
  comm::Outcome await(WorkerId peer, Version v, Deadline deadline) override;
  comm::Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override;
  void skip(WorkerId peer, Version v) override;

 private:
  void release(WorkerId peer, Version version) override;
  void point(std::string_view verb);
  [[noreturn]] void fail(std::string_view what, WorkerId peer, Version v) const;
  // Hands it out, after a look.
  comm::Outcome checked(comm::Arrival arrival, bool scheduled);
  void check_contents(const comm::Header& header, std::span<const std::byte> data, WorkerId peer,
                      std::string_view when) const;
  void check_missing(const comm::Outcome& outcome, WorkerId peer, Version v, Deadline deadline) const;
  // It went down with its writer: nothing comes until that is known.
  comm::Outcome never_comes(WorkerId peer, Version v, Deadline deadline);

  const std::shared_ptr<World> world_;
  const int self_;
  const std::unique_ptr<comm::Window> inner_;
  std::set<int> lost_by_then_;  // who was known to be, at the last call
  std::set<int> lost_before_;   // at the last call before begin()
  std::map<std::pair<WorkerId, Version>, comm::Arrival> held_;
};

}  // namespace kith::replay
