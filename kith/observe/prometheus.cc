#include "kith/observe/prometheus.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "kith/base/text.h"
#include "kith/observe/waits.h"

namespace kith::observe {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.10g", value);
  return text.data();
}

// Inside a label's quotes.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\' || c == '"') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

class Exposition {
 public:
  explicit Exposition(const RunReader& run) : run_(run), label_(cat("run=\"", escaped(run.name()), "\"")) {}

  void head(const char* name, const char* type, const char* help) {
    name_ = name;
    out_ += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void value(double value, const std::string& labels = {}) {
    out_ += cat(name_, "{", label_, labels, "} ", number(value), "\n");
  }
  // One value for each worker.
  template <class Value>
  void workers(const char* name, const char* type, const char* help, const Value& of) {
    head(name, type, help);
    for (const auto& [id, worker] : run_.state().workers())
      value(of(worker), cat(",worker=\"", id, "\""));
  }
  // One value for each worker and peer.
  template <class Value>
  void links(const char* name, const char* help, const Value& of) {
    head(name, "counter", help);
    for (const auto& [id, worker] : run_.state().workers()) {
      for (const auto& [peer, part] : worker.links)
        value(of(part), cat(",worker=\"", id, "\",peer=\"", peer, "\""));
    }
  }
  std::string text() && { return std::move(out_); }

 private:
  const RunReader& run_;
  const std::string label_;
  std::string name_;
  std::string out_;
};

double last(const WorkerState& worker, double StepLine::*field) {
  return worker.recent.empty() ? NAN : worker.recent.back().*field;
}

}  // namespace

std::string prometheus_text(const RunReader& run, double now) {
  const RunState& state = run.state();
  Exposition out(run);
  out.head("kith_step", "gauge", "The last step that every member has done.");
  out.value(static_cast<double>(state.common_step()));
  out.head("kith_view", "gauge", "Number of the current view of the members.");
  out.value(state.views().empty() ? 0 : state.views().back().view);
  out.head("kith_members", "gauge", "Workers in the current view.");
  out.value(static_cast<double>(state.members().size()));
  if (!state.evaluations().empty()) {
    const EvalLine& evaluation = state.evaluations().back();
    out.head("kith_validation_loss", "gauge", "Of the averaged model, at the last evaluation.");
    out.value(evaluation.loss);
    out.head("kith_consensus_distance", "gauge", "Measured at the last evaluation.");
    out.value(evaluation.consensus_distance);
  }
  out.workers("kith_worker_up", "gauge", "1 while the worker writes lines.",
              [&](const WorkerState& w) { return status_of(run, w.id, now) == Status::running ? 1.0 : 0.0; });
  out.workers("kith_worker_step", "gauge", "Steps that the worker has done.",
              [](const WorkerState& w) { return static_cast<double>(w.step()); });
  out.workers("kith_worker_loss", "gauge", "Training loss of the worker's last step.",
              [](const WorkerState& w) { return last(w, &StepLine::loss); });
  out.workers("kith_worker_consensus_estimate", "gauge",
              "Consensus distance as the worker's last mix tells it.",
              [](const WorkerState& w) { return last(w, &StepLine::consensus); });
  out.workers("kith_worker_units_per_second", "gauge", "Tokens or samples, over the last steps.",
              [](const WorkerState& w) { return recent_of(w).units_per_second; });
  out.workers("kith_worker_seconds_total", "counter", "Time in iterations.",
              [](const WorkerState& w) { return w.seconds; });
  out.workers("kith_worker_waited_seconds_total", "counter", "Time in which iterations stood still.",
              [](const WorkerState& w) { return w.waited; });
  out.workers("kith_worker_held_up_seconds_total", "counter", "Time for which readers held a wanted slot.",
              [](const WorkerState& w) { return w.held_up; });
  out.workers("kith_worker_late_total", "counter", "Neighbours given up on at the deadline.",
              [](const WorkerState& w) { return w.late; });
  out.workers("kith_worker_lost_total", "counter", "Neighbours found gone, once a step.",
              [](const WorkerState& w) { return w.lost; });
  out.links("kith_link_waited_seconds_total", "Time the worker has waited for the peer, in any thread.",
            [](const LinkPart& p) { return p.waited; });
  out.links("kith_link_read_bytes_total", "Bytes the worker has read of the peer.",
            [](const LinkPart& p) { return p.read; });
  out.links("kith_link_offered_bytes_total", "Bytes the worker has published for the peer.",
            [](const LinkPart& p) { return p.offered; });
  return std::move(out).text();
}

}  // namespace kith::observe
