#include "kith/base/temp_folder.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kith {
namespace {

namespace fs = std::filesystem;

// Of this process: whoever makes a folder of a prefix removes what others of it have left.
const std::string kPrefix = "kith-temp-folder-test-" + std::to_string(::getpid());

// A folder with a file in it, of a process that was killed.
std::string abandoned() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const TempFolder folder(kPrefix);
    std::ofstream(folder.path() + "/secret") << "sesame";
    [[maybe_unused]] const ssize_t written = ::write(ends[1], folder.path().data(), folder.path().size());
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  char path[256];
  const ssize_t got = ::read(ends[0], path, sizeof path);
  ::close(ends[0]);
  ::close(ends[1]);
  return {path, static_cast<std::size_t>(got > 0 ? got : 0)};
}

TEST(TempFolder, IsGoneWithItsLockAtTheEnd) {
  std::string path;
  {
    const TempFolder folder(kPrefix);
    path = folder.path();
    EXPECT_TRUE(fs::is_directory(path));
    EXPECT_TRUE(fs::is_empty(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".lock"));
}

TEST(TempFolder, OfAKilledProcessGoesWithTheNextOne) {
  const std::string left = abandoned();
  ASSERT_TRUE(fs::exists(left + "/secret")) << left;
  const TempFolder next(kPrefix);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(left + ".lock"));
}

TEST(TempFolder, OfALivingOwnerStays) {
  const TempFolder first(kPrefix);
  std::ofstream(first.path() + "/data") << "1";
  const TempFolder second(kPrefix);
  EXPECT_TRUE(fs::exists(first.path() + "/data"));
}

TEST(TempFolder, FoldersThatOnlyLookAlikeStay) {
  const std::string alike = (fs::temp_directory_path() / (kPrefix + "-abcdef")).string();
  fs::create_directory(alike);
  { const TempFolder next(kPrefix); }
  EXPECT_TRUE(fs::exists(alike)) << "it has no lock file, so it is somebody's own";
  fs::remove(alike);
}

}  // namespace
}  // namespace kith
