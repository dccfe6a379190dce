// Who is on which machine: how many times the store is asked, and what is written there.
#include "kith/comm/routed/placement.h"

#include "kith/base/error.h"
#include "tests/comm/conformance.h"
#include "tests/support/counting_store.h"

namespace kith::comm::conformance {
namespace {

using routed::Presence;

TEST(Placement, TheStoreIsAskedAFewTimesPerWorker) {
  constexpr int kWorkers = 40, kPerMachine = 8;
  MemoryStore memory;
  support::CountingStore store(memory);
  const std::vector<WorkerId> workers = Members::first(kWorkers).workers;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&, i] {
      const Presence own{cat("machine ", i / kPerMachine),
                         {"10.0.0.1", static_cast<std::uint16_t>(4000 + i)}};
      const std::vector<int> machines = routed::meet_at_store(store, WorkerId{i}, own, workers, in_time());
      for (int j = 0; j < kWorkers; ++j)
        EXPECT_EQ(machines[static_cast<std::size_t>(j)], j / kPerMachine);
      EXPECT_LE(store.calls_of_this_thread(), i == 0 ? kWorkers + 2 : 2);
      const WorkerId neighbour{(i + 1) % kWorkers};
      EXPECT_EQ(routed::presence_of(store, neighbour).address.port, 4000 + neighbour.value);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

TEST(Placement, WhoHasNotComeIsNamedByEverybody) {
  MemoryStore store;
  const std::vector<WorkerId> workers = Members::first(3).workers;
  const Presence own{"here", {"10.0.0.1", 4000}};
  for (const char* key : {"net/0", "net/1"})
    store.set(key, "here\n10.0.0.1:4000");  // both are there, however long a thread takes to begin
  const auto complaint = [&](int self) {
    try {
      routed::meet_at_store(store, WorkerId{self}, own, workers, in(30ms));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no complaint");
  };
  std::string zero;
  std::thread first([&] { zero = complaint(0); });
  const std::string one = complaint(1);
  first.join();
  EXPECT_NE(zero.find("worker 2 has not come"), std::string::npos) << zero;
  EXPECT_NE(one.find("worker 2 has not come"), std::string::npos) << one;
}

TEST(Placement, MachinesAreRunsOfNumbers) {
  const std::vector<int> machines{0, 0, 0, 1, 2, 2, 0};
  EXPECT_EQ(routed::text_of_machines(machines), "0*3 1*1 2*2 0*1");
  EXPECT_EQ(routed::parse_machines("0*3 1*1 2*2 0*1", 7, "test"), machines);
  for (const char* text :
       {"", "0", "0*", "*3", "0*3x", "0*0", "-1*3", "0*4", "0*2", "9*3", "0*3 ", "0*99999999999999999999"})
    EXPECT_THROW(routed::parse_machines(text, 3, "test"), InputError) << text;
}

}  // namespace
}  // namespace kith::comm::conformance
