// Rates that know how much of a gradient is noise: Note [Rates for noisy gradients].
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>

#include "kith/base/error.h"
#include "kith/train/checkpoint.h"
#include "kith/train/noise_meter.h"
#include "tests/train/support.h"

namespace kith::train {
namespace {

using namespace testing;
using support::Worker;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;

constexpr int kNoiseWorkers = 4;
constexpr int kSamples = 6;

// The first or the last samples of a batch.
plain::Batch part_of(const plain::Batch& batch, int first, int count) {
  const auto cut = [&](const plain::Matrix& rows) {
    return plain::Matrix(rows.begin() + first, rows.begin() + first + count);
  };
  return {cut(batch.x), cut(batch.y)};
}

Options adamw_options(const std::string& algorithm = "awc", const std::string& topology = "exp") {
  Options options = options_for(algorithm, "adamw", topology);
  options.lr = 4e-3;
  options.weight_decay = 0.03;
  options.stagger = false;
  return options;
}

// A step whose noise is measured with the first `first` samples of the worker's batch; 0: not measured.
void measured_step(DecentralizedDataParallel& model, Network& network, int first) {
  const plain::Batch batch = batch_of(model.world().rank(), model.steps(), kSamples);
  const double share = static_cast<double>(first) / kSamples;
  model.zero_grad();
  if (first > 0) {
    const auto guard = model.no_sync();
    (share * loss_of(network, part_of(batch, 0, first))).backward();
    model.measure_noise(share);
  }
  ((1 - share) * loss_of(network, part_of(batch, first, kSamples - first))).backward();
  model.step();
}

int first_of(std::int64_t step) {
  return step % 2 == 0 ? 2 : 0;
}

// What the header says, in loops: awc on exp, AdamW, one share of noise for each of the four parameters.
class PlainNoise {
 public:
  std::vector<plain::Vector> train(int steps) {
    std::vector<plain::Vector> x(kNoiseWorkers, start_values());
    state_.assign(kNoiseWorkers, State(x[0].size()));
    for (int t = 0; t < steps; ++t) {
      const plain::Matrix w = plain::exp4(t);
      std::vector<plain::Vector> next(kNoiseWorkers, plain::Vector(x[0].size()));
      for (std::size_t i = 0; i < kNoiseWorkers; ++i) {
        for (std::size_t j = 0; j < kNoiseWorkers; ++j) {
          for (std::size_t e = 0; e < x[0].size(); ++e)
            next[i][e] += w[i][j] * x[j][e];
        }
        step(static_cast<int>(i), t, x[i], next[i]);
      }
      x = next;
    }
    return x;
  }

  double share(int worker, std::size_t p) const {
    const State& s = state_[static_cast<std::size_t>(worker)];
    return s.square[p] > 0 ? std::min(1.0, s.noise[p] / s.square[p]) : 0;
  }

 private:
  static constexpr std::array<std::size_t, 5> kEnds{0, 12, 16, 24, 26};  // of W1, b1, W2, b2
  struct State {
    explicit State(std::size_t size) : m(size), v(size) {}
    plain::Vector m, v;
    std::array<double, 4> noise{}, square{};
  };

  void step(int worker, int t, const plain::Vector& x, plain::Vector& to) {
    State& s = state_[static_cast<std::size_t>(worker)];
    const plain::Batch batch = batch_of(worker, t, kSamples);
    const plain::Vector whole = plain::gradient({}, x, batch);
    for (std::size_t p = 0; p < 4; ++p) {
      const double factor = 1 / std::sqrt(1 - share(worker, p) * (1 - 1.0 / kNoiseWorkers));
      for (std::size_t e = kEnds[p]; e < kEnds[p + 1]; ++e) {
        s.m[e] = 0.9 * s.m[e] + 0.1 * whole[e];
        s.v[e] = 0.999 * s.v[e] + 0.001 * whole[e] * whole[e];
        const double m = s.m[e] / (1 - std::pow(0.9, t + 1)), v = s.v[e] / (1 - std::pow(0.999, t + 1));
        to[e] -= 4e-3 * (0.03 * to[e] + factor * m / (std::sqrt(v) + 1e-8));
      }
    }
    if (first_of(t) > 0) measure(s, whole, batch, x, first_of(t));
  }

