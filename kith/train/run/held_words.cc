// What parts tell each other through the Store, as text.
#include <nlohmann/json.hpp>

#include "kith/train/run/held_files.h"

namespace kith::train {
namespace {

using Json = nlohmann::json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string encode(const HeldCheckpoints& held) {
  Json json = Json::array();
  for (const HeldCheckpoint& one : held)
    json.push_back({one.step, one.manifest, Json(one.files)});
  return dumped(json);
}

HeldCheckpoints decode_held(const std::string& text) {
  HeldCheckpoints held;
  for (const Json& one : Json::parse(text))
    held.push_back({one.at(0), one.at(1), one.at(2).get<std::map<std::string, std::uint64_t>>()});
  return held;
}

std::string encode(const HeldFiles& held) {
  Json json{{"manifest", held.manifest}, {"files", Json::array()}, {"metrics", Json::array()}};
  for (const auto& [name, digest] : held.files)
    json["files"].push_back({name, digest.bytes, digest.crc64});
  for (const auto& [worker, bytes] : held.metrics)
    json["metrics"].push_back({worker, bytes});
  return dumped(json);
}

HeldFiles decode_files(const std::string& text) {
  const Json json = Json::parse(text);
  HeldFiles held{json.at("manifest"), {}, {}};
  for (const Json& file : json.at("files")) {
    const std::string name = file.at(0);
    held.files[name] = {name, file.at(1), file.at(2)};
  }
  for (const Json& worker : json.at("metrics"))
    held.metrics[worker.at(0)] = worker.at(1);
  return held;
}

std::string encode(const Collected& collected) {
  Json json{{"step", collected.step}, {"manifest", collected.manifest}, {"moves", Json::array()}};
  for (const Move& move : collected.moves)
    json["moves"].push_back({move.file, move.bytes, move.from, move.to});
  return dumped(json);
}

Collected decode_collected(const std::string& text) {
  const Json json = Json::parse(text);
  Collected collected{json.at("step"), json.at("manifest"), {}};
  for (const Json& move : json.at("moves"))
    collected.moves.push_back({move.at(0), move.at(1), move.at(2), move.at(3)});
  return collected;
}

}  // namespace kith::train
