#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <torch/types.h>

// Points on two spirals, and which of the two each is on.
struct Points {
  torch::Tensor x;  // count x 2
  torch::Tensor y;  // 0 or 1
};

inline Points spirals(std::int64_t count, std::uint64_t seed) {
  torch::manual_seed(seed);
  const torch::Tensor y = torch::randint(0, 2, {count});
  const torch::Tensor radius = torch::rand({count}).sqrt();
  const torch::Tensor angle = 6 * radius + 3.14159265 * y + 0.1 * torch::randn({count});
  return {torch::stack({radius * torch::cos(angle), radius * torch::sin(angle)}, 1), y};
}

// This worker's share of the points: every size-th from its rank on, shuffled anew in every epoch. Its
// position goes into checkpoints, so that a run that goes on sees no batch twice.
class Loader {
 public:
  Loader(const Points& all, int rank, int size, std::int64_t batch)
      : share_{all.x.slice(0, rank, {}, size), all.y.slice(0, rank, {}, size)}, batch_(batch) {
    shuffle();
  }

  Points next() {
    if ((at_.batch + 1) * batch_ > share_.x.size(0)) {
      at_ = {at_.epoch + 1, 0};
      shuffle();
    }
    const torch::Tensor chosen = order_.slice(0, at_.batch * batch_, (at_.batch + 1) * batch_);
    ++at_.batch;
    return {share_.x.index_select(0, chosen), share_.y.index_select(0, chosen)};
  }

  std::vector<std::byte> position() const {
    std::vector<std::byte> bytes(sizeof(at_));
    std::memcpy(bytes.data(), &at_, sizeof(at_));
    return bytes;
  }
  void seek(std::span<const std::byte> position) {
    std::memcpy(&at_, position.data(), sizeof(at_));
    shuffle();
  }

 private:
  struct Position {
    std::int64_t epoch = 0;
    std::int64_t batch = 0;
  };

  void shuffle() {
    torch::manual_seed(static_cast<std::uint64_t>(at_.epoch));
    order_ = torch::randperm(share_.x.size(0));
  }

  const Points share_;
  const std::int64_t batch_;
  Position at_;
  torch::Tensor order_;
};
