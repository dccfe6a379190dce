// Who has exported GPU memory leaves after its readers (Note [Readers leave first]).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "kith/comm/cuda_ipc/payload.h"
#include "tests/comm/cuda_ipc/world.h"

namespace kith::comm::conformance {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBytes = 4'000'000;

class Lines final : public Log {
 public:
  void write(LogLevel, std::string_view line) override { text += cat(line, "\n"); }
  std::string text;
};

// Process 0 makes a payload and leaves once process 1 has it mapped; what process 1 does then is the test's.
class CudaIpcLeaving : public ::testing::Test {
 protected:
  // Returns what the log says; `left` is set in the store when it has left.
  static std::string own(Store& store, Clock::Duration patience) {
    Lines log;
    auto payloads = cuda_ipc::device_payloads({.log = &log, .long_wait = 100ms, .patience = patience});
    {
      const shm::Payload payload = payloads->create("w", kBytes);
      store.set("file", cat("/proc/", ::getpid(), "/fd/", payload.descriptor.get()));
      EXPECT_TRUE(store.wait("mapped", in_time()));
    }
    store.set("leaves", "");
    payloads.reset();
    store.set("left", "");
    return log.text;
  }

  static shm::Payload map(Store& store, shm::PayloadMemory& payloads) {
    const auto file = store.wait("file", in_time());
    const shm::Descriptor descriptor(::open(file.value_or("").c_str(), O_RDONLY | O_CLOEXEC));
    return payloads.map(descriptor, kBytes, "test");
  }

  template <class Read>
  std::vector<support::Ending> run(Clock::Duration patience, Read read) {
    support::Processes processes(2, [&](int index) {
      FileStore store(folder_.path());
      if (index == 0) return own(store, patience);
      const auto payloads = cuda_ipc::device_payloads({});
      shm::Payload payload = map(store, *payloads);
      store.set("mapped", "");
      EXPECT_TRUE(store.wait("leaves", in_time()));
      return read(store, payload);
    });
    return processes.join(60s);
  }

  const support::TempFolder folder_{};
};

TEST_F(CudaIpcLeaving, WaitsForAReaderAndSaysSo) {
  const auto endings = run(30s, [](Store& store, shm::Payload& payload) {
    std::this_thread::sleep_for(500ms);
    EXPECT_FALSE(store.get("left"));
    std::byte first{1};
    copy_bytes(&first, payload.data, 1);  // still there
    EXPECT_EQ(first, std::byte{0});
    payload.memory.reset();
    EXPECT_TRUE(store.wait("left", SteadyClock().now() + 5s));
    return std::string();
  });
  expect_good(endings[0], 0);
  expect_good(endings[1], 1);
  EXPECT_EQ(endings[0].report, "waits until no other process reads GPU memory 'w'\n");
}

TEST_F(CudaIpcLeaving, AKilledReaderKeepsNobody) {
  const auto endings = run(30s, [](Store&, shm::Payload&) {
    ::kill(::getpid(), SIGKILL);
    return std::string();
  });
  expect_good(endings[0], 0);
  EXPECT_EQ(endings[1].signal, SIGKILL);
  EXPECT_THAT(endings[0].report, ::testing::Not(HasSubstr("still reads")));
}

TEST_F(CudaIpcLeaving, DoesNotWaitForEver) {
  const auto endings = run(300ms, [](Store& store, shm::Payload&) {
    EXPECT_TRUE(store.wait("left", SteadyClock().now() + 5s));
    return std::string();
  });
  expect_good(endings[0], 0);
  expect_good(endings[1], 1);
  EXPECT_THAT(endings[0].report, HasSubstr("still reads GPU memory 'w' after 0.3 s"));
}

// What one is done with is freed when memory is needed again, and as soon as its reader is gone.
TEST_F(CudaIpcLeaving, MemoryComesBackWhileTheOwnerStays) {
  support::Processes processes(2, [&](int index) {
    FileStore store(folder_.path());
    const auto payloads = cuda_ipc::device_payloads({});
    if (index == 1) {
      shm::Payload payload = map(store, *payloads);
      store.set("mapped", "");
      EXPECT_TRUE(store.wait("kept", in_time()));
      payload.memory.reset();
      store.set("unmapped", "");
      EXPECT_TRUE(store.wait("freed", in_time()));
      return std::string();
    }
    shm::Payload payload = payloads->create("w", kBytes);
    const std::string file = cat("/proc/", ::getpid(), "/fd/", payload.descriptor.get());
    store.set("file", file);
    EXPECT_TRUE(store.wait("mapped", in_time()));
    payload.memory.reset();
    const shm::Payload second = payloads->create("v", kBytes);
    store.set("kept", "");
    EXPECT_TRUE(store.wait("unmapped", in_time()));
    const shm::Payload third = payloads->create("u", kBytes);
    store.set("freed", "");
    // Who comes now finds it closed.
    const shm::Descriptor late(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    try {
      payloads->map(late, kBytes, "test");
      return std::string("mapped");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  });
  const auto endings = processes.join(60s);
  expect_good(endings[0], 0);
  expect_good(endings[1], 1);
  EXPECT_THAT(endings[0].report, HasSubstr("closed the window already"));
}

}  // namespace
}  // namespace kith::comm::conformance
