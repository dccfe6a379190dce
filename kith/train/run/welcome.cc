#include "kith/train/run/welcome.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/run/change_json.h"

namespace kith::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kLookForOthers = std::chrono::milliseconds(200);

std::string welcome_key(const Members& members) {
  return cat("train/welcome/", members.view);
}

Json json_of(const SamplerPosition& position) {
  Json again = Json::array();
  for (const SampleRange& range : position.again)
    again.push_back({range.first, range.count});
  return {{"digest", position.digest},
          {"drawn", position.drawn},
          {"epoch", position.epoch},
          {"used", position.used},
          {"again", again}};
}

SamplerPosition position_in(const Json& json) {
  SamplerPosition position{json.at("digest"), json.at("drawn"), json.at("epoch"), json.at("used"), {}};
  for (const Json& range : json.at("again"))
    position.again.push_back({range.at(0), range.at(1)});
  return position;
}

}  // namespace

std::string encode(const Welcome& welcome) {
  std::vector<int> members;
  for (const WorkerId worker : welcome.members.workers)
    members.push_back(worker.value);
  std::vector<int> scaler;
  for (const std::byte byte : welcome.scaler)
    scaler.push_back(std::to_integer<int>(byte));
  const TimeBudget::State& budget = welcome.budget;
  return Json{
      {"view", welcome.members.view},
      {"members", members},
      {"position", json_of(welcome.position)},
      {"dealings", welcome.dealings},
      {"begun", welcome.begun},
      {"lost", json_of(welcome.lost)},
      {"joined", json_of(welcome.joined)},
      {"left", json_of(welcome.left)},
      {"budget",
       {{"steps", budget.steps}, {"next", budget.next}, {"done", budget.done}, {"spent", budget.spent}}},
      {"seconds", welcome.seconds},
      {"scaler", scaler}}
      .dump();
}

Welcome decode_welcome(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    Welcome welcome;
    welcome.members.view = json.at("view");
    for (const int worker : json.at("members"))
      welcome.members.workers.push_back(WorkerId{worker});
    welcome.position = position_in(json.at("position"));
    welcome.dealings = json.at("dealings").get<std::vector<std::uint64_t>>();
    welcome.begun = json.at("begun");
    welcome.lost = losses_in(json.at("lost"));
    welcome.joined = passages_in(json.at("joined"));
    welcome.left = passages_in(json.at("left"));
    const Json& budget = json.at("budget");
    welcome.budget = {budget.at("steps"), budget.at("next"), budget.at("done"), budget.at("spent")};
    welcome.seconds = json.at("seconds");
    for (const int byte : json.at("scaler"))
      welcome.scaler.push_back(static_cast<std::byte>(byte));
    return welcome;
  } catch (const nlohmann::json::exception& error) {
    throw Error(cat("is no welcome: ", error.what()), "what a newcomer is told",
                "start it with the program of the job that it joins");
  }
}

void tell_welcome(const engine::WorldParts& world, const Welcome& welcome) {
  world.store->set_once(welcome_key(welcome.members), encode(welcome));
}

Welcome await_welcome(const engine::WorldParts& world, const Members& view, Clock::Duration patience) {
  const std::string place = cat(world.self(), ", view ", view.view);
  const Deadline deadline = world.clock->now() + patience;
  const auto there = [&](WorkerId w) { return w != world.self() && !world.transport->lost(w); };
  while (true) {
    const bool anybody = std::ranges::any_of(view.workers, there);  // before the look
    if (const auto told = world.store->wait(welcome_key(view), world.clock->now() + kLookForOthers))
      return decode_welcome(*told);
    if (!anybody) throw Error("nobody is left who knows how the data is dealt", place, "use --resume");
    if (world.clock->now() >= deadline)
      throw Error(cat("nobody has told how the data is dealt within ", seconds(patience), " s"), place,
                  "see the logs of the members");
  }
}

}  // namespace kith::train
