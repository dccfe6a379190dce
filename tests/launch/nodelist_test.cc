#include "kith/launch/nodelist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/support/failure.h"

namespace kith::launch {
namespace {

using support::failure_of;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> nodes(std::string_view list) {
  return expand_nodelist(list, "LIST");
}

TEST(Nodelist, ExpandsSlurmsSyntax) {
  EXPECT_THAT(nodes("a"), ElementsAre("a"));
  EXPECT_THAT(nodes("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(nodes("a[1-3,7],b"), ElementsAre("a1", "a2", "a3", "a7", "b"));
  EXPECT_THAT(nodes("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(nodes("r[1-2]n[3,5].site"), ElementsAre("r1n3.site", "r1n5.site", "r2n3.site", "r2n5.site"));
  EXPECT_THAT(nodes("gpu-node-1,gpu[001,100-101]x"),
              ElementsAre("gpu-node-1", "gpu001x", "gpu100x", "gpu101x"));
}

TEST(Nodelist, SaysWhatIsMalformed) {
  for (const char* bad :
       {"", "a,", "a[1", "a]1[", "a[[1]]", "a[]", "a[x-3]", "a[3-1]", "a[1-99999999]", "a[1-2-3]"}) {
    EXPECT_THAT(failure_of<InputError>([&] { nodes(bad); }), AllOf(HasSubstr("LIST"), HasSubstr(bad))) << bad;
  }
}

TEST(TasksPerNode, ExpandsSlurmsSyntax) {
  EXPECT_THAT(expand_tasks_per_node("4", "T"), ElementsAre(4));
  EXPECT_THAT(expand_tasks_per_node("2(x3),1", "T"), ElementsAre(2, 2, 2, 1));
  for (const char* bad : {"", "x", "2(x", "2(x3", "2(xy)", "2,,1"})
    EXPECT_THAT(failure_of<InputError>([&] { expand_tasks_per_node(bad, "T"); }), HasSubstr("T: ")) << bad;
}

}  // namespace
}  // namespace kith::launch
