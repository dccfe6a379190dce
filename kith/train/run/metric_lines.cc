#include "kith/train/run/metric_lines.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kith/base/clock.h"
#include "kith/telemetry/json_text.h"

namespace kith::train {
namespace {

using Json = nlohmann::ordered_json;

// Bytes that are not UTF-8 (a host's name, an error's text) become U+FFFD.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// To the microsecond: more digits say nothing, and a line is read by people too.
double to_microseconds(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

Json json_of(const std::vector<WorkerId>& workers) {
  Json ids = Json::array();
  for (const WorkerId worker : workers)
    ids.push_back(worker.value);
  return ids;
}

Json json_of(const comm::PeerLedger& line) {
  return {{"waited", to_microseconds(seconds(line.waited))},
          {"longest", to_microseconds(seconds(line.longest_wait))},
          {"held_up", to_microseconds(seconds(line.held_up))},
          {"arrivals", line.arrivals},
          {"read", line.bytes_read},
          {"offered", line.bytes_offered},
          {"late", line.late},
          {"lost", line.lost},
          {"across", line.other_machine}};
}

bool silent(const comm::PeerLedger& line) {
  return line.arrivals + line.versions_named + line.late + line.lost == 0 &&
         line.waited == Clock::Duration{} && line.held_up == Clock::Duration{};
}

void add_workers(telemetry::JsonObject& json, std::string_view name, const std::vector<WorkerId>& workers) {
  if (workers.empty()) return;
  std::string& text = json.key(name);
  text += '[';
  for (std::size_t k = 0; k < workers.size(); ++k) {
    if (k > 0) text += ',';
    telemetry::append_json(text, std::int64_t{workers[k].value});
  }
  text += ']';
}

void add_peers(telemetry::JsonObject& json, const std::vector<PeerMetrics>& peers) {
  if (peers.empty()) return;
  telemetry::JsonObject all(json.key("peers"));
  for (const PeerMetrics& p : peers) {
    telemetry::JsonObject one(all.key(std::to_string(p.peer.value)));
    one.field("waited", to_microseconds(p.waited_seconds));
    one.field("read", p.bytes_read);
  }
}

}  // namespace

// At every step, so it costs no tree.
std::string line_of(const StepMetrics& m) {
  std::string line;
  line.reserve(512);
  {
    telemetry::JsonObject json(line);
    json.field("kind", "step");
    json.field("step", m.step);
    json.field("time", to_microseconds(m.time));
    json.field("view", m.view);
    json.field("epoch", m.epoch);
    json.field("loss", m.loss);
    json.field("lr", m.lr);
    if (m.gradient_norm) json.field("gradient_norm", *m.gradient_norm);
    if (m.noise) json.field("noise", *m.noise);
    if (m.skipped) json.field("skipped", true);
    json.field("seconds", m.seconds);
    json.field("waited_seconds", m.waited_seconds);
    json.field("waiting_share", m.seconds > 0 ? m.waited_seconds / m.seconds : 0.0);
    json.field("held_up_seconds", m.held_up_seconds);
    json.field("units_per_second", m.units_per_second);
    json.field("bytes_read", m.bytes_read);
    json.field("bytes_published", m.bytes_published);
    if (m.consensus) json.field("consensus", *m.consensus);
    add_workers(json, "late", m.late);
    add_workers(json, "lost", m.lost);
    add_peers(json, m.peers);
  }
  return line;
}

std::string line_of(const EvalMetrics& m) {
  return text_of({{"kind", "eval"},
                  {"step", m.step},
                  {"time", to_microseconds(m.time)},
                  {"loss", m.loss},
                  {"accuracy", m.accuracy},
                  {"consensus_distance", m.consensus_distance},
                  {"seconds", m.seconds}});
}

std::string line_of(const StartMetrics& m) {
  Json environment = Json::object();
  for (const auto& [name, value] : m.environment)
    environment[name] = value;
  return text_of({{"kind", "start"},
                  {"step", m.step},
                  {"time", to_microseconds(m.time)},
                  {"worker", m.worker.value},
                  {"workers", m.workers},
                  {"machine", m.machine},
                  {"steps", m.steps},
                  {"seconds", m.seconds},
                  {"unit", m.unit},
                  {"units_per_step", m.units_per_step},
                  {"backend", m.backend},
                  {"environment", environment}});
}

std::string line_of(const MembersMetrics& m) {
  return text_of({{"kind", "members"},
                  {"step", m.step},
                  {"time", to_microseconds(m.time)},
                  {"view", m.members.view},
                  {"members", json_of(m.members.workers)}});
}

std::string line_of(const LossMetrics& m) {
  return text_of({{"kind", "loss"},
                  {"step", m.step},
                  {"time", to_microseconds(m.time)},
                  {"worker", m.worker.value},
                  {"heard", m.heard},
                  {"mean_shift", m.mean_shift},
                  {"samples_again", m.samples_again},
                  {"samples_unseen", m.samples_unseen}});
}

std::string line_of(const LinkMetrics& m) {
  Json peers = Json::object();
  for (const auto& [peer, line] : m.ledger)
    if (!silent(line)) peers[std::to_string(peer.value)] = json_of(line);
  return text_of({{"kind", "links"}, {"step", m.step}, {"time", to_microseconds(m.time)}, {"peers", peers}});
}

std::string line_of(const EndMetrics& m) {
  Json json{{"kind", "end"}, {"step", m.step}, {"time", to_microseconds(m.time)}, {"ending", m.ending}};
  if (!m.error.empty()) json["error"] = m.error;
  return text_of(json);
}

}  // namespace kith::train
