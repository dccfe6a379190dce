#pragma once

#include <string>
#include <vector>

#include "kith/base/clock.h"
#include "kith/base/ids.h"
#include "kith/comm/net/address.h"
#include "kith/comm/store.h"

namespace kith::comm::routed {

// Equal for two processes exactly when they can share memory as the backend shm does: the same boot of the
// same kernel, the same network namespace (abstract sockets live there) and the same user.
std::string this_machine();

// The interface of the default route, or the first that is up and has an address; the loopback when there is
// no other.
std::string default_interface();

// What a worker tells the others through the store.
struct Presence {
  std::string machine;
  net::Address address;  // where its listener is
};

// The text that stands for it in the store, and back; InputError naming `place` when it is malformed.
std::string text_of(const Presence& presence);
Presence parse_presence(std::string_view text, std::string_view place);

// Tells this worker's presence, and waits for everybody's, in the order of `workers`. Error naming who has
// not come by the deadline, or when a stop was requested.
std::vector<Presence> exchange_presence(Store& store, WorkerId self, const Presence& own,
                                        const std::vector<WorkerId>& workers, Deadline deadline,
                                        const std::stop_token& stop = {});

// Numbers machines from 0 by their first worker, as Transport::machines does.
std::vector<int> number_machines(const std::vector<Presence>& presences);

}  // namespace kith::comm::routed
