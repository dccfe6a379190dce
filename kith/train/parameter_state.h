#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kith/engine/bucketing.h"
#include "kith/engine/engine.h"

namespace kith::train {

// The engine keeps its state by bucket; a checkpoint names it by parameter, so that it can be read without
// knowing how the model was cut.

// What becomes of several workers' tensors when other workers go on from them.
//   mean     of all of them, in double
//   largest  of each number
//   reset    to what it is before the first step
enum class Merge : std::uint8_t { mean, largest, reset };

// A tensor of the state and where its bytes lie in the engine.
struct StateTensor {
  std::string name;  // "exp_avg.layers.0.weight"
  std::string type;  // of safetensors: F32, F64, I64
  std::vector<std::int64_t> shape;
  Merge merge = Merge::mean;
  double first = 0;                          // what every number is before the first step
  std::vector<std::span<std::byte>> pieces;  // one after the other they are the tensor
  std::vector<std::span<std::byte>> echoes;  // more places that hold the bytes of the first piece
  std::size_t bytes() const;
  void copy_to(std::span<std::byte> to) const;  // REQUIRES: to.size() == bytes(), here and below
  void copy_from(std::span<const std::byte> from) const;
};

// A parameter as files name it, in the order of the engine's table.
struct NamedParameter {
  std::string name;
  std::vector<std::int64_t> shape;
};

// One vector of state per parameter.
struct StateName {
  std::string name;
  bool begins_anew = false;  // with other workers
};

// Names of the vectors that the engine's buckets keep, `count` of them.
std::vector<StateName> state_names(const engine::EngineOptions& options, std::size_t count);

struct ParameterStateOptions {
  std::span<const engine::StateSpan> spans;  // Engine::state() without the engine's name: "bucket0/model1"
  std::span<const engine::BucketPlan> plans;
  std::span<const NamedParameter> parameters;
  const engine::EngineOptions* engine = nullptr;
};

// model.NAME, then each vector of state, steps.NAME, and push_weight, which is one number per bucket.
std::vector<StateTensor> state_tensors(const ParameterStateOptions& options);

}  // namespace kith::train
