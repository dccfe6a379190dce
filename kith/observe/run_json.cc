#include "kith/observe/run_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kith/observe/waits.h"

namespace kith::observe {
namespace {

using Json = nlohmann::ordered_json;

Json worker_json(const RunReader& run, const WorkerState& worker, double now) {
  const Recent recent = recent_of(worker);
  Json json{{"id", worker.id},
            {"status", name_of(status_of(run, worker.id, now))},
            {"step", worker.step()},
            {"seconds", recent.seconds},
            {"own", recent.own()},
            {"waiting", recent.seconds > 0 ? recent.waited / recent.seconds : 0},
            {"units_per_second", recent.units_per_second},
            {"held_up", worker.held_up},
            {"bytes_read", worker.bytes_read},
            {"late", worker.late},
            {"lost", worker.lost},
            {"starts", worker.starts},
            {"machine", worker.start.machine},
            {"silent", std::max(0.0, now - run.written(worker.id))}};
  if (!worker.recent.empty()) {
    const StepLine& last = worker.recent.back();
    json["loss"] = last.loss;
    json["lr"] = last.lr;
    json["consensus"] = last.consensus;
    json["view"] = last.view;
  }
  for (const auto& [name, value] : worker.start.environment)
    if (name == "host") json["host"] = value;
  if (worker.end && !worker.end->error.empty()) json["error"] = worker.end->error;
  return json;
}

// Rows in the order of the workers: {"peer": value}.
template <class Row>
Json rows(const RunState& state, const Row& row) {
  Json all = Json::object();
  for (const auto& [id, worker] : state.workers()) {
    Json line = Json::object();
    for (const auto& [peer, value] : row(worker))
      line[std::to_string(peer)] = value;
    all[std::to_string(id)] = line;
  }
  return all;
}

std::map<int, double> read_of(const WorkerState& worker) {
  std::map<int, double> read;
  for (const auto& [peer, part] : worker.links)
    read[peer] = part.read;
  return read;
}

Json round_json(const RunState& state) {
  const std::int64_t step = state.common_step();
  Json edges = Json::array();
  for (const Edge& edge : round_at(state, step))
    edges.push_back({edge.reader, edge.writer, edge.waited});
  return {{"step", step}, {"edges", edges}};
}

Json slowest_json(const RunReader& run, double now) {
  const auto found = slowest(run, now);
  if (!found) return nullptr;
  return {{"worker", found->worker}, {"own", found->own},     {"median", found->median},
          {"cost", found->cost},     {"share", found->share}, {"sentence", found->sentence()}};
}

Json views_json(const RunState& state) {
  Json views = Json::array();
  for (const MembersLine& view : state.views())
    views.push_back(
        {{"view", view.view}, {"step", view.step}, {"time", view.time}, {"members", view.members}});
  return views;
}

Json events_json(const RunState& state) {
  Json events = Json::array();
  for (const RunEvent& event : state.events())
    events.push_back({{"time", event.time},
                      {"step", event.step},
                      {"worker", event.worker},
                      {"kind", event.kind},
                      {"text", event.text}});
  return events;
}

Json evaluations_json(const RunState& state) {
  Json all = Json::array();
  for (const EvalLine& e : state.evaluations())
    all.push_back({{"step", e.step},
                   {"time", e.time},
                   {"seconds", e.seconds},
                   {"loss", e.loss},
                   {"accuracy", e.accuracy},
                   {"consensus", e.consensus_distance}});
  return all;
}

// "gpt on 8 workers, awc on aer, adamw".
std::string title_of(const RunReader& run) {
  const Settings settings = run.settings();
  const std::string algorithm = setting(settings, "algorithm.name");
  if (algorithm.empty()) return {};
  const bool topology = algorithm != "allreduce" && algorithm != "none";
  return setting(settings, "model.name") + " on " + setting(settings, "world.workers") + " workers, " +
         algorithm + (topology ? " on " + setting(settings, "topology.name") : "") + ", " +
         setting(settings, "optimizer.name");
}

}  // namespace

Json curves_json(const RunReader& run) {
  const RunState& state = run.state();
  Json step = Json::array(), time = Json::array(), seconds = Json::array(), loss = Json::array(),
       rate = Json::array(), waiting = Json::array(), consensus = Json::array(), bytes = Json::array();
  double workers = 0;
  for (const auto& [id, worker] : state.workers())
    workers += worker.steps > 0 ? 1 : 0;
  double read = 0, trained = 0;
  for (const CurvePoint& p : state.curve().points()) {
    read += p.bytes_read;
    trained += p.seconds / std::max(1.0, workers);
    step.push_back(p.step);
    time.push_back(p.time);
    seconds.push_back(trained);
    loss.push_back(p.losses > 0 ? Json(p.mean_loss()) : Json());
    rate.push_back(p.seconds > 0 ? Json(p.units / p.seconds * workers) : Json());
    waiting.push_back(p.seconds > 0 ? Json(p.waited / p.seconds) : Json());
    consensus.push_back(p.consensus_told > 0 ? Json(std::sqrt(p.squared_consensus / p.consensus_told))
                                             : Json());
    bytes.push_back(read);
  }
  return {{"name", run.name()},
          {"title", title_of(run)},
          {"steps_per_point", state.curve().steps_per_point()},
          {"step", step},
          {"time", time},
          {"seconds", seconds},
          {"loss", loss},
          {"units_per_second", rate},
          {"waiting", waiting},
          {"consensus", consensus},
          {"bytes", bytes},
          {"evaluations", evaluations_json(state)}};
}

Json run_json(const RunReader& run, double now) {
  const RunState& state = run.state();
  Json workers = Json::array();
  double rate = 0;
  const WorkerState* any = nullptr;
  for (const auto& [id, worker] : state.workers()) {
    workers.push_back(worker_json(run, worker, now));
    if (counts(status_of(run, id, now))) rate += recent_of(worker).units_per_second;
    if (any == nullptr || worker.starts > 0) any = &worker;
  }
  Json json{{"folder", run.folder().string()},
            {"name", run.name()},
            {"title", title_of(run)},
            {"now", now},
            {"over", over(run, now)},
            {"step", state.common_step()},
            {"last_step", state.last_step()},
            {"steps", any ? any->start.steps : 0},
            {"seconds", any ? any->start.seconds : 0.0},
            {"unit", any ? any->start.unit : ""},
            {"backend", any ? any->start.backend : ""},
            {"units_per_second", rate},
            {"members", state.members()},
            {"view", state.views().empty() ? 0 : state.views().back().view},
            {"views", views_json(state)},
            {"workers", workers},
            {"curves", curves_json(run)},
            {"slowest", slowest_json(run, now)},
            {"round", round_json(state)},
            {"events", events_json(state)}};
  json["waits"] = {{"recent", rows(state, [](const auto& w) { return waits_of(w, Span::recent); })},
                   {"whole", rows(state, [](const auto& w) { return waits_of(w, Span::whole); })}};
  json["links"] = {{"read", rows(state, read_of)},
                   {"rate", rows(state, [](const auto& w) { return w.read_per_second; })}};
  return json;
}

std::string page_text(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace kith::observe
