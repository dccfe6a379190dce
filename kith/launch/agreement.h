#pragma once

#include <string>
#include <vector>

#include "kith/launch/join.h"

namespace kith::launch {

// A worker's facts as one value of a store, and back. Error when the value is malformed; there is at least
// one.
std::string encode_facts(const std::vector<Fact>& facts);
std::vector<Fact> decode_facts(const std::string& text);

// Empty when all agree, else every fact that differs, with who has which value:
// "train.batch is '2' on workers 0 to 2, '4' on worker 3". Indexed by worker; a fact that a worker does not
// have counts as "(absent)".
std::string differences(const std::vector<std::vector<Fact>>& facts);

// "worker 3", "workers 0, 2 and 5", "workers 0 to 6". REQUIRES: ascending, not empty.
std::string name_workers(const std::vector<int>& workers);

}  // namespace kith::launch
