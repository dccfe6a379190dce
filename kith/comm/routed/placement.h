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

// Tells this worker's presence, and waits for everybody: the machine of each of `workers`, numbered from 0 by
// their first worker, as Transport::machines does. The first worker hears all the others out and tells them
// in one value, so that each of the others asks the store three times, however many they are. Error naming
// who has not come by the deadline, or when a stop was requested.
std::vector<int> meet_at_store(Store& store, WorkerId self, const Presence& own,
                               const std::vector<WorkerId>& workers, Deadline deadline,
                               const std::stop_token& stop = {});

// What a worker left there. REQUIRES: meet_at_store has returned.
Presence presence_of(Store& store, WorkerId worker);

// Numbers of machines as text: "0*8 1*8 2" for two machines of eight workers and one of one. InputError
// naming `place` when a text is malformed or not of so many workers.
std::string text_of_machines(const std::vector<int>& machines);
std::vector<int> parse_machines(std::string_view text, std::size_t workers, std::string_view place);

}  // namespace kith::comm::routed
