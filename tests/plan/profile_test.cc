#include "kith/plan/profile.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/plan/measured.h"
#include "tests/plan/profiles.h"

namespace kith::plan {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Profile, IsRead) {
  const Profile profile = small_profile();
  EXPECT_EQ(profile.name, "small");
  EXPECT_EQ(profile.nodes.text(), "4,4,4,4");
  ASSERT_EQ(profile.job.buckets.size(), 5U);
  EXPECT_DOUBLE_EQ(profile.job.bytes(), 150e6);
  EXPECT_DOUBLE_EQ(profile.job.forward.mean_s(), 10e-3);
  EXPECT_NEAR(profile.job.forward.cv(), 0.05, 1e-4);
  EXPECT_NEAR(profile.job.buckets[0].backward.cv(), 0.1, 1e-3);
  EXPECT_DOUBLE_EQ(profile.job.buckets[4].backward.mean_s(), 4e-3);
  EXPECT_NEAR(profile.job.batch.cv(), 0.1, 1e-3);
  EXPECT_DOUBLE_EQ(profile.network.between.bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(profile.network.nic_bytes_per_s, 3.125e9);
  EXPECT_FALSE(profile.strong);
}

TEST(Profile, ASingleMachineNeedsNoLinksBetween) {
  json document = profile_json();
  document["nodes"] = "1x4";
  document["links"].erase("between");
  document["links"].erase("nic");
  const Profile profile = parse_profile(document.dump(), "small.json");
  EXPECT_FALSE(profile.between_known);
  try {
    with_nodes(profile, graph::Shape::parse("2x4", "test"));
    FAIL() << "links between machines are not known";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--link"));
  }
  const Profile linked = with_nodes(with_link(profile, 1.25e9), graph::Shape::parse("2x4", "test"));
  EXPECT_DOUBLE_EQ(linked.network.between.bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(linked.network.nic_bytes_per_s, 1.25e9);
}

TEST(Profile, SingleWorkersNeedNoLinksInside) {
  json document = profile_json();
  document["nodes"] = "4x1";
  document["links"].erase("inside");
  const Profile profile = parse_profile(document.dump(), "small.json");
  EXPECT_FALSE(profile.inside_known);
  EXPECT_NO_THROW(with_nodes(profile, graph::Shape::parse("8x1", "test")));
  EXPECT_THROW(with_nodes(profile, graph::Shape::parse("4x2", "test")), InputError);
}

TEST(Profile, WhatIsMeasuredIsReadBack) {
  Measured measured;
  measured.name = "measured";
  measured.nodes = graph::Shape::parse("2x2", "test");
  measured.forward_s = {0.010, 0.011, 0.012};
  measured.buckets = {{1234567, {0.004, 0.005}, {0.0005}}, {400, {0.001}, {1e-6}}};
  measured.batch_cv = 0.04;
  measured.inside = sim::Link{3e-6, 5e9};
  measured.between = sim::Link{40e-6, 1.2e8};
  measured.nic_bytes_per_s = 1.25e8;
  measured.memory_bytes_per_s = 7e9;
  measured.message_s_per_byte = 3.2e-9;
  const Profile profile = parse_profile(profile_json(measured), "measured.json");
  EXPECT_EQ(profile.nodes.text(), "2,2");
  EXPECT_NEAR(profile.job.forward.mean_s(), 0.011, 1e-6);
  ASSERT_EQ(profile.job.buckets.size(), 2u);
  EXPECT_DOUBLE_EQ(profile.job.buckets[0].bytes, 1234567);
  EXPECT_NEAR(profile.job.buckets[0].backward.mean_s(), 0.0045, 1e-6);
  EXPECT_NEAR(profile.job.buckets[1].step.mean_s(), 1e-6, 1e-9);
  EXPECT_NEAR(profile.job.batch.cv(), 0.04, 1e-3);
  EXPECT_NEAR(profile.network.between.latency_s, 40e-6, 1e-9);
  EXPECT_NEAR(profile.network.between.bytes_per_s, 1.2e8, 1);
  EXPECT_NEAR(profile.network.nic_bytes_per_s, 1.25e8, 1);
  EXPECT_NEAR(profile.memory_bytes_per_s, 7e9, 1);
  EXPECT_NEAR(profile.job.message_s_per_byte, 3.2e-9, 1e-13);
  EXPECT_TRUE(profile.job.slowness.empty());
}

// The samples are the first worker's; what the others take longer reaches the model.
TEST(Profile, UnevenWorkersReachThePlanner) {
  Measured measured;
  measured.nodes = graph::Shape::parse("2x2", "test");
  measured.forward_s = {0.010};
  measured.buckets = {{1000, {0.004}, {0.001}}};
  measured.inside = sim::Link{3e-6, 5e9};
  measured.between = sim::Link{40e-6, 1.2e8};
  measured.nic_bytes_per_s = 1.25e8;
  measured.compute_s = {0.020, 0.021, 0.010, 0.050};
  EXPECT_EQ(slowness_of(measured), (std::vector<double>{1, 1.05, 0.5, 2.5}));
  EXPECT_EQ(parse_profile(profile_json(measured), "measured.json").job.slowness,
            (std::vector<double>{1, 1.05, 0.5, 2.5}));
  measured.compute_s = {0.020, 0.021, 0.0205, 0.0205};  // within what one machine varies by
  EXPECT_TRUE(slowness_of(measured).empty());
  const Profile even = parse_profile(profile_json(measured), "measured.json");
  EXPECT_TRUE(even.job.slowness.empty());
  EXPECT_NEAR(even.job.forward.mean_s(), 0.010 * 0.0205 / 0.020, 1e-7) << "of the mean worker, not the first";
}

// One broken field each: the message must hold the file and the path.
struct Broken {
  const char* pointer;
  json value;  // null: removed
  const char* path;
};

class BrokenProfile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenProfile, IsRefusedWithItsPath) {
  const Broken& broken = GetParam();
  json document = profile_json();
  const json::json_pointer at(broken.pointer);
  if (broken.value.is_null())
    document[at.parent_pointer()].erase(at.back());
  else
    document[at] = broken.value;
  try {
    parse_profile(document.dump(), "broken.json");
    FAIL() << "accepted " << document.dump();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::string("broken.json: ") + broken.path + ":"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BrokenProfile,
    testing::Values(
        Broken{"/kith_profile", nullptr, "/kith_profile"}, Broken{"/kith_profile", 2, "/kith_profile"},
        Broken{"/nodes", nullptr, "/nodes"}, Broken{"/nodes", "4y4", "/nodes"},
        Broken{"/nodes", json::array({4, 0}), "/nodes/1"},
        Broken{"/nodes", json::array({4, 2.5}), "/nodes/1"}, Broken{"/workers", 17, "/workers"},
        Broken{"/forward", nullptr, "/forward"}, Broken{"/forward", "10", "/forward"},
        Broken{"/forward", 10, "/forward"}, Broken{"/forward/mean", "-1ms", "/forward/mean"},
        Broken{"/forward/mean", "nanms", "/forward/mean"},
        Broken{"/forward/mean", "3 fortnights", "/forward/mean"}, Broken{"/forward/cv", -0.1, "/forward/cv"},
        Broken{"/forward/shape", "gaussian", "/forward/shape"}, Broken{"/forward/width", 1, "/forward"},
        Broken{"/buckets", json::array(), "/buckets"}, Broken{"/buckets", "many", "/buckets"},
        Broken{"/buckets/1/bytes", nullptr, "/buckets/1/bytes"},
        Broken{"/buckets/1/bytes", "0MB", "/buckets/1/bytes"},
        Broken{"/buckets/0/bytes", "25 furlongs", "/buckets/0/bytes"},
        Broken{"/buckets/1/step", "1 parsec", "/buckets/1/step"},
        Broken{"/buckets/0/repeat", 0, "/buckets/0/repeat"},
        Broken{"/buckets/1/backward/samples", json::array(), "/buckets/1/backward/samples"},
        Broken{"/buckets/1/backward/samples/1", "-3ms", "/buckets/1/backward/samples/1"},
        Broken{"/batch/cv", "wide", "/batch/cv"}, Broken{"/links/nic", nullptr, "/links/nic"},
        Broken{"/links/nic", "0gbit", "/links/nic"},
        Broken{"/links/between/latency", "20", "/links/between/latency"},
        Broken{"/links/inside/bandwidth", "20GB", "/links/inside/bandwidth"},
        Broken{"/lnks", json::object(), "/"}, Broken{"/slowness", json::array({1, 2}), "/slowness"},
        Broken{"/straggler", json{{"probability", 1.5}, {"delay", "1ms"}}, "/straggler/probability"},
        Broken{"/strong_scaling", json{{"floor", "90ms"}, {"exponent", 2}}, "/strong_scaling/floor"},
        Broken{"/strong_scaling", json{{"floor", "9ms"}, {"exponent", 0.5}}, "/strong_scaling/exponent"}));

TEST(Profile, ATypoIsSuggested) {
  json document = profile_json();
  document["foward"] = "1ms";
  try {
    parse_profile(document.dump(), "p.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'forward'?"));
  }
}

TEST(Profile, WhatIsNotJsonIsRefused) {
  EXPECT_THROW(parse_profile("{\"kith_profile\": NaN}", "p.json"), InputError);
  EXPECT_THROW(parse_profile("", "p.json"), InputError);
  EXPECT_THROW(parse_profile("[]", "p.json"), InputError);
  EXPECT_THROW(read_profile("/nowhere/profile.json"), InputError);
}

TEST(Profile, OtherLinksKeepTheFlowsShare) {
  const Profile changed = with_link(small_profile(), 12.5e9);
  EXPECT_DOUBLE_EQ(changed.network.nic_bytes_per_s, 12.5e9);
  EXPECT_DOUBLE_EQ(changed.network.between.bytes_per_s, 5e9);
}

TEST(Profile, StrongScalingFollowsItsFormula) {
  json document = profile_json();
  document["strong_scaling"] = {{"floor", "12ms"}, {"exponent", 2}};
  const Profile profile = parse_profile(document.dump(), "p.json");
  EXPECT_DOUBLE_EQ(profile.job.forward_backward_s(), 30e-3);
  EXPECT_NEAR(with_nodes(profile, profile.nodes).job.forward_backward_s(), 30e-3, 1e-15);
  const double work = std::sqrt(30.0 * 30 - 12 * 12) / 2;
  EXPECT_NEAR(with_nodes(profile, graph::Shape(std::vector<int>(8, 4))).job.forward_backward_s() * 1e3,
              std::sqrt(144 + work * work), 1e-9);
  EXPECT_NEAR(with_nodes(profile, graph::Shape(std::vector<int>(4000, 4))).job.forward_backward_s(), 12e-3,
              1e-4);
}

TEST(Profile, SlownessMustFitTheNodes) {
  json document = profile_json();
  document["slowness"] = std::vector<double>(16, 1.0);
  const Profile profile = parse_profile(document.dump(), "p.json");
  EXPECT_EQ(profile.job.slowness.size(), 16U);
  EXPECT_THROW(with_nodes(profile, graph::Shape::single_node(4)), InputError);
}

TEST(Profile, TheShippedOnesAreGood) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KITH_PROFILES)) {
    if (entry.path().extension() != ".json") continue;
    const Profile profile = read_profile(entry.path().string());
    EXPECT_NEAR(profile.job.bytes(), 251e6, 1e6) << entry.path();
    EXPECT_TRUE(profile.strong) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace kith::plan
