#include "kith/engine/options.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

std::string problem_with(const EngineOptions& options) {
  std::string text;
  support::run_world("inproc", 1, [&](support::Worker& worker) {
    try {
      Quadratic<float> quadratic(worker, options);
    } catch (const InputError& error) {
      text = error.what();
    }
    return std::string();
  });
  return text;
}

TEST(Options, ImpossibleCombinationsNameValueAndRemedy) {
  EngineOptions options = options_for("awk", "adam", "ring");
  EXPECT_NE(problem_with(options).find("did you mean 'awc'"), std::string::npos) << problem_with(options);
  options = options_for("awc", "adan", "ring");
  EXPECT_NE(problem_with(options).find("did you mean 'adam'"), std::string::npos) << problem_with(options);
  options = options_for("awc", "adam", "rings");
  EXPECT_NE(problem_with(options).find("ring"), std::string::npos) << problem_with(options);
  options = options_for("sgp", "sgd", "ring");
  EXPECT_NE(problem_with(options).find("exp-directed"), std::string::npos) << problem_with(options);
  options = options_for("awc", "sgd", "exp-directed");
  EXPECT_NE(problem_with(options).find("sgp"), std::string::npos) << problem_with(options);
  options = options_for("atc", "sgd", "ring");
  options.layout = Layout::alternating;
  EXPECT_NE(problem_with(options).find("staged"), std::string::npos) << problem_with(options);
  options = options_for("awc", "sgd", "ring");
  options.layout = Layout::alternating;
  options.wire = DType::bf16;
  EXPECT_NE(problem_with(options).find("staged"), std::string::npos) << problem_with(options);
  options.wire = DType::i8;
  EXPECT_NE(problem_with(options).find("staged"), std::string::npos) << problem_with(options);
  options = options_for("allreduce", "sgd", "ring");
  options.wire = DType::i8;
  EXPECT_NE(problem_with(options).find("a wire of int8 with algorithm 'allreduce'"), std::string::npos);
  EXPECT_NE(problem_with(options).find("bf16 or fp16"), std::string::npos) << problem_with(options);
  options = options_for("awc", "sgd", "ring");
  options.mix_every = 0;
  EXPECT_NE(problem_with(options).find("mix every: 0"), std::string::npos) << problem_with(options);
  options = options_for("awc", "accum-adam", "ring");
  options.optimizer.commit_every = 0;
  EXPECT_NE(problem_with(options).find("optimizer.commit_every: 0"), std::string::npos)
      << problem_with(options);
  options = options_for("awc", "sgd", "ring");
  options.optimizer.momentum = 0;
  options.optimizer.nesterov = true;
  EXPECT_NE(problem_with(options).find("Nesterov"), std::string::npos) << problem_with(options);
}

}  // namespace
}  // namespace kith::engine
