#include "cli/interrupt_watch.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kith::cli {
namespace {

// Exit code of a process that does this, or 128 + signal.
template <class Body>
int code_of_process(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(InterruptWatch, WhoHasEndedIsNotKilledByBeingAskedAgain) {
  EXPECT_EQ(code_of_process([] {
              { const InterruptWatch watch; }
              ::raise(SIGTERM);
              ::raise(SIGUSR1);
            }),
            0);
}

TEST(InterruptWatch, BeforeThereIsSomethingToSaveSigtermEndsTheProcess) {
  EXPECT_EQ(code_of_process([] {
              const InterruptWatch watch;
              ::kill(::getpid(), SIGTERM);
              ::sleep(30);
            }),
            128 + SIGTERM);
}

}  // namespace
}  // namespace kith::cli
