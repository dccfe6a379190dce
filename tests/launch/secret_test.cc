#include "kith/launch/secret.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "tests/support/failure.h"

namespace kith::launch {
namespace {

using support::failure_of;

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Secret : public testing::Test {
 protected:
  fs::path write(const std::string& text, fs::perms mode) const {
    const fs::path file = path("secret");
    std::ofstream(file) << text;
    fs::permissions(file, mode);
    return file;
  }
  fs::path path(const std::string& name) const { return fs::path(folder_.path()) / name; }
  static std::string refusal(const fs::path& file) {
    return failure_of<InputError>([&] { read_secret(file, "KITH_SECRET_FILE"); });
  }

  const TempFolder folder_{"kith-secret-test"};
};

constexpr fs::perms kPrivate = fs::perms::owner_read | fs::perms::owner_write;

TEST_F(Secret, ComesFromAFileOfOnesOwn) {
  EXPECT_EQ(read_secret(write("open sesame\n", kPrivate), "P"), "open sesame");
  const std::string made = make_secret();
  EXPECT_EQ(made.size(), 64u);
  EXPECT_NE(made, make_secret());
  write_secret(path("made"), made);
  EXPECT_EQ(read_secret(path("made"), "P"), made);
  EXPECT_EQ(fs::status(path("made")).permissions(), kPrivate);
  EXPECT_THROW(write_secret(path("made"), made), Error);
}

TEST_F(Secret, MustNotBeOpenToOthers) {
  for (const fs::perms more : {fs::perms::group_read, fs::perms::others_read, fs::perms::group_write}) {
    const fs::path file = write("open sesame", kPrivate | more);
    EXPECT_THAT(refusal(file), AllOf(HasSubstr("KITH_SECRET_FILE " + file.string()), HasSubstr("mode 06"),
                                     HasSubstr("chmod 600")));
    EXPECT_EQ(refusal(file).find("sesame"), std::string::npos) << "told";
  }
}

TEST_F(Secret, SaysWhatIsWrongWithTheFile) {
  EXPECT_THAT(refusal(path("none")), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("not a plain file"));
  EXPECT_THAT(refusal(write("\n", kPrivate)), HasSubstr("empty"));
  EXPECT_THAT(refusal(write(std::string(5000, 'x'), kPrivate)), HasSubstr("longer than 4096"));
}

}  // namespace
}  // namespace kith::launch
