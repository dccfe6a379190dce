#include <algorithm>
#include <array>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/graph/topologies/topologies.h"

namespace kith::graph {
namespace {

struct Topology {
  const char* name;
  std::unique_ptr<Schedule> (*make)(const ScheduleOptions&);
};

constexpr std::array<Topology, 17> kTopologies{{
    {"complete", make_complete},
    {"ring", make_ring},
    {"ring-static", make_ring_static},
    {"exp", make_exp},
    {"exp-static", make_exp_static},
    {"base", make_base},
    {"aer", make_aer},
    {"hypercube", make_hypercube},
    {"torus", make_torus},
    {"star", make_star},
    {"matching", make_matching},
    {"erdos-renyi", make_erdos_renyi},
    {"sun", make_sun},
    {"sun-rotating", make_sun_rotating},
    {"exp-directed", make_exp_directed},
    {"random-directed", make_random_directed},
    {"file", make_file},
}};

}  // namespace

std::unique_ptr<Schedule> make_schedule(const ScheduleOptions& options) {
  const auto found = std::find_if(kTopologies.begin(), kTopologies.end(),
                                  [&](const Topology& known) { return options.topology == known.name; });
  if (found == kTopologies.end()) {
    throw InputError(cat("'", options.topology, "' is not a topology"), "topology",
                     suggest(options.topology, schedule_names()));
  }
  return found->make(options);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Topology& topology : kTopologies)
    names.emplace_back(topology.name);
  return names;
}

}  // namespace kith::graph
