#include "kith/train/store_report.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr std::string_view kGood = "good ";
constexpr std::string_view kBad = "bad ";
constexpr Clock::Duration kLook = std::chrono::milliseconds(100);

std::string bad(const std::exception& e) {
  return cat(kBad, e.what());
}

}  // namespace

StoreReport::StoreReport(const engine::World& world, std::string name, Clock::Duration patience)
    : world_(world), name_(std::move(name)), deadline_(world.clock->now() + patience) {}

std::string StoreReport::key(const std::string& part) const {
  return cat(name_, "/", part);
}

std::string StoreReport::await(const std::string& part, Rank from) const {
  const WorkerId worker = world_.members.at(from);
  while (true) {
    const bool gone = worker != world_.self() &&
                      world_.transport->lost(worker);  // before the look: what it set still counts
    const Clock::Time now = world_.clock->now();
    const auto value =
        world_.store->wait(key(part), std::min(deadline_, now + (gone ? Clock::Duration{} : kLook)));
    if (value) return *value;
    if (gone || now >= deadline_) {
      return bad(Error(cat(worker, gone ? " is gone" : " did not report in time"), name_,
                       "look at that worker's log"));
    }
  }
}

void StoreReport::complete(const std::function<void(const std::vector<std::string>&)>& finish) const {
  std::vector<std::string> reports;
  for (Rank rank = 0; rank < world_.size(); ++rank) {
    const std::string report = await(cat("part", rank), rank);
    if (report.starts_with(kBad)) throw Error(report.substr(kBad.size()));
    reports.push_back(report.substr(kGood.size()));
  }
  finish(reports);
}

void StoreReport::run(const std::function<std::string()>& part,
                      const std::function<void(const std::vector<std::string>&)>& finish) {
  std::string mine;
  try {
    mine = cat(kGood, part());
  } catch (const std::exception& e) {
    mine = bad(e);
  }
  world_.store->set(key(cat("part", world_.rank())), mine);
  std::string verdict(kGood);
  if (world_.rank() == 0) {
    try {
      complete(finish);
    } catch (const std::exception& e) {
      verdict = bad(e);
    }
    world_.store->set(key("verdict"), verdict);
  } else {
    verdict = await("verdict", 0);
  }
  if (verdict.starts_with(kBad)) throw Error(verdict.substr(kBad.size()));
}

}  // namespace kith::train
