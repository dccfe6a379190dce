#include "kith/base/input_text.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"

namespace kith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ReadInput, GivesTheWholeFile) {
  const TempFolder folder("kith-input-test");
  const std::string text = std::string(200'000, 'a') + "\n\0b";
  std::ofstream(folder.path() + "/file") << text;
  EXPECT_EQ(read_input(folder.path() + "/file"), text);
}

TEST(ReadInput, RefusesWhatIsNoFileOfText) {
  EXPECT_THAT(refusal([] { read_input("/no/such"); }),
              AllOf(HasSubstr("/no/such"), HasSubstr("No such file")));
  EXPECT_THAT(refusal([] { read_input("/dev/zero"); }), AllOf(HasSubstr("/dev/zero"), HasSubstr("64.0 MiB")));
  EXPECT_THAT(refusal([] { read_input("/tmp"); }), AllOf(HasSubstr("/tmp"), HasSubstr("directory")));
}

TEST(ShallowJson, RefusesDepthAndNothingElse) {
  EXPECT_NO_THROW(require_shallow_json(std::string(100, '[') + std::string(100, ']'), "file"));
  EXPECT_NO_THROW(require_shallow_json("[\"" + std::string(1000, '[') + "\\\"[\"]", "file")) << "in a text";
  EXPECT_THAT(refusal([] { require_shallow_json(std::string(200'000, '['), "rounds.json"); }),
              AllOf(HasSubstr("rounds.json"), HasSubstr("more than 100 deep")));
}

TEST(JsonProblem, LeavesOutTheLibrary) {
  EXPECT_EQ(json_problem("[json.exception.parse_error.101] parse error at line 1, column 2: syntax error"),
            "line 1, column 2: syntax error");
  EXPECT_EQ(json_problem("something else"), "something else");
}

}  // namespace
}  // namespace kith
