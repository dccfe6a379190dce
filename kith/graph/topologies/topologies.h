#pragma once

#include <memory>

#include "kith/graph/schedule.h"

namespace kith::graph {

// One maker per topology; registry.cc has the table of names. All throw InputError on options out of range.
std::unique_ptr<Schedule> make_complete(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_ring(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_ring_static(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_exp(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_exp_static(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_base(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_aer(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_hypercube(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_torus(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_star(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_matching(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_erdos_renyi(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_sun(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_sun_rotating(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_exp_directed(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_random_directed(const ScheduleOptions& options);
std::unique_ptr<Schedule> make_file(const ScheduleOptions& options);

}  // namespace kith::graph
