#include "kith/launch/join.h"

#include <chrono>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "kith/comm/file_store.h"
#include "kith/comm/tcp_store.h"
#include "kith/launch/agreement.h"
#include "kith/launch/backend.h"
#include "tests/support/failure.h"
#include "tests/support/free_port.h"
#include "tests/support/worlds.h"

namespace kith::launch {
namespace {

using support::failure_of;

using namespace std::chrono_literals;
using support::in;
using support::in_time;
using testing::AllOf;
using testing::HasSubstr;

class FileLog final : public Log {
 public:
  explicit FileLog(std::filesystem::path file) : out_(file) {}
  void write(LogLevel, std::string_view line) override {
    const std::lock_guard lock(mutex_);
    out_ << line << std::endl;
  }

 private:
  std::mutex mutex_;
  std::ofstream out_;
};

class Join : public testing::Test {
 protected:
  // Where worker `worker` of `workers` stands, with a store over TCP.
  Assignment assignment(int worker, int workers) const {
    Assignment own;
    own.launcher = "test";
    own.worker = worker;
    own.workers = workers;
    own.store = MeetingPoint{{}, {"127.0.0.1", port_}, "the test"};
    return own;
  }
  std::string log_of(int worker) const {
    std::ifstream in(folder_.path() / std::to_string(worker));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::filesystem::path log_file(int worker) const { return folder_.path() / std::to_string(worker); }

  const support::TempFolder folder_{};
  const std::uint16_t port_ = support::free_port();
};

std::vector<std::string> reports_of(support::Processes& processes, Clock::Duration limit = 40s) {
  std::vector<std::string> reports;
  for (const support::Ending& ending : processes.join(limit))
    reports.push_back(cat(ending.exit_code, " ", ending.report));
  return reports;
}

// What a program does with its world: everybody reads everybody's version.
std::string exchange(const World& world) {
  const auto window = world.transport().open({.name = "w", .bytes = 4}, in_time());
  const Version v{0, 0};
  const auto begun = window->begin(v, in_time());
  const auto slot = std::get<std::span<std::byte>>(begun);
  slot[0] = static_cast<std::byte>(world.self().value + 1);
  std::vector<WorkerId> others;
  for (const WorkerId worker : world.members().workers)
    if (worker != world.self()) others.push_back(worker);
  window->publish(v, {.bytes = 4, .readers = others});
  int sum = world.self().value + 1;
  for (const WorkerId other : others) {
    const comm::Outcome outcome = window->await(other, v, in_time());
    if (const auto* arrival = std::get_if<comm::Arrival>(&outcome))
      sum += static_cast<int>(arrival->data()[0]);
  }
  return std::to_string(sum);
}

TEST_F(Join, WorkersMeetOverTcpAndExchange) {
  for (const char* secret : {"", "open sesame"}) {
    support::Processes processes(4, [&](int worker) {
      FileLog log(log_file(worker));
      Assignment own = assignment(worker, 4);
      own.secret = secret;
      const World world = join(own, {.facts = {{"batch", "2"}}, .log = &log});
      return exchange(world);
    });
    for (const std::string& report : reports_of(processes))
      EXPECT_EQ(report, "0 10");
    EXPECT_THAT(log_of(0), AllOf(HasSubstr(cat("127.0.0.1:", port_)), HasSubstr("the test")));
    EXPECT_THAT(log_of(0), HasSubstr(*secret ? "needs the run secret" : "whoever reaches it may join"));
  }
}

TEST_F(Join, WorkersMeetInAFolder) {
  support::Processes processes(3, [&](int worker) {
    Assignment own = assignment(worker, 3);
    own.store->folder = (folder_.path() / "meet").string();
    return exchange(join(own));
  });
  for (const std::string& report : reports_of(processes))
    EXPECT_EQ(report, "0 6");
}

TEST_F(Join, AWorkerCompletesItsOptionsWithWhatAnotherTellsIt) {
  support::Processes processes(3, [&](int worker) {
    JoinOptions options;
    if (worker != 2) options.facts = {{"batch", "7"}};
    options.complete = [&](comm::Store& store, JoinOptions& own) {
      if (worker == 1) store.set("batch", "7");
      if (worker == 2) own.facts = {{"batch", store.wait("batch", in_time()).value_or("not told")}};
    };
    return exchange(join(assignment(worker, 3), options));
  });
  for (const std::string& report : reports_of(processes))
    EXPECT_EQ(report, "0 6");
}

TEST_F(Join, AWorldOfOneNeedsNothing) {
  const World world = join(Assignment{});
  EXPECT_EQ(world.members().size(), 1);
  EXPECT_EQ(exchange(world), "1");
}

TEST_F(Join, ADifferenceEndsEverybodyAndNamesBothSides) {
  support::Processes processes(4, [&](int worker) {
    return failure_of<InputError>([&] {
      join(assignment(worker, 4), {.facts = {{"steps", "9"}, {"train.batch", worker == 3 ? "4" : "2"}}});
    });
  });
  for (const std::string& report : reports_of(processes))
    EXPECT_THAT(report, AllOf(HasSubstr("train.batch is '2' on workers 0 to 2, '4' on worker 3"),
                              testing::Not(HasSubstr("steps"))));
}

TEST_F(Join, WorkersOfAnotherWorldAreNamed) {
  support::Processes processes(3, [&](int worker) {
    return failure_of<InputError>([&] { join(assignment(worker, worker == 2 ? 4 : 3)); });
  });
  for (const std::string& report : reports_of(processes))
    EXPECT_THAT(report, HasSubstr("the number of workers is '3' on workers 0 and 1, '4' on worker 2"));
}

TEST_F(Join, AMissingWorkerIsNamedByEverybodyWhoCame) {
  support::Processes processes(2, [&](int worker) {
    return failure_of<Error>([&] { join(assignment(worker, 3), {.patience = 5s}); });
  });
  for (const std::string& report : reports_of(processes))
    EXPECT_THAT(report, HasSubstr("worker 2 has not come within 5 s"));
}

TEST_F(Join, WithoutWorker0TheAddressIsNamed) {
  EXPECT_THAT(failure_of<Error>([&] { join(assignment(1, 2), {.patience = 100ms}); }),
              HasSubstr(cat("127.0.0.1:", port_)));
}

TEST_F(Join, AWrongSecretIsRefusedAndTheOthersGoOn) {
  // Worker 2 comes twice: an impostor first, then, once that one was refused, the right one.
  support::Processes processes(4, [&](int index) {
    FileLog log(log_file(index));
    const int worker = std::min(index, 2);
    Assignment own = assignment(worker, 3);
    own.secret = index == 3 ? "guess" : "open sesame";
    if (index == 3) {
      const std::string refused = failure_of<InputError>([&] { join(own, {.log = &log}); });
      std::ofstream(folder_.path() / "refused") << "yes";
      return refused;
    }
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (index == 2 && !std::filesystem::exists(folder_.path() / "refused") &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(5ms);
    return exchange(join(own, {.log = &log}));
  });
  const std::vector<std::string> reports = reports_of(processes);
  for (int worker = 0; worker < 3; ++worker)
    EXPECT_EQ(reports[static_cast<std::size_t>(worker)], "0 6");
  EXPECT_THAT(reports[3], HasSubstr("the run secret differs"));
  EXPECT_THAT(log_of(0), AllOf(HasSubstr("refused 127.0.0.1:"), HasSubstr("its run secret differs")));
}

TEST_F(Join, AWorkersNumberIsGivenOnce) {
  support::Processes processes(3, [&](int index) {
    const int worker = std::min(index, 1);
    std::string report;
    const auto mark = folder_.path() / "refused";
    const std::string refused = failure_of<InputError>([&] {
      const World world = join(assignment(worker, 2), {.patience = 20s});
      report = exchange(world);
      // Nobody leaves before the second one has come.
      const auto end = std::chrono::steady_clock::now() + 20s;
      while (!std::filesystem::exists(mark) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(5ms);
    });
    if (!refused.empty()) std::ofstream(mark) << "yes";
    return refused.empty() ? report : refused;
  });
  const std::vector<std::string> reports = reports_of(processes);
  EXPECT_EQ(reports[0], "0 3");
  EXPECT_THAT(reports,
              testing::Contains(AllOf(HasSubstr("worker 1: there is one already"), HasSubstr("process"))));
}

TEST_F(Join, APortInUseIsNamed) {
  const comm::net::Listener other(comm::net::ListenOptions{{"127.0.0.1", port_}});
  EXPECT_THAT(
      failure_of<Error>([&] { join(assignment(0, 2), {.patience = 100ms}); }),
      AllOf(HasSubstr(cat("port ", port_, " is in use")), HasSubstr("KITH_PORT"), HasSubstr("the test")));
}

// A worker is killed while all join, each time at another point; nobody waits for it.
class DeathWhileJoining : public Join, public testing::WithParamInterface<const char*> {
 protected:
  Assignment where(int worker, int workers) const {
    Assignment own = assignment(worker, workers);
    own.interface = "lo";
    if (GetParam() == std::string_view("folder")) own.store->folder = (folder_.path() / "meet").string();
    return own;
  }
  // What the workers say, who must have ended soon after worker `killed` was.
  std::vector<std::string> kill_and_gather(support::Processes& processes, int killed) const {
    const Clock::Time then = SteadyClock().now();
    processes.send(killed, SIGKILL);
    std::vector<std::string> reports = reports_of(processes);
    EXPECT_LT(SteadyClock().now() - then, 30s) << "the patience is five minutes";
    reports.erase(reports.begin() + killed);
    return reports;
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, DeathWhileJoining, testing::Values("tcp", "folder"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(DeathWhileJoining, BeforeTheLastHasCome) {
  support::Processes processes(
      3, [&](int worker) { return failure_of<Error>([&] { join(where(worker, 4)); }); });
  // All three: one that comes after worker 0 has ended finds no store.
  const auto joined = [&](int worker) {
    const std::string key = cat("kith/join/", worker);
    if (GetParam() == std::string_view("folder"))
      return comm::FileStore(folder_.path() / "meet").wait(key, in_time()).has_value();
    return comm::TcpStore({.server = {"127.0.0.1", port_}}, in_time()).wait(key, in_time()).has_value();
  };
  for (const int worker : {0, 1, 2})
    ASSERT_TRUE(joined(worker)) << worker;
  for (const std::string& report : kill_and_gather(processes, 1))
    EXPECT_THAT(report, HasSubstr("worker 1 ended before everybody had joined"));
}

TEST_P(DeathWhileJoining, BeforeItHasMetAnybody) {
  for (const std::string backend : {"shm", "ucx"}) {
    if (!backend_available(backend)) continue;
    std::filesystem::remove_all(folder_.path() / "meet");
    const std::filesystem::path alone = folder_.path() / backend;
    support::Processes processes(3, [&](int worker) {
      return failure_of<Error>([&] {
        const World world = join(where(worker, 3), {.backend = backend});
        if (worker == 1) {
          std::ofstream(alone) << "here";
          ::pause();
        }
        world.transport().open({.name = "w", .bytes = 4}, in(300s));
      });
    });
    const Deadline limit = in_time();
    while (!std::filesystem::exists(alone) && SteadyClock().now() < limit)
      std::this_thread::sleep_for(5ms);
    for (const std::string& report : kill_and_gather(processes, 1))
      EXPECT_THAT(report, testing::AnyOf(HasSubstr("is lost"), HasSubstr("Connection refused"),
                                         HasSubstr("cannot reach a peer"),
                                         HasSubstr("ended before everybody had joined")));
  }
}

TEST_F(Join, AWorkerThatFailsDoesNotLeaveTheOthersWaiting) {
  for (const std::string& backend : support::network_backends()) {
    support::Processes processes(3, [&](int worker) {
      Assignment own = assignment(worker, 3);
      own.store->folder = (folder_.path() / backend).string();
      own.interface = worker == 2 ? "none-such" : "lo";
      return failure_of<Error>([&] { join(own, {.backend = backend}); });
    });
    const Clock::Time start = SteadyClock().now();
    const std::vector<std::string> reports = reports_of(processes);
    EXPECT_LT(SteadyClock().now() - start, 20s) << "the patience is five minutes";
    for (int worker : {0, 1})
      EXPECT_THAT(reports[static_cast<std::size_t>(worker)],
                  HasSubstr("worker 2 ended before everybody had joined"));
  }
}

TEST(Agreement, FactsSurviveTheStore) {
  const std::vector<Fact> facts{{"a", ""}, {"", "b"}, {"c:1", "x:y=\n\0z"}, {"long", std::string(1000, 'q')}};
  const std::vector<Fact> again = decode_facts(encode_facts(facts));
  ASSERT_EQ(again.size(), facts.size());
  for (std::size_t i = 0; i < facts.size(); ++i) {
    EXPECT_EQ(again[i].name, facts[i].name);
    EXPECT_EQ(again[i].value, facts[i].value);
  }
  for (const char* bad : {"1", "1:", "1:9:a", "9:1:a"})
    EXPECT_THROW(decode_facts(bad), Error) << bad;
}

TEST(Agreement, NamesEverySide) {
  EXPECT_EQ(differences({{{"a", "1"}}, {{"a", "1"}}}), "");
  EXPECT_EQ(differences({{{"a", "1"}}, {}}), "a is '1' on worker 0, (absent) on worker 1");
  EXPECT_EQ(differences({{{"a", "1"}}, {{"a", "2"}}, {{"a", "1"}}, {{"a", "3"}}}),
            "a is '1' on workers 0 and 2, '2' on worker 1, '3' on worker 3");
  EXPECT_EQ(name_workers({0, 2, 5}), "workers 0, 2 and 5");
}

}  // namespace
}  // namespace kith::launch
