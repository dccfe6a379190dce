#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kith::train::study {

// How far a model has come.
struct Score {
  double loss = 0;                      // of everybody's data
  std::optional<double> accuracy = {};  // on data that nobody trains on; problems without such have none
};

// Something that several workers minimise together, each with data of its own: the mean of their losses.
// Small enough for all of them to be threads of one process. Immutable, so threads may share one. Torch-free.
class Problem {
 public:
  virtual ~Problem() = default;

  // Parameters of each part of the model, such as a matrix or a bias.
  virtual std::vector<std::size_t> parts() const = 0;
  // The model that everybody starts from, part after part.
  virtual std::vector<float> start() const = 0;
  // A worker's gradient in a step, of a batch that `seed`, the worker and the step draw.
  // REQUIRES: parts() vectors of parts()[k] elements each.
  virtual void gradient(int worker, std::int64_t step, std::span<const float* const> model,
                        std::span<float* const> gradient) const = 0;
  virtual Score score(std::span<const float* const> model) const = 0;
};

// Whose data a worker has.
//   mixed     samples of all kinds, dealt out
//   by_label  one kind after the other: everybody pulls elsewhere
enum class Split : std::uint8_t { mixed, by_label };

struct ProblemOptions {
  // quadratic  1/2 |A_i (x - b_i)|^2 in 256 dimensions with noise; every worker has its own A_i and b_i
  // logistic   a linear classifier of 2 kinds of made-up points in 32 dimensions, with a penalty that is not
  //            convex
  // mnist, fashion   10 kinds of images, by a net of one hidden layer
  std::string name = "logistic";
  int workers = 16;
  int batch = 32;
  int hidden = 32;  // images: 0 is softmax regression
  Split split = Split::mixed;
  std::uint64_t seed = 1;
  std::filesystem::path data = {};  // images: the folder of the four IDX files, unpacked
};

std::vector<std::string> problem_names();

// InputError: an unknown name, numbers out of range, images that are not there.
std::unique_ptr<Problem> make_problem(const ProblemOptions& options);

// The makers that make_problem knows.
std::unique_ptr<Problem> make_quadratic(const ProblemOptions& options);
std::unique_ptr<Problem> make_logistic(const ProblemOptions& options);
std::unique_ptr<Problem> make_images(const ProblemOptions& options);

}  // namespace kith::train::study
