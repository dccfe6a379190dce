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
constexpr std::string_view kRefused = "refused ";
constexpr Clock::Duration kLook = std::chrono::milliseconds(100);

std::string bad(const std::exception& e) {
  return cat(dynamic_cast<const InputError*>(&e) != nullptr ? kRefused : kBad, e.what());
}

// What a good report says.
std::string said_by(const std::string& report) {
  if (report.starts_with(kRefused)) throw InputError(report.substr(kRefused.size()));
  if (report.starts_with(kBad)) throw Error(report.substr(kBad.size()));
  return report.substr(kGood.size());
}

}  // namespace

StoreReport::StoreReport(const engine::WorldParts& world, std::string name, Clock::Duration patience)
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

std::string StoreReport::complete(const Finish& finish) const {
  std::vector<std::string> reports;
  for (Rank rank = 0; rank < world_.size(); ++rank)
    reports.push_back(said_by(await(cat("part", rank), rank)));
  return finish(reports);
}

std::string StoreReport::run(const std::function<std::string()>& part, const Finish& finish) {
  std::string mine;
  try {
    mine = cat(kGood, part());
  } catch (const std::exception& e) {
    mine = bad(e);
  }
  world_.store->set(key(cat("part", world_.rank())), mine);
  std::string verdict;
  if (world_.rank() == 0) {
    try {
      verdict = cat(kGood, complete(finish));
    } catch (const std::exception& e) {
      verdict = bad(e);
    }
    world_.store->set(key("verdict"), verdict);
  } else {
    verdict = await("verdict", 0);
  }
  return said_by(verdict);
}

}  // namespace kith::train
