#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kith/engine/bucket_model.h"
#include "kith/engine/engine.h"

namespace kith::engine {

struct BucketStateOptions {
  std::string name;   // of the bucket: its state's names begin with it
  int optimizer = 0;  // vectors of state, at most three
  int algorithm = 0;
};

// What a bucket keeps beside its model: the optimizer's vectors, the algorithm's, every part's own steps, and
// push-sum's weight. Saves and restores all of it together with the model.
template <class T>
class BucketState {
 public:
  BucketState(BucketModel<T>& model, BucketStateOptions options);

  // From element `first` of the bucket on.
  std::array<T*, 3> optimizer(std::size_t first) const;
  T* algorithm(int index, std::size_t first) const;

  std::int64_t steps(std::size_t part) const { return steps_[part]; }
  void add_step(std::size_t part) { ++steps_[part]; }

  double weight() const { return weight_; }
  void set_weight(double weight) { weight_ = weight; }

  // To be read, or filled before take(); until then it hands out the same memory again, as it was filled.
  void spans(std::vector<StateSpan>& spans);
  // What spans() gave out may have been filled since.
  void take();

  std::size_t bytes() const;

 private:
  // The blocks of state where they lie.
  struct Block {
    std::string name;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool on_device = true;
    bool of_algorithm = false;
  };
  std::vector<Block> blocks();

  BucketModel<T>& model_;
  const BucketStateOptions options_;
  std::vector<kernels::Buffer> vectors_;  // the optimizer's, then the algorithm's
  std::vector<std::int64_t> steps_;
  double weight_ = 1;
  std::vector<std::vector<std::byte>> saved_;  // asynchronous devices: what spans() gave out
  bool taken_ = false;
};

}  // namespace kith::engine
