// A transport whose workers become others.
#include "kith/comm/extensible.h"

#include <gtest/gtest.h>

#include "kith/comm/inproc/world.h"
#include "tests/support/worlds.h"

namespace kith::comm {
namespace {

using Workers = std::vector<WorkerId>;

struct Pair {
  explicit Pair(const std::shared_ptr<InprocGenerations>& shared)
      : a(make(shared, 0, {WorkerId{0}, WorkerId{1}})), b(make(shared, 1, {WorkerId{0}, WorkerId{1}})) {}
  static std::unique_ptr<ExtensibleTransport> make(const std::shared_ptr<InprocGenerations>& shared, int self,
                                                   const Workers& workers) {
    const MakeGeneration generation = generations_of_threads(shared, WorkerId{self});
    return std::make_unique<ExtensibleTransport>(generation("first", workers), generation);
  }
  std::unique_ptr<ExtensibleTransport> a, b;
};

// Publishes from `from` to `to` in a window of that name; the bytes that the ledger has then.
void pass(Transport& from, Transport& to, const std::string& name) {
  WindowOptions options;
  options.name = name;
  options.bytes = 8;
  options.peers = {to.self()};
  WindowOptions other = options;
  other.peers = {from.self()};
  std::unique_ptr<Window> sends, receives;
  std::thread opening([&] { sends = from.open(options, support::in_time()); });
  receives = to.open(other, support::in_time());
  opening.join();
  sends->begin({0, 0}, support::in_time());
  PublishOptions publication;
  publication.bytes = 8;
  publication.readers = {to.self()};
  sends->publish({0, 0}, publication);
  Outcome outcome = receives->await(from.self(), {0, 0}, support::in_time());
  EXPECT_TRUE(std::holds_alternative<Arrival>(outcome)) << name;
}

TEST(Extensible, MovesToAnotherListOfWorkers) {
  const auto shared = std::make_shared<InprocGenerations>();
  Pair pair(shared);
  pass(*pair.a, *pair.b, "before");
  const Workers three{WorkerId{0}, WorkerId{1}, WorkerId{7}};
  const auto newcomer =
      std::make_unique<ExtensibleTransport>(InprocWorld::create(Workers{WorkerId{7}})->join(WorkerId{7}),
                                            generations_of_threads(shared, WorkerId{7}));
  const auto a = pair.a->extend("second", three), b = pair.b->extend("second", three),
             c = newcomer->extend("second", three);
  EXPECT_EQ(pair.a->workers().size(), 2u) << "a generation is in use once it was moved to";
  pair.a->move_to(a);
  pair.b->move_to(b);
  newcomer->move_to(c);
  EXPECT_EQ(pair.a->workers(), three);
  EXPECT_FALSE(pair.a->lost(WorkerId{7}));
  pass(*pair.a, *newcomer, "to the newcomer");
  pass(*pair.a, *pair.b, "before");  // the name is another one there
  const Ledger ledger = pair.a->ledger();
  EXPECT_EQ(ledger.at(WorkerId{1}).bytes_offered, 16u) << "of both generations";
  EXPECT_EQ(ledger.at(WorkerId{7}).bytes_offered, 8u);
}

TEST(Extensible, KnowsWhoIsLost) {
  const auto shared = std::make_shared<InprocGenerations>();
  Pair pair(shared);
  EXPECT_TRUE(pair.a->lost(WorkerId{5})) << "it was never there";
  pair.a->move_to(pair.a->extend("second", {WorkerId{0}, WorkerId{1}}));
  EXPECT_FALSE(pair.a->lost(WorkerId{1})) << "it is still in the one before";
  pair.b->move_to(pair.b->extend("second", {WorkerId{0}, WorkerId{1}}));
  EXPECT_FALSE(pair.a->lost(WorkerId{1}));
  pair.b.reset();
  EXPECT_TRUE(pair.a->lost(WorkerId{1}));
}

}  // namespace
}  // namespace kith::comm
