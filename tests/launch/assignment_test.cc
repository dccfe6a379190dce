#include "kith/launch/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kith/base/error.h"
#include "tests/support/failure.h"

namespace kith::launch {
namespace {

using support::failure_of;

using testing::AllOf;
using testing::HasSubstr;

const Environment kTorchrun{{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node1"},
                            {"MASTER_PORT", "29500"}};
const Environment kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "3"},
    {"OMPI_COMM_WORLD_SIZE", "4"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "1762066433"},
    {"OMPI_MCA_orte_hnp_uri", "1762066432.0;tcp://10.0.0.5,10.1.0.5:43419;tcp6://[fd00::2]:59637"}};
const Environment kSlurm{{"SLURM_PROCID", "4"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_STEP_NODELIST", "n[01-02],big"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                         {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "0"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more)
    environment[name] = value;
  return environment;
}
Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}
std::string refusal(const Environment& environment, const AssignmentFlags& flags = {}) {
  return failure_of<InputError>([&] { discover(environment, flags); });
}

TEST(Discover, ASingleProcessIsAssignedNothing) {
  const Assignment assignment = discover({{"HOME", "/root"}, {"MASTER_ADDR", "left over"}});
  EXPECT_FALSE(assignment.assigned());
  EXPECT_EQ(assignment.workers, 1);
  EXPECT_FALSE(assignment.store);
}

TEST(Discover, Torchrun) {
  const Assignment assignment = discover(kTorchrun);
  EXPECT_EQ(assignment.launcher, "torchrun");
  EXPECT_EQ(assignment.worker, 5);
  EXPECT_EQ(assignment.workers, 8);
  EXPECT_EQ(assignment.local_rank, 1);
  EXPECT_EQ(assignment.local_workers, 4);
  EXPECT_EQ(assignment.store->text(), "node1:29501");
  EXPECT_EQ(assignment.store->origin, "MASTER_PORT + 1");
  const Assignment moved = discover(with(kTorchrun, {{"KITH_PORT", "4000"}}));
  EXPECT_EQ(moved.store->text(), "node1:4000");
  EXPECT_EQ(moved.store->origin, "KITH_PORT");
}

TEST(Discover, ARefusalIsALineThatCanBeRead) {
  EXPECT_EQ(
      refusal({{"RANK", "1"}}),
      "environment (torchrun): WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set, with RANK=1 (set them as "
      "the launcher does, or unset them all)");
  EXPECT_LT(refusal(with(kTorchrun, {{"RANK", std::string(5000, '7')}})).size(), 400u);
}

TEST(Discover, TorchrunNeedsItsVariablesAndListsThem) {
  for (const char* missing : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"}) {
    const std::string problem = refusal(without(kTorchrun, missing));
    const std::string said =
        std::string(missing) == "LOCAL_RANK" ? "only one is told" : std::string(missing) + " is not set";
    EXPECT_THAT(problem, AllOf(HasSubstr("torchrun"), HasSubstr(said)));
    EXPECT_THAT(problem, HasSubstr(std::string(missing) == "WORLD_SIZE" ? "RANK=5" : "WORLD_SIZE=8"));
  }
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "8"}})), HasSubstr("worker 8 of 8 does not exist"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK is not a number"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "4"}})), HasSubstr("local rank 4 of 4"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})), HasSubstr("more than 8 in all"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT is not a port"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "65535"}})), HasSubstr("set KITH_PORT"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"KITH_PORT", "29500"}})), HasSubstr("launcher itself holds"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "9"}, {"WORLD_SIZE", "x"}})),
              AllOf(HasSubstr("RANK=9"), HasSubstr("WORLD_SIZE=x"), HasSubstr("MASTER_ADDR=node1")));
}

