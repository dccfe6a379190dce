#include "kith/train/parameter_state.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/text.h"
#include "kith/optim/algorithm.h"
#include "kith/optim/local_step.h"
#include "kith/train/state_names.h"

namespace kith::train {
namespace {

using Names = std::vector<std::string>;
using Bytes = std::span<std::byte>;

Names names_of_optimizer(const std::string& optimizer) {
  if (optimizer == "sgd") return {"momentum"};
  if (optimizer == "adam" || optimizer == "adamw") return {"exp_avg", "exp_avg_sq"};
  if (optimizer == "accum-adam" || optimizer == "accum-adamw")
    return {"exp_avg", "exp_avg_sq", "accumulated"};
  return {};
}

// `known` where there are as many, else numbered.
Names as_many(Names known, const char* what, std::size_t count) {
  if (known.size() == count) return known;
  known.clear();
  for (std::size_t k = 0; k < count; ++k)
    known.push_back(cat(what, k));
  return known;
}

// Where a parameter, or a range of it, lies.
struct Part {
  std::size_t bucket = 0;
  std::size_t index = 0;  // in its bucket
  const engine::Placed* placed = nullptr;
};

class Builder {
 public:
  explicit Builder(const ParameterStateOptions& options)
      : options_(options), parts_(options.parameters.size()) {
    for (const engine::StateSpan& span : options.spans)
      spans_[span.name] = span.bytes;
    for (std::size_t b = 0; b < options.plans.size(); ++b) {
      const engine::BucketPlan& plan = options.plans[b];
      for (std::size_t k = 0; k < plan.segments.size(); ++k)
        parts_[plan.segments[k].segment].push_back({b, k, &plan.segments[k]});
    }
  }

  std::vector<StateTensor> build() {
    add_each("model", Merge::mean,
             [&](const Part& part, std::size_t) { return span(part.bucket, cat("model", part.index)); });
    std::size_t count = 0;
    while (spans_.contains(cat("bucket0/state", count)))
      ++count;
    const std::vector<StateName> names = state_names(*options_.engine, count);
    for (std::size_t s = 0; s < count; ++s) {
      const Merge merge = names[s].begins_anew ? Merge::reset : Merge::mean;
      add_each(names[s].name, merge, [&](const Part& part, std::size_t element) {
        return span(part.bucket, cat("state", s))
            .subspan(part.placed->first * element, part.placed->count * element);
      });
    }
    add_steps();
    add_weights();
    add_replicas();
    add_pace();
    return std::move(tensors_);
  }

 private:
  Bytes span(std::size_t bucket, const std::string& name) const {
    const auto found = spans_.find(cat("bucket", bucket, "/", name));
    KITH_CHECK(found != spans_.end(), "a bucket has the state that its engine names");
    return found->second;
  }

  void add_each(const std::string& what, Merge merge,
                const std::function<Bytes(const Part&, std::size_t element)>& bytes_of) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const NamedParameter& parameter = options_.parameters[i];
      const bool is_double = options_.plans[parts_[i].front().bucket].type == DType::f64;
      StateTensor tensor{
          cat(what, ".", parameter.name), is_double ? "F64" : "F32", parameter.shape, merge, 0, {}, {}};
      for (const Part& part : parts_[i])
        tensor.pieces.push_back(bytes_of(part, is_double ? sizeof(double) : sizeof(float)));
      tensors_.push_back(std::move(tensor));
    }
  }

  // The parts of a parameter step together.
  void add_steps() {
    constexpr std::size_t kBytes = sizeof(std::int64_t);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      StateTensor tensor{cat("steps.", options_.parameters[i].name), "I64", {}, Merge::largest, 0, {}, {}};
      for (const Part& part : parts_[i]) {
        auto& to = tensor.pieces.empty() ? tensor.pieces : tensor.echoes;
        to.push_back(span(part.bucket, "steps").subspan(part.index * kBytes, kBytes));
      }
      tensors_.push_back(std::move(tensor));
    }
  }

  void add_weights() {
    StateTensor tensor{
        "push_weight", "F64", {static_cast<std::int64_t>(options_.plans.size())}, Merge::reset, 1, {}, {}};
    for (std::size_t b = 0; b < options_.plans.size(); ++b)
      tensor.pieces.push_back(span(b, "weight"));
    tensors_.push_back(std::move(tensor));
  }

  // One block per bucket and channel, its contents the engine's own.
  void add_replicas() {
    for (const auto& [name, bytes] : spans_) {
      const std::size_t at = name.find("/replicas/");
      if (at == std::string::npos) continue;
      tensors_.push_back({cat(kReplicas, name.substr(0, at), ".", name.substr(name.rfind('/') + 1)),
                          "U8",
                          {static_cast<std::int64_t>(bytes.size())},
                          Merge::reset,
                          0,
                          {bytes},
                          {}});
    }
  }

  // Other workers begin with zeros: nothing was measured so far.
  void add_pace() {
    const auto found = spans_.find(kPace);
    if (found == spans_.end()) return;
    const auto bytes = static_cast<std::int64_t>(found->second.size());
    tensors_.push_back({kPace, "U8", {bytes}, Merge::reset, 0, {found->second}, {}});
  }

  const ParameterStateOptions& options_;
  std::vector<std::vector<Part>> parts_;  // by parameter
  std::map<std::string, Bytes> spans_;
  std::vector<StateTensor> tensors_;
};

}  // namespace

std::size_t StateTensor::bytes() const {
  std::size_t sum = 0;
  for (const Bytes piece : pieces)
    sum += piece.size();
  return sum;
}

void StateTensor::copy_to(Bytes to) const {
  for (const Bytes piece : pieces) {
    std::ranges::copy(piece, to.begin());
    to = to.subspan(piece.size());
  }
}

void StateTensor::copy_from(std::span<const std::byte> from) const {
  for (const Bytes echo : echoes)
    std::ranges::copy(from, echo.begin());
  for (const Bytes piece : pieces) {
    std::ranges::copy(from.first(piece.size()), piece.begin());
    from = from.subspan(piece.size());
  }
}

std::vector<StateName> state_names(const engine::EngineOptions& options, std::size_t count) {
  const int states =
      options.external_optimizer ? 0 : optim::make_local_step<float>(options.optimizer)->states();
  const auto of_optimizer = static_cast<std::size_t>(states);
  KITH_CHECK(of_optimizer <= count, "a bucket keeps the optimizer's state");
  std::vector<StateName> names;
  for (std::string& name : as_many(names_of_optimizer(options.optimizer.name), "optimizer", of_optimizer))
    names.push_back({std::move(name), false});
  const auto algorithm = optim::make_algorithm<float>(options.algorithm, options.method);
  const bool resets = algorithm->at_view_change() == optim::AtViewChange::reset;
  for (std::string& name : as_many(algorithm->states(), "algorithm", count - of_optimizer))
    names.push_back({std::move(name), resets});
  return names;
}

std::vector<StateTensor> state_tensors(const ParameterStateOptions& options) {
  return Builder(options).build();
}

}  // namespace kith::train
