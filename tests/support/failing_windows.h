#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "kith/comm/transport.h"

namespace kith::support {

// A window whose slots are never free while `failing` holds.
class FailingWindow final : public comm::Window {
 public:
  FailingWindow(std::unique_ptr<comm::Window> inner, WorkerId holder, const std::atomic<bool>& failing)
      : inner_(std::move(inner)), holder_(holder), failing_(failing) {}

  const comm::WindowOptions& options() const override { return inner_->options(); }
  std::span<std::byte> slot(Version v) override { return inner_->slot(v); }
  std::variant<std::span<std::byte>, comm::Late> begin(Version v, Deadline deadline) override {
    if (failing_.load()) return comm::Late{holder_, v, {}};
    return inner_->begin(v, deadline);
  }
  void publish(Version v, const comm::PublishOptions& options) override { inner_->publish(v, options); }
  comm::Outcome await(WorkerId peer, Version v, Deadline deadline) override {
    return inner_->await(peer, v, deadline);
  }
  comm::Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override {
    return inner_->newest(peer, after, deadline);
  }
  void skip(WorkerId peer, Version v) override { inner_->skip(peer, v); }

 private:
  const std::unique_ptr<comm::Window> inner_;
  const WorkerId holder_;
  const std::atomic<bool>& failing_;
};

// A transport whose windows fail from fail() on, where their names contain `part`.
class FailingTransport final : public comm::Transport {
 public:
  FailingTransport(comm::Transport& inner, std::string part) : inner_(inner), part_(std::move(part)) {}

  void fail() { failing_ = true; }

  std::string_view backend() const override { return inner_.backend(); }
  WorkerId self() const override { return inner_.self(); }
  const std::vector<WorkerId>& workers() const override { return inner_.workers(); }
  const std::vector<int>& machines() const override { return inner_.machines(); }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override {
    auto window = inner_.open(options, deadline);
    if (options.name.find(part_) == std::string::npos) return window;
    return std::make_unique<FailingWindow>(std::move(window), inner_.self(), failing_);
  }
  bool lost(WorkerId peer) const override { return inner_.lost(peer); }
  comm::Ledger ledger() const override { return inner_.ledger(); }

 private:
  comm::Transport& inner_;
  const std::string part_;
  std::atomic<bool> failing_{false};
};

}  // namespace kith::support