TEST(Discover, OpenMpi) {
  const Assignment assignment = discover(kOpenMpi);
  EXPECT_EQ(assignment.launcher, "Open MPI");
  EXPECT_EQ(assignment.worker, 3);
  EXPECT_EQ(assignment.workers, 4);
  EXPECT_EQ(assignment.local_workers, 2);
  EXPECT_EQ(assignment.store->address.host, "10.0.0.5") << "where mpirun runs";
  EXPECT_GE(assignment.store->address.port, 20000);
  EXPECT_LT(assignment.store->address.port, 30000);
  EXPECT_EQ(discover(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}})).store->text(),
            assignment.store->text());

  const Assignment here = discover(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
  EXPECT_EQ(here.store->address.host, "127.0.0.1");
  EXPECT_THAT(refusal(without(kOpenMpi, "OMPI_MCA_orte_hnp_uri")), HasSubstr("set KITH_STORE=HOST:PORT"));
  EXPECT_EQ(
      discover(with(without(kOpenMpi, "OMPI_MCA_orte_hnp_uri"), {{"KITH_STORE", "n1:5000"}})).store->text(),
      "n1:5000");
  EXPECT_THAT(refusal(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not set"));
}

TEST(Discover, Slurm) {
  const Assignment assignment = discover(kSlurm);
  EXPECT_EQ(assignment.launcher, "Slurm");
  EXPECT_EQ(assignment.worker, 4);
  EXPECT_EQ(assignment.workers, 5);
  EXPECT_EQ(assignment.local_rank, 0);
  EXPECT_EQ(assignment.local_workers, 1);
  EXPECT_EQ(assignment.store->address.host, "n01") << "where worker 0 runs";
  EXPECT_NE(assignment.store->address.port,
            discover(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).store->address.port);
  EXPECT_THAT(refusal(without(kSlurm, "SLURM_STEP_NODELIST")), HasSubstr("SLURM_STEP_NODELIST is not set"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NODEID", "3"}})), HasSubstr("node 3 of 3"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", "n["}})), HasSubstr("SLURM_STEP_NODELIST"));
}

TEST(Discover, ABatchScriptIsNotAStep) {
  EXPECT_FALSE(discover({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}}).assigned());
}

TEST(Discover, TheFirstOfTheOrderCounts) {
  const Environment kith{{"KITH_WORKER", "1"}, {"KITH_WORKERS", "2"}, {"KITH_STORE", "/tmp/meet"}};
  EXPECT_EQ(discover(with(kSlurm, kOpenMpi)).launcher, "Open MPI");
  EXPECT_EQ(discover(with(with(kSlurm, kOpenMpi), kTorchrun)).launcher, "torchrun");
  EXPECT_EQ(discover(with(with(kSlurm, kTorchrun), kith)).launcher, "kith");
  EXPECT_EQ(discover(with(kTorchrun, kith), {.worker = 0, .workers = 3, .store = "n1:9"}).launcher, "flags");
  EXPECT_EQ(discover(with(kSlurm, {{"WORLD_SIZE", "5"}, {"MASTER_ADDR", "n01"}})).launcher, "Slurm")
      << "WORLD_SIZE exported for others";
}

TEST(Discover, AStoreThatNoWorkerServes) {
  const auto at = [](const char* store) {
    return *discover({{"KITH_WORKER", "0"}, {"KITH_WORKERS", "2"}, {"KITH_STORE", store}}).store;
  };
  EXPECT_TRUE(at("n1:80").by_worker());
  EXPECT_FALSE(at("/tmp/meet").by_worker());
  EXPECT_FALSE(at("tcp://n1:80").by_worker());
  EXPECT_EQ(at("tcp://n1:80").address.host, "n1");
  const MeetingPoint etcd = at("etcd://n1,n2:80,[fd00::1]:81/june");
  EXPECT_FALSE(etcd.by_worker());
  EXPECT_EQ(etcd.run, "june");
  EXPECT_EQ(etcd.text(), "etcd://n1:2379,n2:80,[fd00::1]:81/june");
  EXPECT_THAT(with_run(at("etcd://n1")).text(), testing::StartsWith("etcd://n1:2379/run-"));
  EXPECT_EQ(with_run(etcd).text(), etcd.text());
  for (const char* text : {"/tmp/meet", "n1:80", "tcp://n1:80"})
    EXPECT_EQ(at(text).text(), text);
  EXPECT_THAT(refusal({{"KITH_WORKER", "0"}, {"KITH_WORKERS", "2"}, {"KITH_STORE", "redis://n1:80"}}),
              HasSubstr("'redis://n1:80' is no store that kith knows"));
}