  // The variance of the difference of two means over k and l samples is that of one sample times 1/k + 1/l.
  static void measure(State& s, const plain::Vector& whole, const plain::Batch& batch, const plain::Vector& x,
                      int k) {
    const int l = kSamples - k;
    const plain::Vector a = plain::gradient({}, x, part_of(batch, 0, k));
    const plain::Vector b = plain::gradient({}, x, part_of(batch, k, l));
    for (std::size_t p = 0; p < 4; ++p) {
      double noise = 0, square = 0;
      for (std::size_t e = kEnds[p]; e < kEnds[p + 1]; ++e) {
        noise += (a[e] - b[e]) * (a[e] - b[e]) / (1.0 / k + 1.0 / l) / kSamples;
        square += whole[e] * whole[e];
      }
      s.noise[p] = 0.8 * s.noise[p] + 0.2 * noise;
      s.square[p] = 0.8 * s.square[p] + 0.2 * square;
    }
  }

  std::vector<State> state_;
};

// Decay in the plain loop acts on the mixed model, as the pass does.
TEST(Noise, RatesAreThoseOfThePlainLoop) {
  constexpr int kSteps = 20;
  PlainNoise plain;
  const std::vector<plain::Vector> expected = plain.train(kSteps);
  const auto models = support::run_threads(kNoiseWorkers, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), here.world, adamw_options());
    for (int t = 0; t < kSteps; ++t)
      measured_step(model, network, first_of(t));
    const std::vector<std::string> names{"first.weight", "first.bias", "second.weight", "second.bias"};
    for (std::size_t p = 0; p < names.size(); ++p) {
      const double share = plain.share(worker.rank, p);
      EXPECT_GT(share, 0.05);
      EXPECT_NEAR(model.rate_factor(names[p]), 1 / std::sqrt(1 - 0.75 * share), 1e-9);
    }
    return to_bytes(flatten(*network));
  });
  for (std::size_t i = 0; i < kNoiseWorkers; ++i)
    EXPECT_LT(largest_difference(from_bytes(models[i]), expected[i]), 1e-10) << "worker " << i;
}

// s^2 / (G^2 + s^2) of gradients that are drawn so, whatever the parts.
TEST(Noise, IsTheShareOfTheVariance) {
  const std::unique_ptr<ModelDevice> device = make_model_device(test_device());
  const auto draw = [](std::uint64_t seed, double scale) {
    return scale * to_tensor({random_values(40000, seed)}, torch::kFloat64).flatten();
  };
  for (const double share : {0.5, 0.2}) {
    NoiseMeter meter(2);
    for (std::uint64_t k = 0; k < 4; ++k) {
      // The mean over a share of the samples has noise s / sqrt(share); the parts' gradients count by shares.
      const torch::Tensor part = share * (draw(1, 1) + draw(10 + k, 3 / std::sqrt(share)));
      const torch::Tensor rest = (1 - share) * (draw(1, 1) + draw(20 + k, 3 / std::sqrt(1 - share)));
      meter.take_part({part, draw(1, share)}, share);
      meter.take_whole({part + rest, draw(1, 1)}, *device);
    }
    EXPECT_NEAR(meter.share(0), 9.0 / 10, 0.01) << share;
    EXPECT_NEAR(meter.share(1), 0, 1e-12) << share;  // both parts have the same gradient
  }
}

TEST(Noise, OfAGradientThatIsNoNumberIsNotCounted) {
  const std::unique_ptr<ModelDevice> device = make_model_device(test_device());
  const auto ones = [](double value) {
    return torch::full({4}, value, torch::TensorOptions(test_device()).dtype(torch::kFloat64));
  };
  NoiseMeter meter(1);
  meter.take_part({ones(1)}, 0.5);
  meter.take_whole({ones(1)}, *device);
  EXPECT_EQ(meter.share(0), 1);
  const std::vector<double> before = meter.state();
  meter.take_part({ones(1)}, 0.5);
  meter.take_whole({ones(std::numeric_limits<double>::infinity())}, *device);
  EXPECT_EQ(meter.state(), before);
  meter.take_whole({ones(1)}, *device);  // not measured: no part of it was taken
  EXPECT_EQ(meter.state(), before);
}

