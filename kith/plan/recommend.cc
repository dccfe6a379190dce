#include "kith/plan/recommend.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/plan/units.h"

namespace kith::plan {
namespace {

constexpr double kAlike = 1.02;  // times within this factor are called the same
constexpr double kWorthMentioning = 1.10;
constexpr double kAgrees = 0.999;  // slower contraction than this is no agreement

const Prediction& fastest_all_reduce(const std::vector<Prediction>& predictions) {
  const auto found = std::find_if(predictions.begin(), predictions.end(), [](const Prediction& p) {
    return p.candidate.all_reduce() && p.candidate.as_profiled();
  });
  KITH_CHECK(found != predictions.end(), "all-reduce is always a candidate");
  return *found;
}

const Prediction* best_topology(const std::vector<Prediction>& predictions) {
  const Prediction* best = nullptr;
  double fastest_s = 0;
  for (const Prediction& p : predictions) {  // fastest first
    if (p.candidate.all_reduce() || !p.candidate.as_profiled() || p.quality.contraction > kAgrees) continue;
    if (!best) fastest_s = p.time.iteration_s;
    if (p.time.iteration_s > kAlike * fastest_s) break;
    if (!best || p.quality.contraction < best->quality.contraction - 1e-12) best = &p;
  }
  return best;
}

// The same candidate in other buckets, when that is worth a setting.
const Prediction& best_buckets(const std::vector<Prediction>& predictions, const Prediction& chosen) {
  for (const Prediction& p : predictions) {
    Candidate same = p.candidate;
    same.bucket_bytes = 0;
    if (same == chosen.candidate && p.time.iteration_s * kAlike < chosen.time.iteration_s) return p;
  }
  return chosen;
}

std::string times(double factor) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.2fx", factor);
  return text.data();
}

std::string percent(double share) {
  return cat(static_cast<int>(100 * share + 0.5), "%");
}

// "(3.07x), needs ~1.10 (0.93 to 1.25) times the steps, and so 0.36 (0.30 to 0.41) of the time for the same
// loss".
std::string to_the_same_loss(const Prediction& mixing, const Prediction& reduce) {
  const double share = mixing.time.iteration_s / reduce.time.iteration_s;
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%.2f (%.2f to %.2f) of the time", share * mixing.steps.factor,
                share * mixing.steps.low, share * mixing.steps.high);
  return cat("(", times(1 / share), "), needs ", text_of(mixing.steps), " times the steps, and so ",
             text.data(), " for the same loss");
}

std::string reason_to_mix(const Prediction& choice, const Prediction& reduce) {
  return cat(choice.candidate.topology, " takes ", human_seconds(choice.time.iteration_s),
             " an iteration where all-reduce takes ", human_seconds(reduce.time.iteration_s), " ",
             to_the_same_loss(choice, reduce), "; it hides ", percent(choice.time.hidden),
             " of its communication, all-reduce ", percent(reduce.time.hidden), ".");
}

std::string reason_to_stay(const Prediction& reduce, const Prediction* mixing) {
  if (!mixing) return "Stay with all-reduce: no topology brings these workers to agreement.";
  return cat("Stay with all-reduce: ", human_seconds(reduce.time.iteration_s),
             " an iteration. The best topology, ", mixing->candidate.topology, ", takes ",
             human_seconds(mixing->time.iteration_s), " ", to_the_same_loss(*mixing, reduce), ".");
}

std::string price_of(const Candidate& candidate) {
  if (!candidate.steps_are_known())
    return ". How many steps it needs for the same loss has not been measured: kith study quality does";
  return cat(", at a price in ", candidate.every > 1 ? "agreement" : "precision");
}

// Of each kind the fastest of the candidates that are not plain, when it is much faster.
std::string remark_on(const std::vector<Prediction>& predictions, const Prediction& choice) {
  std::string remark;
  std::set<int> kinds;
  for (const Prediction& p : predictions) {
    if (p.candidate.plain() || p.time.iteration_s * kWorthMentioning > choice.time.iteration_s) continue;
    const int kind = !p.candidate.outer.empty()      ? 3
                     : !p.candidate.codec.empty()    ? 2
                     : p.candidate.wire == DType::i8 ? 1
                                                     : 0;
    if (!kinds.insert(kind).second) continue;
    remark +=
        cat(remark.empty() ? "" : "\n", p.candidate.text(), " would take ", human_seconds(p.time.iteration_s),
            ", ", times(choice.time.iteration_s / p.time.iteration_s), " faster again", price_of(p.candidate),
            ".");
  }
  return remark;
}

}  // namespace

Recommendation recommend(const std::vector<Prediction>& predictions) {
  const Prediction& reduce = fastest_all_reduce(predictions);
  const Prediction* mixing = best_topology(predictions);
  const bool mix = mixing && mixing->to_loss_s() * kWorthChanging <= reduce.to_loss_s();
  const Prediction& choice = best_buckets(predictions, mix ? *mixing : reduce);
  return {choice, mix ? reason_to_mix(choice, reduce) : reason_to_stay(reduce, mixing),
          remark_on(predictions, choice)};
}

}  // namespace kith::plan
