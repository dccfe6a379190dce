// Groups of many on one machine: each member sums a shard, and the fused pass reads the sums.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/engine/engine_support.h"

namespace kith::engine {
namespace {

// Per worker, the bytes that its last step read, and then its model.
std::vector<std::string> train_group(const std::string& backend, const std::string& algorithm,
                                     std::size_t bucket_bytes) {
  return support::run_world(backend, 8, [&](support::Worker& worker) {
    EngineOptions options = options_for(algorithm, "adam", "complete");
    options.bucket_bytes = bucket_bytes;
    options.stagger = false;
    Quadratic<float> quadratic(worker, options, {40'000, 40'000});
    quadratic.engine().start();
    StepReport last;
    for (int t = 0; t < 6; ++t)
      last = quadratic.step();
    return cat(last.bytes_read, "|", text_of(quadratic.model()));
  });
}

std::string model_in(const std::string& report) {
  return report.substr(report.find('|'));
}

// Buckets below 256 KiB are read whole from everybody, larger ones as sums of shards.
TEST(GroupSum, HasTheBitsOfReadingEverybodyAndAQuarterOfTheBytes) {
  constexpr std::uint64_t model_bytes = 80'000 * sizeof(float);
  for (const char* algorithm : {"awc", "atc"}) {
    const auto direct = train_group("inproc", algorithm, 160'000);
    for (const char* backend : {"inproc", "shm"}) {
      const auto summed = train_group(backend, algorithm, 1 << 20);
      for (std::size_t rank = 0; rank < 8; ++rank) {
        EXPECT_TRUE(model_in(summed[rank]) == model_in(direct[rank])) << algorithm << " over " << backend;
        EXPECT_TRUE(direct[rank].starts_with(cat(7 * model_bytes, "|"))) << algorithm;
        EXPECT_TRUE(summed[rank].starts_with(cat(7 * model_bytes / 4, "|")))
            << algorithm << " over " << backend << ": " << summed[rank].substr(0, 20);
      }
    }
  }
}

// A member that dies in the middle leaves the others with the mean of those who came.
TEST(GroupSum, OutlivesAMember) {
  const auto reports = support::run_world("inproc", 8, [&](support::Worker& worker) {
    EngineOptions options = options_for("awc", "adam", "complete");
    options.bucket_bytes = 1 << 20;
    options.reforms = true;
    Quadratic<float> quadratic(worker, options, {80'000});
    quadratic.engine().start();
    for (int t = 0; t < 30; ++t) {
      if (worker.rank == 5 && t == 7) support::die(worker);
      quadratic.step();
    }
    for (const float value : quadratic.model())
      if (!std::isfinite(value)) return std::string("not finite");
    quadratic.engine().gather(0);
    return cat(quadratic.engine().world().size());
  });
  for (std::size_t rank = 0; rank < 8; ++rank) {
    if (rank != 5) EXPECT_EQ(reports[rank], "7");
  }
}

}  // namespace
}  // namespace kith::engine