struct Untouched {
  std::string algorithm, optimizer;
  int workers;
};

// Where gradients are averaged, tracked or not divided by their size, measuring changes no bit.
TEST(Noise, ChangesNothingWhereThereIsNothingToMend) {
  for (const Untouched& c : std::vector<Untouched>{{"allreduce", "adamw", 2},
                                                   {"dsgt", "adamw", 2},
                                                   {"awc", "sgd", 2},
                                                   {"none", "adamw", 2},
                                                   {"awc", "adamw", 1}}) {
    const auto train = [&](bool measures) {
      return support::run_threads(c.workers, [&](Worker& worker) {
        TestWorld here(worker);
        Network network = make_network();
        DecentralizedDataParallel model(network.ptr(), here.world, options_for(c.algorithm, c.optimizer));
        EXPECT_FALSE(model.corrects_noise());
        for (int t = 0; t < 6; ++t) {
          const plain::Batch batch = batch_of(worker.rank, t, kSamples);
          model.zero_grad();
          {
            const auto guard = model.no_sync();
            loss_of(network, part_of(batch, 0, 3)).backward();
          }
          if (measures) model.measure_noise();
          loss_of(network, part_of(batch, 3, 3)).backward();
          model.step({.gradient_scale = 0.5});
        }
        EXPECT_EQ(model.rate_factor("first.weight"), 1);
        return to_bytes(flatten(*network));
      });
    };
    EXPECT_EQ(train(true), train(false)) << c.algorithm << " " << c.optimizer;
  }
}

std::vector<std::string> train_noisy(int workers, int steps, const fs::path& from, const fs::path& to) {
  return support::run_threads(workers, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    Options options = adamw_options();
    options.resume_from = from;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    while (model.steps() < steps)
      measured_step(model, network, first_of(model.steps()));
    if (!to.empty()) save_checkpoint(model, {to, 2, {}});
    return to_bytes(flatten(*network));
  });
}

TEST(Noise, GoesOnFromACheckpoint) {
  const support::TempFolder folder;
  const auto straight = train_noisy(2, 9, {}, {});
  train_noisy(2, 5, {}, folder.path());
  EXPECT_EQ(train_noisy(2, 9, checkpoint_path(folder.path(), 5), {}), straight);
}

TEST(Noise, OfOtherWorkersBeginsWithTheMean) {
  const support::TempFolder folder;
  train_noisy(4, 5, {}, folder.path());
  const fs::path checkpoint = checkpoint_path(folder.path(), 5);
  const Manifest manifest = verify_checkpoint(checkpoint);
  double mean = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const WorkerFile file = read_worker_file(checkpoint, manifest, rank);
    double first = 0;
    std::memcpy(&first, file.tensor("noise").bytes.data(), sizeof first);
    mean += first / 4;
  }
  support::run_threads(2, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    Options options = adamw_options();
    options.resume_from = checkpoint;
    DecentralizedDataParallel model(network.ptr(), here.world, options);
    save_checkpoint(model, {folder.path() / "again", 2, {}});
    return std::string();
  });
  const fs::path again = checkpoint_path(folder.path() / "again", 5);
  const WorkerFile file = read_worker_file(again, verify_checkpoint(again), 1);
  double first = 0;
  std::memcpy(&first, file.tensor("noise").bytes.data(), sizeof first);
  EXPECT_GT(first, 0);
  EXPECT_DOUBLE_EQ(first, mean);
}

TEST(Noise, BadInputIsNamed) {
  support::run_threads(2, [&](Worker& worker) {
    TestWorld here(worker);
    Network network = make_network();
    DecentralizedDataParallel model(network.ptr(), here.world, adamw_options());
    for (const double share : {0.0, 1.0, -1.0, std::nan("")})
      EXPECT_THROW(model.measure_noise(share), InputError);
    EXPECT_THAT([&] { model.rate_factor("third.weight"); },
                ThrowsMessage<InputError>(HasSubstr("no parameter 'third.weight'")));
    return std::string();
  });
}

}  // namespace
}  // namespace kith::train
