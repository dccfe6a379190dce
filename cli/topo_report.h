#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "kith/graph/matrix.h"
#include "kith/graph/schedule.h"
#include "kith/graph/spectrum.h"
#include "kith/graph/traffic.h"

namespace kith::cli {

// Everything `kith topo` says about a schedule.
struct TopoReport {
  graph::Stochasticity weights;
  graph::Traffic traffic;
  std::optional<graph::Spectrum> spectrum;  // nothing beyond kMostWorkersForSpectrum
};

inline constexpr int kMostWorkersForSpectrum = 256;

TopoReport report_on(const graph::Schedule& schedule);

// The fields are listed in docs/topologies.md.
nlohmann::ordered_json to_json(const graph::Schedule& schedule, const TopoReport& report);
// The matrices of a period as nested arrays: [round][row][column].
nlohmann::ordered_json matrices_json(const graph::Schedule& schedule);

void print_table(std::ostream& out, const graph::Schedule& schedule, const TopoReport& report);
void print_matrices(std::ostream& out, const graph::Schedule& schedule);

}  // namespace kith::cli
