#include "kith/plan/sweep.h"

#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/plan/profiles.h"

namespace kith::plan {
namespace {

TEST(Axis, Bandwidth) {
  const Axis axis = parse_axis("bandwidth=1gbit..100gbit:3", "--sweep");
  ASSERT_EQ(axis.values.size(), 3U);
  EXPECT_DOUBLE_EQ(axis.values[0], 0.125e9);
  EXPECT_NEAR(axis.values[1], 1.25e9, 1);
  EXPECT_NEAR(axis.values[2], 12.5e9, 1);
  EXPECT_EQ(axis.labels[1], "10 Gbit/s");
}

TEST(Axis, WorkersDouble) {
  EXPECT_EQ(parse_axis("workers=8..256", "--sweep").values, (std::vector<double>{8, 16, 32, 64, 128, 256}));
}

TEST(Axis, NonsenseIsRefused) {
  for (const char* text :
       {"", "bandwidth", "bandwidth=1gbit", "bandwith=1gbit..2gbit", "workers=0..8", "workers=8..4",
        "workers=2.5..8", "spread=a..b", "workers=1..8:0", "workers=1..8:x", "bandwidth=0gbit..1gbit"})
    EXPECT_THROW(parse_axis(text, "--sweep"), InputError) << text;
}

TEST(Sweep, WorkersKeepTheirNodes) {
  const Axis axis = parse_axis("workers=2..10:3", "--sweep");
  EXPECT_EQ(at(small_profile(), axis, 0).nodes.text(), "2");
  EXPECT_EQ(at(small_profile(), axis, 2).nodes.text(), "4,4,2");
}

TEST(Sweep, SlowerLinksGainMore) {
  const Map map = sweep(small_profile(), parse_axis("bandwidth=1gbit..1000gbit:3", "--sweep"),
                        parse_axis("workers=8..32", "--sweep"), {.iterations = 100});
  ASSERT_EQ(map.cells.size(), 9U);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_GT(map.cell(row, 0).speed_up, map.cell(row, 2).speed_up) << row;
    EXPECT_NEAR(map.cell(row, 1).speed_up, map.cell(row, 1).all_reduce_s / map.cell(row, 1).mixing_s, 1e-12);
  }
}

TEST(Sweep, TwiceTheSameIsRefused) {
  const Axis axis = parse_axis("workers=8..16", "--sweep");
  EXPECT_THROW(sweep(small_profile(), axis, axis, {}), InputError);
}

}  // namespace
}  // namespace kith::plan
