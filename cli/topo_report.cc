#include "cli/topo_report.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "kith/base/text.h"

namespace kith::cli {
namespace {

using Json = nlohmann::ordered_json;
using graph::Schedule;

constexpr std::size_t kMostRoundsListed = 16;
constexpr int kMostNodesListed = 16;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value != 0 && value < 1e-4 ? "%.1e" : "%.4g", value);
  return text.data();
}

std::string count(std::int64_t n, const std::string& unit) {
  return cat(n, " ", unit, n == 1 ? "" : "s");
}

Json optional_json(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json();
}

// Exact averages leave rounding noise; zero says what is meant.
double clean(double value) {
  return value < 1e-12 ? 0 : value;
}

std::string exact_text(const graph::Spectrum& spectrum) {
  if (!spectrum.exact_average_after) return "never exactly; see contraction";
  std::string text = cat("after ", count(*spectrum.exact_average_after, "round"), " from round 0");
  if (spectrum.exact_average_after_any_start) {
    text += cat(", after ", count(*spectrum.exact_average_after_any_start, "round"), " from any start");
  }
  return text;
}

std::string nodes_text(const graph::Shape& shape) {
  if (shape.nodes() == 1) return "";
  const std::string text = cat(" on ", shape.nodes(), " nodes");
  const int first = shape.size_of(0);
  if (shape == graph::Shape(std::vector<int>(static_cast<std::size_t>(shape.nodes()), first))) {
    return cat(text, " of ", first);
  }
  return shape.nodes() <= kMostNodesListed ? cat(text, " (", shape.text(), ")") : text + " of unequal size";
}

std::string weights_text(const Schedule& schedule, const graph::Stochasticity& weights) {
  std::string text = schedule.directed() ? "directed, for push-sum: " : "";
  text += weights.doubly_stochastic() ? "doubly stochastic" : "column stochastic";
  return text + (weights.symmetric() ? ", symmetric" : ", not symmetric");
}

void print_rounds(std::ostream& out, const graph::Spectrum& spectrum) {
  out << "\nround   deviation   a period from here\n";
  for (std::size_t t = 0; t < spectrum.per_round.size(); ++t) {
    if (t == kMostRoundsListed) {
      out << "  ...   " << spectrum.per_round.size() - t << " more (--json has them all)\n";
      break;
    }
    std::array<char, 80> line{};
    std::snprintf(line.data(), line.size(), "%5zu   %-9s   %s\n", t,
                  number(clean(spectrum.per_round[t])).c_str(),
                  number(clean(spectrum.contraction_by_start[t])).c_str());
    out << line.data();
  }
}

}  // namespace

TopoReport report_on(const Schedule& schedule) {
  TopoReport report{stochasticity_of(schedule), traffic_of(schedule), {}};
  if (schedule.workers() <= kMostWorkersForSpectrum) report.spectrum = spectrum_of(schedule);
  return report;
}

Json to_json(const Schedule& schedule, const TopoReport& report) {
  const graph::Shape& shape = schedule.shape();
  Json nodes = Json::array();
  for (int node = 0; node < shape.nodes(); ++node)
    nodes.push_back(shape.size_of(node));
  Json out{{"topology", schedule.name()},
           {"workers", schedule.workers()},
           {"nodes", nodes},
           {"period", schedule.period()},
           {"directed", schedule.directed()},
           {"doubly_stochastic", report.weights.doubly_stochastic()},
           {"column_stochastic", report.weights.column_stochastic()},
           {"symmetric", report.weights.symmetric()}};
  const auto& spectrum = report.spectrum;
  out["exact_average_after"] = spectrum ? optional_json(spectrum->exact_average_after) : Json();
  out["exact_average_after_any_start"] =
      spectrum ? optional_json(spectrum->exact_average_after_any_start) : Json();
  out["contraction"] = spectrum ? Json(clean(spectrum->contraction)) : Json();
  out["contraction_by_start"] = Json();
  out["deviation_per_round"] = Json();
  if (spectrum) {
    out["contraction_by_start"] = Json::array();
    out["deviation_per_round"] = Json::array();
    for (double value : spectrum->contraction_by_start)
      out["contraction_by_start"].push_back(clean(value));
    for (double value : spectrum->per_round)
      out["deviation_per_round"].push_back(clean(value));
  }
  out["rounds_to_millionth"] = spectrum ? optional_json(spectrum->rounds_to_millionth) : Json();
  out["messages_per_worker_per_round"] = report.traffic.messages_per_worker;
  out["bytes_per_worker_per_model_byte"] = report.traffic.models_per_worker;
  out["busiest_worker_bytes_per_model_byte"] = report.traffic.busiest_worker_models;
  out["cross_node_bytes_per_model_byte"] = report.traffic.cross_node_models;
  out["busiest_node_bytes_per_model_byte"] = report.traffic.busiest_node_models;
  return out;
}

Json matrices_json(const Schedule& schedule) {
  Json rounds = Json::array();
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    const Eigen::MatrixXd matrix = mixing_matrix(schedule, t);
    Json rows = Json::array();
    for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
      Json row = Json::array();
      for (Eigen::Index j = 0; j < matrix.cols(); ++j)
        row.push_back(matrix(i, j));
      rows.push_back(std::move(row));
    }
    rounds.push_back(std::move(rows));
  }
  return rounds;
}

void print_table(std::ostream& out, const Schedule& schedule, const TopoReport& report) {
  const graph::Shape& shape = schedule.shape();
  const graph::Traffic& traffic = report.traffic;
  out << "topology      " << schedule.name() << "\n"
      << "workers       " << schedule.workers();
  out << nodes_text(shape);
  out << "\nperiod        " << count(schedule.period(), "round") << "\n"
      << "weights       " << weights_text(schedule, report.weights) << "\n";
  if (report.spectrum) {
    out << "average       " << exact_text(*report.spectrum) << "\n"
        << "contraction   " << number(clean(report.spectrum->contraction)) << " over a period, worst start\n"
        << "to 1e-6       ";
    if (report.spectrum->rounds_to_millionth) {
      out << count(*report.spectrum->rounds_to_millionth, "round") << "\n";
    } else {
      out << "not within a million periods\n";
    }
  } else {
    out << "spectrum      left out beyond " << kMostWorkersForSpectrum << " workers\n";
  }
  out << "per worker    " << number(traffic.messages_per_worker) << " messages, "
      << number(traffic.models_per_worker) << " models a round (busiest "
      << number(traffic.busiest_worker_models) << " models)\n"
      << "across nodes  " << number(traffic.cross_node_models) << " models a round, at most "
      << number(traffic.busiest_node_models) << " out of one node\n";
  if (report.spectrum) print_rounds(out, *report.spectrum);
}

void print_matrices(std::ostream& out, const Schedule& schedule) {
  for (std::int64_t t = 0; t < schedule.period(); ++t) {
    const Eigen::IOFormat plain(4, 0, "  ", "\n", "  ", "", "", "");
    out << "\nmatrix of round " << t << "\n" << mixing_matrix(schedule, t).format(plain) << "\n";
  }
}

}  // namespace kith::cli
