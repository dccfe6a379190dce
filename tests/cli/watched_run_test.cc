// What kith watch takes for a run.

#include "cli/watched_run.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "tests/support/failure.h"

namespace kith::cli {
namespace {

using support::failure_of;

TEST(WatchedRun, IsAFolderOrIsFoundInAStore) {
  const TempFolder run("kith-watched-run"), store("kith-watched-run");
  std::ofstream(cat(run.path(), "/config.toml")) << "";
  EXPECT_EQ(run_folder_of(run.path()), run.path());
  comm::FileStore(store.path()).set(kRunKey, cat(kRunReady, run.path(), "\n"));
  EXPECT_EQ(run_folder_of(store.path()), run.path());
}

TEST(WatchedRun, WhatIsNeitherIsRefused) {
  for (const char* text : {"/nowhere/at/all", "nothing"})
    failure_of<InputError>([&] { run_folder_of(text); });
}

}  // namespace
}  // namespace kith::cli
