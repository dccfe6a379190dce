// Opening: disagreement, absence, strangers, and what is said about long waits.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include <sys/mman.h>

#include "kith/base/error.h"
#include "kith/comm/shm/channel.h"
#include "kith/comm/shm/meeting.h"
#include "kith/comm/shm/segment.h"
#include "tests/comm/conformance.h"

namespace kith::comm::conformance {
namespace {

class Opening : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Opening, ::testing::ValuesIn(support::with_plain_shm(support::all_backends())),
                         [](const auto& param) { return param.param; });

template <class Failure, class Action>
std::string complaint(Action action) {
  try {
    action();
  } catch (const Failure& e) {
    return e.what();
  }
  return "no complaint";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_P(Opening, EveryDifferenceIsAnErrorOnBothSides) {
  const std::vector<std::pair<std::string, std::function<void(WindowOptions&)>>> differences{
      {"bytes per slot", [](WindowOptions& o) { o.bytes = 65; }},
      {"slots", [](WindowOptions& o) { o.slots = 4; }},
      {"mode", [](WindowOptions& o) { o.mode = WindowMode::latest; }},
      {"shape digest", [](WindowOptions& o) { o.shape_digest = 1; }}};
  run_world(GetParam(), 2, [&](Worker& w) {
    for (const auto& [what, change] : differences) {
      WindowOptions options{.name = what, .bytes = 64, .slots = 3};
      if (w.rank == 1) change(options);
      const std::string text = complaint<InputError>([&] { w.transport.open(options, in_time()); });
      EXPECT_TRUE(contains(text, what) && contains(text, "worker 0") && contains(text, "worker 1")) << text;
    }
    return std::string();
  });
}

TEST_P(Opening, ImpossibleOptionsAreInputErrors) {
  run_world(GetParam(), 1, [](Worker& w) {
    const auto refused = [&](const WindowOptions& options) {
      EXPECT_THROW(w.transport.open(options, in_time()), InputError) << options.name;
    };
    refused({.name = "", .bytes = 1});
    refused({.name = "one slot", .bytes = 1, .slots = 1});
    refused({.name = "two slots", .bytes = 1, .slots = 2, .mode = WindowMode::latest});
    refused({.name = "stranger", .bytes = 1, .peers = {WorkerId{5}}});
    return std::string();
  });
}

TEST_P(Opening, AnAbsentPeerIsAnErrorAtTheDeadline) {
  run_world(GetParam(), 2, [](Worker& w) {
    if (w.rank == 1) {
      EXPECT_TRUE(w.store.wait("tried", in_time()));
      return std::string();
    }
    const auto start = SteadyClock().now();
    const std::string text =
        complaint<Error>([&] { w.transport.open({.name = "alone", .bytes = 1}, in(50ms)); });
    EXPECT_TRUE(contains(text, "worker 1 has not opened") && contains(text, "alone")) << text;
    EXPECT_GE(SteadyClock().now() - start, 50ms);
    w.store.set("tried", "");
    return std::string();
  });
}

class Lines final : public Log {
 public:
  void write(LogLevel level, std::string_view line) override {
    std::lock_guard lock(mutex_);
    lines_.push_back(cat(level == LogLevel::warning ? "warning: " : "info: ", line));
    changed_.notify_all();
  }
  // Waits for a line with that in it.
  bool come(std::string_view part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, in_time(), [&] {
      return std::ranges::any_of(lines_, [&](const std::string& line) { return contains(line, part); });
    });
  }
  std::vector<std::string> lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TEST(LongWaits, ExplainThemselvesOnce) {
  constexpr auto kLong = 300ms;  // and then a warning in 9 s
  const auto world = InprocWorld::create(2);
  Lines log;
  const auto zero = world->join(WorkerId{0}, &log, kLong);
  const auto one = world->join(WorkerId{1}, nullptr);
  std::unique_ptr<Window> theirs;
  std::thread other([&] { theirs = one->open({.name = "bucket4", .bytes = 8}, in_time()); });
  const auto window = zero->open({.name = "bucket4", .bytes = 8}, in_time());
  other.join();
  ASSERT_TRUE(std::holds_alternative<Late>(window->await(WorkerId{1}, at(17), in(1ms))));
  // These come a while after worker 0 has said that it waits for them.
  for (const std::uint64_t version : {18u, 19u}) {
    std::thread writer([&] {
      EXPECT_TRUE(log.come(cat("version 0:", version)));
      std::this_thread::sleep_for(2 * kLong);
      EXPECT_EQ(theirs->begin(at(version), in_time()).index(), 0u);
      theirs->publish(at(version), {.bytes = 8, .readers = {WorkerId{0}}});
    });
    EXPECT_TRUE(std::holds_alternative<Arrival>(window->await(WorkerId{1}, at(version), in_time())));
    writer.join();
  }
  std::vector<std::string> lines = log.lines();
  std::erase_if(lines, [](const std::string& line) { return contains(line, "being opened"); });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(contains(lines[0], "warning: worker 0 waits for worker 1, window bucket4, version 0:18, "))
      << lines[0];
  EXPECT_TRUE(contains(lines[1], "info: worker 0 waits for worker 1, window bucket4, version 0:19, "))
      << "one warning in a while is enough: " << lines[1];
}

// A worker of another build: it speaks the first message only.
std::string meet_impostor(const shm::Meeting::Hello& hello) {
  MemoryStore store;
  shm::Listener listener;
  store.set(shm::Meeting::key(WorkerId{0}), listener.address());
  const auto transport = make_transport("shm", support::transport_options(1, 2, store));
  std::thread impostor([&] {
    std::optional<shm::Channel> channel;
    const Deadline limit = in_time();
    while (!(channel = listener.accept()) && SteadyClock().now() < limit)
      std::this_thread::sleep_for(1ms);
    channel->send(std::string(reinterpret_cast<const char*>(&hello), sizeof hello));
    store.wait("checked", limit);
  });
  const std::string text =
      complaint<InputError>([&] { transport->open({.name = "w", .bytes = 8}, in_time()); });
  store.set("checked", "");
  impostor.join();
  return text;
}

TEST(Strangers, AnotherProtocolIsRefusedAtOpen) {
  shm::Meeting::Hello hello;
  hello.worker = 0;
  hello.protocol = 999;
  const std::string text = meet_impostor(hello);
  EXPECT_TRUE(
      contains(text, cat("worker 0 speaks protocol version 999, worker 1 version ", protocol::kProtocol)))
      << text;
}

TEST(Strangers, AnotherMagicIsRefusedAtOpen) {
  shm::Meeting::Hello hello;
  hello.worker = 0;
  hello.magic = 1234;
  const std::string text = meet_impostor(hello);
  EXPECT_TRUE(contains(text, "its magic is 1234")) << text;
}

TEST(Strangers, AnotherWorldIsRefusedAtOpen) {
  shm::Meeting::Hello hello;
  hello.worker = 0;
  hello.workers_digest = 1;
  const std::string text = meet_impostor(hello);
  EXPECT_TRUE(contains(text, "worker 0 belongs to another list of workers than worker 1")) << text;
}

// Who does not know the run's secret gets no further than a line in the log.
TEST(Strangers, AnotherSecretIsRefused) {
  for (const std::string& backend : support::network_backends()) {
    MemoryStore store;
    Lines log;
    const auto join = [&](int rank, std::string secret) {
      TransportOptions options = support::transport_options(rank, 2, store);
      options.log = &log;
      options.network.interface = "lo";
      options.network.machine = cat("machine ", rank);
      options.network.secret = std::move(secret);
      return make_transport(backend, options);
    };
    std::string stranger;
    std::thread other([&] {
      const auto transport = join(1, "guessed");
      stranger = complaint<InputError>([&] { transport->open({.name = "w", .bytes = 8}, in_time()); });
    });
    const auto transport = join(0, "known");
    const std::string text = complaint<Error>([&] { transport->open({.name = "w", .bytes = 8}, in(300ms)); });
    other.join();
    EXPECT_TRUE(contains(stranger, "the run secret differs")) << stranger;
    EXPECT_TRUE(contains(text, "worker 1 has not opened it")) << text;
    EXPECT_TRUE(log.come("worker 0 refuses 127.0.0.1:"));
    const std::vector<std::string> lines = log.lines();
    const auto refusal = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return contains(line, "worker 0 refuses 127.0.0.1:");
    });
    ASSERT_NE(refusal, lines.end());
    EXPECT_TRUE(contains(*refusal, "its run secret differs")) << *refusal;
  }
}

