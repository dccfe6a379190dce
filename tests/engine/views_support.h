#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kith/optim/methods.h"
#include "tests/engine/engine_support.h"

// Engines whose members change.
namespace kith::engine {

inline EngineOptions reforming(const std::string& algorithm, const std::string& topology) {
  const optim::Method& method = optim::method_of(algorithm);
  EngineOptions options =
      options_for(algorithm, method.optimizer.empty() ? "adamw" : std::string(method.optimizer), topology);
  options.reforms = true;
  if (method.codec == optim::Method::Codec::needed) options.codec = algorithm == "q-push" ? "qsgd 6" : "sign";
  if (method.takes_outer) options.trigger = "every 3";
  if (method.takes_rounds) options.method.rounds = 2;
  return options;
}

// Steps up to `steps`, slowly enough for news to come by; what every step must say.
inline void run_on(Quadratic<double>& quadratic, int steps) {
  while (quadratic.engine().steps() < steps) {
    const std::int64_t before = quadratic.engine().steps();
    const StepReport report = quadratic.step();
    EXPECT_TRUE(report.late.empty());
    EXPECT_EQ(report.step, before);
    EXPECT_EQ(quadratic.engine().steps(), before + 1);
    EXPECT_EQ(report.view, quadratic.engine().world().members.view);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline std::vector<double> mean_of(Quadratic<double>& quadratic) {
  std::vector<std::vector<double>> parts{std::vector<double>(7), std::vector<double>(1),
                                         std::vector<double>(40), std::vector<double>(16)};
  std::vector<void*> to;
  for (auto& part : parts)
    to.push_back(part.data());
  quadratic.engine().average(to);
  std::vector<double> all;
  for (const auto& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Which members of how many views, then the model, then the mean of all models.
inline std::string account(Quadratic<double>& quadratic) {
  const auto mean = mean_of(quadratic);
  std::string text;
  for (const WorkerId worker : quadratic.engine().world().members.workers)
    text += cat(worker.value, " ");
  return cat(text, "| ", text_of(quadratic.model()), "| ", text_of(mean));
}

struct Account {
  std::string members, model, mean;
};
inline Account read(const std::string& text) {
  const std::size_t first = text.find('|'), second = text.rfind('|');
  return {text.substr(0, first), text.substr(first, second - first), text.substr(second)};
}

}  // namespace kith::engine
