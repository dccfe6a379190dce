#include "kith/comm/routed/transport.h"

#include <algorithm>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/comm/mapped/window.h"
#include "kith/comm/routed/placement.h"
#include "kith/comm/ucx/settings.h"

namespace kith::comm {

RoutedTransport::RoutedTransport(const TransportOptions& options, Route route) : route_(route) {
  const NetworkOptions& network = options.network;
  // Checks the list of workers before anybody else hears of this one.
  mapped::Context(options.self, options.workers, nullptr, options.long_wait);
  const std::string interface = network.interface.empty() ? routed::default_interface() : network.interface;
  net::ListenOptions at;
  at.interface = interface;
  net::Listener listener(at);
  const routed::Presence own{network.machine.empty() ? routed::this_machine() : network.machine,
                             listener.bound()};
  std::vector<int> machines = routed::meet_at_store(
      *options.store, options.self, own, options.workers, SteadyClock().now() + network.meet_within,
      options.losses ? options.losses->any() : std::stop_token());
  context_ = std::make_shared<mapped::Context>(options.self, options.workers, options.log, options.long_wait,
                                               std::move(machines));
  ucx::DriverOptions driver{
      .secret = network.secret,
      .interface = interface,
      .elsewhere = std::vector<bool>(options.workers.size()),
      .address_of = [store = options.store, context = context_.get()](
                        int index) { return routed::presence_of(*store, context->worker(index)).address; },
      .settings = ucx::settings_for(interface),
      .lanes = network.lanes};
  for (int i = 0; i < static_cast<int>(options.workers.size()); ++i)
    driver.elsewhere[static_cast<std::size_t>(i)] = i != context_->self_index() && !mapped(i);
  const auto elsewhere = std::ranges::count(driver.elsewhere, true);
  if (static_cast<std::size_t>(elsewhere) + 1 < options.workers.size())
    machine_.emplace(*context_, *options.store, shm::Life::watching(options.plain_futexes));
  if (elsewhere > 0)
    driver_ = std::make_shared<ucx::Driver>(context_, std::move(listener), std::move(driver));
  if (options.losses != nullptr)
    losses_ = options.losses->listen([this](WorkerId worker) { heed_end(worker); });
}

void RoutedTransport::heed_end(WorkerId worker) {
  const int index = context_->index_of(worker);
  if (index < 0 || index == context_->self_index()) return;
  if (mapped(index)) {
    machine_->heed_end(index);
  } else {
    driver_->heed_end(index);
  }
}

RoutedTransport::~RoutedTransport() {
  losses_.reset();
  if (driver_ != nullptr) driver_->stop();
}

bool RoutedTransport::mapped(int worker) const {
  const std::vector<int>& on = machines();
  return route_ == Route::routed &&
         on[static_cast<std::size_t>(worker)] == on[static_cast<std::size_t>(context_->self_index())];
}

std::unique_ptr<Window> RoutedTransport::open(const WindowOptions& asked, Deadline deadline) {
  WindowOptions options = mapped::checked(asked, *context_);
  const shm::OwnMemory own = shm::make_memory(options, *context_, *payloads_);
  std::vector<int> here, elsewhere;
  for (int peer : context_->indices_of(options.peers))
    (mapped(peer) ? here : elsewhere).push_back(peer);

  // Everybody is told before anybody is waited for.
  std::shared_ptr<ucx::Driver::WindowLink> link;
  if (!elsewhere.empty()) link = driver_->announce(options, own.block, elsewhere, deadline);
  std::vector<mapped::PeerBlock> peers;
  if (!here.empty()) {
    shm::Elsewhere rest{elsewhere, {}};
    if (link != nullptr) rest.look = [&] { driver_->look_for_absent(*link); };
    peers = machine_->open(options, own, here, *payloads_, deadline, rest);
  }
  if (link != nullptr)
    std::ranges::move(driver_->gather(options, *link, deadline), std::back_inserter(peers));
  return std::make_unique<mapped::MappedWindow>(context_, std::move(options), own.block, std::move(peers),
                                                std::move(link));
}

bool RoutedTransport::lost(WorkerId peer) const {
  const int index = context_->index_of(peer);
  KITH_CHECK(index >= 0, cat(peer, " is not a worker of this transport"));
  return context_->liveness().lost(index);
}

}  // namespace kith::comm