TEST(Segment, ReadersCannotWriteAndSizesAreSealed) {
  const auto segment = shm::Segment::create("sealed", 4096, shm::Sharing::read_only);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment.descriptor().get(), 0),
            MAP_FAILED);
  EXPECT_NE(::ftruncate(segment.descriptor().get(), 0), 0);
  segment.data()[7] = std::byte{9};
  const auto view = shm::Segment::map(segment.descriptor(), 4096, shm::Sharing::read_only, "test");
  EXPECT_EQ(view.data()[7], std::byte{9});
  EXPECT_THROW(shm::Segment::map(segment.descriptor(), 8192, shm::Sharing::read_only, "test"), InputError);
}

TEST(Registry, KnowsItsBackends) {
  MemoryStore store;
  auto options = support::transport_options(0, 1, store);
  options.world = InprocWorld::create(1);
  options.network.interface = "lo";
  for (const Backend& backend : backends()) {
    if (support::travels(backend.name) && !backend.obstacle().empty()) {
      EXPECT_TRUE(contains(complaint<InputError>([&] { make_transport(backend.name, options); }),
                           "built without UCX"));
      continue;
    }
    ASSERT_EQ(backend.obstacle(), "");
    const auto transport = make_transport(backend.name, options);
    EXPECT_EQ(transport->backend(), backend.name);
    EXPECT_EQ(transport->self(), WorkerId{0});
    EXPECT_EQ(transport->workers(), options.workers);
    EXPECT_TRUE(transport->ledger().empty());
  }
  EXPECT_TRUE(
      contains(complaint<InputError>([&] { make_transport("inprok", options); }), "did you mean 'inproc'?"));
  options.world = nullptr;
  EXPECT_THROW(make_transport("inproc", options), InputError);
  options.store = nullptr;
  EXPECT_THROW(make_transport("shm", options), InputError);
  options.store = &store;
  options.self = WorkerId{7};
  EXPECT_THROW(make_transport("shm", options), InputError);
}

}  // namespace
}  // namespace kith::comm::conformance
