// Few file descriptors, as an ordinary user.
#include <filesystem>

#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "kith/base/error.h"
#include "kith/comm/shm/channel.h"
#include "kith/comm/shm/segment.h"
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

using support::Ending;
using support::Processes;
using support::TempFolder;

constexpr uid_t kNobody = 65534;
constexpr auto kForAll = 100s;  // 64 processes, on a machine of two cores too

void limit_descriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw Error("cannot limit descriptors", "test");
}

// Root may have any number of descriptors under way, so it becomes somebody else.
void become_ordinary() {
  if (::geteuid() != 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
      ::setresuid(kNobody, kNobody, kNobody) != 0)
    throw Error("cannot become nobody", "test");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // forgotten with the user
}

// What `body` returns, run as a world of ordinary workers under that limit.
std::vector<Ending> run_limited(int workers, rlim_t soft, rlim_t hard, const support::WorkerBody& body) {
  const TempFolder folder;
  if (::geteuid() == 0 && ::chown(folder.path().c_str(), kNobody, kNobody) != 0)
    throw Error("cannot give a folder away", "test");
  Processes processes(workers, [&](int rank) {
    become_ordinary();
    limit_descriptors(soft, hard);
    return support::run_process("shm", rank, workers, folder.path(), body);
  });
  return processes.join(kForAll);
}

std::string open_and_read_the_next(Worker& w) {
  for (const char* name : {"first", "second", "third"}) {
    const auto window = w.transport.open({.name = name, .bytes = 8}, in(kForAll));
    round(w, *window, at(0), {WorkerId{(w.rank + 1) % w.size}}, {WorkerId{(w.rank + w.size - 1) % w.size}});
  }
  return "opened";
}

TEST(Descriptors, SixtyFourWorkersRunWith256Each) {
  for (const Ending& ending : run_limited(64, 256, 256, open_and_read_the_next)) {
    EXPECT_TRUE(ending.good()) << ending.report;
    EXPECT_EQ(ending.report, "opened");
  }
}

TEST(Descriptors, AWorkerRaisesItsOwnLimitAsFarAsItMay) {
  for (const Ending& ending : run_limited(8, 16, 256, open_and_read_the_next))
    EXPECT_EQ(ending.report, "opened");
}

TEST(Descriptors, WhoMayOpenTooFewSaysWhichLimitToRaiseAndHowFar) {
  for (const Ending& ending : run_limited(64, 40, 40, open_and_read_the_next)) {
    EXPECT_NE(ending.report.find("backend shm, 64 workers: RLIMIT_NOFILE is 40, 1"), std::string::npos)
        << ending.report;
    EXPECT_NE(ending.report.find("are needed (raise the limit of open files: ulimit -n 1"), std::string::npos)
        << ending.report;
  }
}

// A connection between two ends of one process.
struct Pair {
  shm::Listener listener;
  std::optional<shm::Channel> near = shm::connect(listener.address()).channel;
  std::optional<shm::Channel> far = listener.accept();
};

std::string run_ordinary(const std::function<void()>& body) {
  Processes process(1, [&](int) {
    become_ordinary();
    body();
    return std::string("done");
  });
  return process.join(30s).front().report;
}

// The kernel refuses to have more of a user's descriptors under way than RLIMIT_NOFILE.
TEST(Descriptors, ThoseThatDoNotFitUnderWayAreSentLater) {
  const std::string report = run_ordinary([] {
    limit_descriptors(32, 32);
    Pair pair;
    const auto shared = std::make_shared<const shm::Descriptor>(
        shm::Segment::create("shared", 8, shm::Sharing::read_only).take_descriptor());
    constexpr int kPackets = 40;
    for (int i = 0; i < kPackets; ++i)
      pair.near->send(std::to_string(i), {shared, shared});
    EXPECT_TRUE(pair.near->has_unsent());
    EXPECT_TRUE(pair.near->crowded());
    int received = 0;
    const Deadline limit = in_time();
    while (received < kPackets && SteadyClock().now() < limit) {
      while (const auto packet = pair.far->receive()) {
        EXPECT_EQ(packet->bytes, std::to_string(received++));
        EXPECT_EQ(packet->descriptors.size(), 2u);
      }
      pair.near->flush();
      std::this_thread::sleep_for(1ms);  // others of this user may fill what has become free
    }
    EXPECT_EQ(received, kPackets);
    EXPECT_FALSE(pair.near->crowded());
  });
  EXPECT_EQ(report, "done");
}

TEST(Descriptors, ThoseThatDoNotFitTheReceiverAreAnErrorThatNamesTheLimit) {
  const std::string report = run_ordinary([] {
    Pair pair;
    const auto shared = std::make_shared<const shm::Descriptor>(
        shm::Segment::create("shared", 8, shm::Sharing::read_only).take_descriptor());
    pair.near->send("two", {shared, shared});
    limit_descriptors(4, 256);
    try {
      pair.far->receive();
    } catch (...) {
      limit_descriptors(256, 256);  // sanitizers open files to look at an exception
      throw;
    }
  });
  EXPECT_NE(report.find("too many open files (raise RLIMIT_NOFILE (ulimit -n), which is 4)"),
            std::string::npos)
      << report;
}

}  // namespace
}  // namespace kith::comm::conformance
