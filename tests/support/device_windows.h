#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "kith/comm/transport.h"
#include "tests/support/async_device.h"

namespace kith::support {

// A window whose memory belongs to an AsyncDevice: the addresses it hands out are the device's.
class DeviceWindow final : public comm::Window, private comm::Arrival::Releaser {
 public:
  explicit DeviceWindow(std::unique_ptr<comm::Window> inner, comm::WindowOptions options)
      : inner_(std::move(inner)), options_(std::move(options)) {}

  const comm::WindowOptions& options() const override { return options_; }
  std::span<std::byte> slot(Version v) override { return moved(inner_->slot(v)); }
  std::variant<std::span<std::byte>, comm::Late> begin(Version v, Deadline deadline) override {
    auto begun = inner_->begin(v, deadline);
    if (auto* slot = std::get_if<std::span<std::byte>>(&begun)) *slot = moved(*slot);
    return begun;
  }
  void publish(Version v, const comm::PublishOptions& options) override { inner_->publish(v, options); }
  comm::Outcome await(WorkerId peer, Version v, Deadline deadline) override {
    return kept(inner_->await(peer, v, deadline));
  }
  comm::Outcome newest(WorkerId peer, std::optional<Version> after, Deadline deadline) override {
    return kept(inner_->newest(peer, after, deadline));
  }
  void skip(WorkerId peer, Version v) override { inner_->skip(peer, v); }

 private:
  template <class Byte>
  static std::span<Byte> moved(std::span<Byte> real) {
    return {device_address(real.data()), real.size()};
  }
  comm::Outcome kept(comm::Outcome outcome) {
    auto* const arrival = std::get_if<comm::Arrival>(&outcome);
    if (!arrival) return outcome;
    comm::Arrival moved_arrival(this, arrival->peer(), arrival->header(), moved(arrival->data()));
    held_.emplace(std::pair(arrival->peer(), arrival->header().version), std::move(*arrival));
    return moved_arrival;
  }
  void release(WorkerId peer, Version version) override { held_.erase(std::pair(peer, version)); }

  const std::unique_ptr<comm::Window> inner_;
  const comm::WindowOptions options_;
  std::map<std::pair<WorkerId, Version>, comm::Arrival> held_;
};

// A transport that can have windows in the memory of an AsyncDevice.
class DeviceTransport final : public comm::Transport {
 public:
  explicit DeviceTransport(comm::Transport& inner) : inner_(inner) {}

  std::string_view backend() const override { return inner_.backend(); }
  WorkerId self() const override { return inner_.self(); }
  const std::vector<WorkerId>& workers() const override { return inner_.workers(); }
  const std::vector<int>& machines() const override { return inner_.machines(); }
  bool device_windows() const override { return true; }
  std::unique_ptr<comm::Window> open(const comm::WindowOptions& options, Deadline deadline) override {
    comm::WindowOptions plain = options;
    plain.memory = comm::WindowMemory::host;
    auto window = inner_.open(plain, deadline);
    if (options.memory == comm::WindowMemory::host) return window;
    return std::make_unique<DeviceWindow>(std::move(window), options);
  }
  bool lost(WorkerId peer) const override { return inner_.lost(peer); }
  comm::Ledger ledger() const override { return inner_.ledger(); }

 private:
  comm::Transport& inner_;
};

}  // namespace kith::support
