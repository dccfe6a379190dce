#include "kith/observe/faults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "kith/base/text.h"
#include "kith/observe/run_reader.h"

namespace kith::observe {
namespace {

constexpr std::size_t kMost = 200;

std::string in_seconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", seconds);
  return text.data();
}

std::string list(const std::vector<int>& ids) {
  std::string text;
  for (const int id : ids)
    text += cat(text.empty() ? "" : ", ", id);
  return text;
}

// A run that went on: everybody begins at the same step.
struct Gap {
  double time = 0;
  double longest = 0;
  int workers = 0;
};

class Collector {
 public:
  explicit Collector(double median_seconds) : median_(median_seconds) {}

  void take(int worker, const Line& line) {
    if (worker != worker_) last_time_ = 0;
    worker_ = worker;
    std::visit(
        [&](const auto& one) {
          look_at(one);
          last_time_ = std::max(last_time_, one.time);
        },
        line);
  }

  std::vector<Fault> finish() {
    for (const auto& [step, gap] : gaps_)
      faults_.push_back({gap.time, step, cat("the run stood still, and ", gap.workers, " workers went on"),
                         cat(in_seconds(gap.longest), " between the last step that was kept and going on")});
    std::ranges::stable_sort(faults_, {}, &Fault::time);
    if (faults_.size() > kMost) {
      const std::size_t more = faults_.size() - kMost;
      faults_.resize(kMost);
      faults_.push_back({faults_.back().time, faults_.back().step, cat("and ", more, " more"), ""});
    }
    return std::move(faults_);
  }

 private:
  void look_at(const StepLine& line) {
    if (line.late.empty() && line.lost.empty()) return;
    const std::string cost =
        cat("the step took ", in_seconds(line.seconds), ", ",
            in_seconds(std::max(0.0, line.seconds - median_)), " more than the median one");
    if (!line.late.empty())
      faults_.push_back({line.time, line.step,
                         cat("worker ", worker_, " did not wait longer for ", list(line.late)), cost});
    if (!line.lost.empty())
      faults_.push_back(
          {line.time, line.step, cat("worker ", worker_, " found ", list(line.lost), " gone"), cost});
  }
  void look_at(const StartLine& line) {
    if (last_time_ == 0) return;
    Gap& gap = gaps_[line.step];
    gap.time = std::max(gap.time, line.time);
    gap.longest = std::max(gap.longest, line.time - last_time_);
    ++gap.workers;
  }
  void look_at(const MembersLine& line) {
    if (line.view == 0 || !views_.emplace(line.view, line.step).second) return;
    faults_.push_back({line.time, line.step, cat("view ", line.view, " begins: ", list(line.members)), ""});
  }
  void look_at(const EndLine& line) {
    if (line.ending == "failed")
      faults_.push_back({line.time, line.step, cat("worker ", worker_, " failed: ", line.error), ""});
  }
  void look_at(const LossLine& line) {
    if (!losses_.emplace(line.worker, line.step).second) return;
    std::array<char, 64> moved{};
    std::snprintf(moved.data(), moved.size(), "; the mean of all models moved by about %.2g",
                  line.mean_shift);
    faults_.push_back({line.time, line.step,
                       cat("worker ", line.worker, " was last heard of after ", line.heard, " steps"),
                       cat(line.samples_again, " of its samples are dealt to others, ", line.samples_unseen,
                           " are not seen in their epoch", std::isnan(line.mean_shift) ? "" : moved.data())});
  }
  void look_at(const EvalLine&) {}
  void look_at(const LinksLine&) {}

  const double median_;
  int worker_ = -1;
  double last_time_ = 0;
  std::map<std::int64_t, Gap> gaps_;
  std::map<int, std::int64_t> views_;
  std::set<std::pair<int, std::int64_t>> losses_;
  std::vector<Fault> faults_;
};

}  // namespace

std::vector<Fault> faults_in(const std::filesystem::path& folder, double median_seconds) {
  Collector collector(median_seconds);
  for_each_line(folder, [&](int worker, const Line& line) { collector.take(worker, line); });
  return collector.finish();
}

}  // namespace kith::observe
