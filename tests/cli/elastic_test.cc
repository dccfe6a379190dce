// kith launch --elastic on several hosts, and kith scale through every store: the real binary with plain
// processes.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/temp_folder.h"
#include "kith/base/text.h"
#include "tests/support/command.h"
#include "tests/support/etcd.h"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using support::Command;
using support::Words;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ElasticHosts : public testing::Test {
 protected:
  Words on_hosts(const std::string& flags, const std::string& script) const {
    return {TESTS_LAUNCH "/with_sshd", "sh", "-c",
            "exec " KITH_BINARY " launch --ssh \"$KITH_TEST_SSH\" " + flags + " -- bash -c \"$0\"", script};
  }
  const TempFolder folder_{"kith-elastic-test"};
};

// The dead worker was alone on its machine, where the newcomer comes; and one after the other does.
TEST_F(ElasticHosts, NewcomersComeForDeadWorkersToTheirMachines) {
  // Worker 3 dies when worker 4 has come too, and has lived for longer than five seconds then.
  Command running(folder_.path(),
                  on_hosts("--hosts 127.0.0.1:2,localhost --elastic 1:3",
                           "cd " + folder_.path() +
                               "; await() { while [ ! -e $1 ]; do sleep 0.1; done; }; "
                               "case $KITH_WORKER in 0|2) kill -9 $$;; "
                               "3) await came; sleep 5.5; kill -9 $$;; 4) touch came;; esac; "
                               "await go; echo $KITH_WORKER of $KITH_WORKERS at "
                               "$KITH_LOCAL_RANK of $KITH_LOCAL_WORKERS: ${KITH_NEWCOMER-began}"));
  EXPECT_TRUE(running.complains("worker 5 comes for worker 3")) << running.err();
  std::ofstream(folder_.path() + "/go") << "";
  const auto result = running.wait(40s);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[1] 1 of 3 at 1 of 2: began"), Not(HasSubstr("[3]"))));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("worker 3 comes for worker "), HasSubstr("worker 4 comes for worker "),
                    HasSubstr("worker 5 comes for worker 3"), HasSubstr("; the others finished")));
  // Worker 4 or 5 took the place of worker 2, the only one of its machine.
  EXPECT_THAT(result.out, AllOf(HasSubstr(" of 3 at 0 of 1: 1"), HasSubstr(" of 3 at 0 of 2: 1")));
}

TEST_F(ElasticHosts, WithTooFewLeftEverybodyEnds) {
  const auto result = Command(folder_.path(), on_hosts("--hosts 127.0.0.1:2,localhost --elastic 3:3",
                                                       "[ $KITH_WORKER != 2 ] || exit 7; exec sleep 48.3"))
                          .wait(60s);
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("comes for worker")));
}

TEST_F(ElasticHosts, TheBoundsAreThoseOfTheHosts) {
  const auto result =
      Command(folder_.path(), {KITH_BINARY, "launch", "--hosts", "a:2,b:2", "--elastic", "5:8", "--", "true"})
          .wait(60s);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--hosts: 4 workers, and --elastic 5:8"));
}

// Where the workers meet: over TCP at the first host, or in etcd.
class ScaledThrough : public ElasticHosts, public testing::WithParamInterface<const char*> {
 protected:
  bool in_etcd() const { return std::string(GetParam()) == "etcd"; }

  // What a worker was told: where the store is, and the file of the secret.
  std::string told(const char* name) const {
    const fs::path file = fs::path(folder_.path()) / name;
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!fs::exists(file) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(10ms);
    std::string text;
    std::ifstream in(file);
    std::getline(in, text);
    return text;
  }
  Command::Result scale(const char* workers) const {
    return Command(folder_.path(), {KITH_BINARY, "scale", told("store"), workers},
                   {{"KITH_SECRET_FILE", told("secret")}})
        .wait(60s);
  }
};
INSTANTIATE_TEST_SUITE_P(Store, ScaledThrough,
                         testing::ValuesIn(support::has_etcd() ? std::vector{"tcp", "etcd"}
                                                               : std::vector{"tcp"}),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(ScaledThrough, TheLauncherHears) {
  const std::unique_ptr<support::EtcdCluster> etcd =
      in_etcd() ? std::make_unique<support::EtcdCluster>(1) : nullptr;
  const std::string tell =
      "if [ $KITH_WORKER = 0 ]; then for what in STORE SECRET_FILE; do name=${what%_FILE}; "
      "eval echo \\$KITH_$what > new; mv new ${name,,}; done; fi; ";
  const std::string script =
      tell + "while [ ! -e go ]; do sleep 0.1; done; echo $KITH_WORKER of $KITH_WORKERS";
  Command running(folder_.path(),
                  in_etcd() ? Words{KITH_BINARY, "launch", "--elastic", "1:3", "--workers", "1", "--store",
                                    cat("etcd://127.0.0.1:", etcd->endpoints().front().port), "--", "bash",
                                    "-c", "cd " + folder_.path() + "; " + script}
                            : on_hosts("--hosts 127.0.0.1,localhost --elastic 1:4",
                                       "cd " + folder_.path() + "; " + script));
  const auto more = scale("3");
  EXPECT_EQ(more.code, 0) << more.err << running.err();
  EXPECT_EQ(more.out, in_etcd() ? "3 workers are wanted: worker 1, worker 2 come\n"
                                : "3 workers are wanted: worker 2 comes\n");
  const auto fewer = scale("1");
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.err, HasSubstr("only its workers leave when they are asked"));
  EXPECT_EQ(scale("5").code, 2);
  EXPECT_EQ(Command(folder_.path(), {"touch", folder_.path() + "/go"}).wait().code, 0);
  const auto result = running.wait(60s);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(in_etcd() ? "[2] 2 of 1" : "[2] 2 of 2"));
}

}  // namespace
}  // namespace kith::cli