TEST(Discover, ANewcomersIdIsBeyondThoseThatBegan) {
  const Environment newcomer{
      {"KITH_WORKER", "5"}, {"KITH_WORKERS", "2"}, {"KITH_STORE", "/tmp/meet"}, {"KITH_NEWCOMER", "1"}};
  EXPECT_TRUE(discover(newcomer).newcomer);
  EXPECT_EQ(discover(newcomer).worker, 5);
  EXPECT_THAT(refusal(with(newcomer, {{"KITH_WORKER", "1"}})), HasSubstr("worker 1 of 2 is no newcomer"));
  EXPECT_THAT(refusal(without(newcomer, "KITH_NEWCOMER")), HasSubstr("worker 5 of 2 does not exist"));
}

TEST(Discover, WhoBeginsAloneHasAStoreWhereOneIsTold) {
  const Environment alone{{"KITH_WORKER", "0"}, {"KITH_WORKERS", "1"}, {"KITH_STORE", "/tmp/meet"}};
  ASSERT_TRUE(discover(alone).store);
  EXPECT_EQ(discover(alone).store->folder, "/tmp/meet");
  EXPECT_FALSE(discover(without(alone, "KITH_STORE")).store);
  EXPECT_EQ(discover(with(alone, {{"KITH_LEFT_FILE", "/tmp/left"}})).left_file, "/tmp/left");
}

TEST(Discover, KithsOwnVariables) {
  const Environment folder{{"KITH_WORKER", "1"}, {"KITH_WORKERS", "2"}, {"KITH_STORE", "/tmp/meet"}};
  EXPECT_EQ(discover(folder).store->folder, "/tmp/meet");
  EXPECT_EQ(discover(with(folder, {{"KITH_STORE", "[fd00::1]:80"}})).store->address.host, "fd00::1");
  EXPECT_THAT(refusal(without(folder, "KITH_STORE")),
              AllOf(HasSubstr("KITH_WORKER=1"), HasSubstr("set KITH_STORE=HOST:PORT")));
  EXPECT_THAT(refusal(without(folder, "KITH_WORKERS")), HasSubstr("KITH_WORKERS is not set"));
  EXPECT_THAT(refusal(with(folder, {{"KITH_STORE", "nowhere"}})), HasSubstr("'nowhere' is not HOST:PORT"));
  EXPECT_THAT(refusal({{"KITH_STORE", "n1:80"}}), HasSubstr("which worker this is"));
}

TEST(Discover, Flags) {
  const Assignment assignment =
      discover({}, {.worker = 1, .workers = 2, .store = "n1:9", .interface = "ib0"});
  EXPECT_EQ(assignment.worker, 1);
  EXPECT_EQ(assignment.store->text(), "n1:9");
  EXPECT_EQ(assignment.interface, "ib0");
  EXPECT_THAT(refusal({}, {.worker = 1}), HasSubstr("--worker"));
  EXPECT_THAT(refusal({}, {.worker = 2, .workers = 2, .store = "n1:9"}), HasSubstr("worker 2 of 2"));
  EXPECT_THAT(refusal({}, {.worker = 1, .workers = 2}), HasSubstr("KITH_STORE"));
  EXPECT_FALSE(discover({}, {.workers = 4}).assigned()) << "--workers alone is for local workers";
}

TEST(Discover, AWorldOfOneNeedsNoStore) {
  const Assignment assignment = discover(
      with(kTorchrun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(assignment.assigned());
  EXPECT_FALSE(assignment.store);
}

TEST(Discover, InterfaceAndSecretGoWithAnyLauncher) {
  EXPECT_EQ(discover(with(kSlurm, {{"KITH_INTERFACE", "ib0"}})).interface, "ib0");
  EXPECT_THAT(refusal(with(kSlurm, {{"KITH_SECRET_FILE", "/nonexistent"}})), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace kith::launch
