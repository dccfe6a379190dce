#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "kith/comm/transport.h"

namespace kith::support {

// A window that says when it has published something.
class ObservedWindow final : public comm::Window {
 public:
  ObservedWindow(std::unique_ptr<comm::Window> inner, const std::function<void()>& after_publish)
      : inner_(std::move(inner)), after_publish_(after_publish) {}

  const comm::WindowOptions& options() const override { return inner_->options(); }
  std::span<std::byte> slot(Version v) override { return inner_->slot(v); }
  std::variant<std::span<std::byte>, comm::Late> begin(Version v, Deadline deadline) override {
    return inner_->begin(v, deadline);
  }
  void publish(Version v, const comm::PublishOptions& options) override {
    inner_->publish(v, options);
    after_publish_();
  }
  comm::Outcome await(WorkerId peer, Version v, Deadline deadline) override {
    return inner_->await(peer, v, deadline);
  }
  comm::Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override {
    return inner_->newest(peer, after, deadline);
  }
  void skip(WorkerId peer, Version v) override { inner_->skip(peer, v); }

 private:
  const std::unique_ptr<comm::Window> inner_;
  const std::function<void()>& after_publish_;
};

// A transport of such windows.
class ObservedTransport final : public comm::Transport {
 public:
  ObservedTransport(comm::Transport& inner, std::function<void()> after_publish)
      : inner_(inner), after_publish_(std::move(after_publish)) {}

  std::string_view backend() const override { return inner_.backend(); }
  WorkerId self() const override { return inner_.self(); }
  const std::vector<WorkerId>& workers() const override { return inner_.workers(); }
  const std::vector<int>& machines() const override { return inner_.machines(); }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override {
    return std::make_unique<ObservedWindow>(inner_.open(options, deadline), after_publish_);
  }
  bool lost(WorkerId peer) const override { return inner_.lost(peer); }
  comm::Ledger ledger() const override { return inner_.ledger(); }

 private:
  comm::Transport& inner_;
  const std::function<void()> after_publish_;
};

}  // namespace kith::support
