#include "kith/train/run/change_json.h"

#include <cmath>

namespace kith::train {

namespace {
using Json = nlohmann::ordered_json;
}  // namespace

Json json_of(const std::vector<Loss>& losses) {
  Json json = Json::array();
  for (const Loss& loss : losses)
    json.push_back({{"worker", loss.worker},
                    {"step", loss.step},
                    {"view", loss.view},
                    {"heard", loss.heard},
                    {"mean_shift", loss.mean_shift},
                    {"samples_again", loss.samples_again},
                    {"samples_unseen", loss.samples_unseen}});
  return json;
}

Json json_of(const std::vector<Passage>& passages) {
  Json json = Json::array();
  for (const Passage& passage : passages) {
    json.push_back({{"worker", passage.worker}, {"step", passage.step}, {"view", passage.view}});
    if (!passage.why.empty()) json.back()["why"] = passage.why;
  }
  return json;
}

std::vector<Loss> losses_in(const Json& json) {
  std::vector<Loss> losses;
  for (const Json& loss : json)
    losses.push_back({.worker = loss.at("worker"),
                      .step = loss.at("step"),
                      .view = loss.at("view"),
                      .heard = loss.value("heard", std::int64_t{-1}),
                      .mean_shift = loss.contains("mean_shift") && loss["mean_shift"].is_number()
                                        ? loss["mean_shift"].get<double>()
                                        : NAN,
                      .samples_again = loss.value("samples_again", std::int64_t{0}),
                      .samples_unseen = loss.value("samples_unseen", std::int64_t{0})});
  return losses;
}

std::vector<Passage> passages_in(const Json& json) {
  std::vector<Passage> passages;
  for (const Json& passage : json)
    passages.push_back({.worker = passage.at("worker"),
                        .step = passage.at("step"),
                        .view = passage.at("view"),
                        .why = passage.value("why", std::string())});
  return passages;
}

}  // namespace kith::train
