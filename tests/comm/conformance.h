#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kith/base/rng.h"
#include "kith/base/text.h"
#include "kith/comm/window.h"
#include "tests/support/worlds.h"

namespace kith::comm::conformance {

using namespace std::chrono_literals;
using support::in;
using support::in_time;
using support::run_world;
using support::Worker;

inline constexpr std::size_t kBlock = 4096;

inline Version at(std::uint64_t step, std::uint32_t view = 0) {
  return {view, step};
}

inline unsigned char stamp(int writer, Version v, std::size_t block) {
  return static_cast<unsigned char>(hash_words(writer, v.view, v.step, block));
}

// Fills memory with what (writer, v) stands for: runs of kBlock equal bytes.
inline void fill(std::span<std::byte> memory, int writer, Version v) {
  for (std::size_t i = 0; i < memory.size(); i += kBlock) {
    std::memset(memory.data() + i, stamp(writer, v, i / kBlock), std::min(kBlock, memory.size() - i));
  }
}

// True when every byte is what fill wrote.
inline bool holds(std::span<const std::byte> memory, int writer, Version v) {
  for (std::size_t i = 0; i < memory.size(); i += kBlock) {
    const std::byte* run = memory.data() + i;
    const std::size_t length = std::min(kBlock, memory.size() - i);
    if (*run != static_cast<std::byte>(stamp(writer, v, i / kBlock))) return false;
    if (std::memcmp(run, run + 1, length - 1) != 0) return false;
  }
  return true;
}

inline std::vector<WorkerId> others(const Worker& w) {
  std::vector<WorkerId> all;
  for (int rank = 0; rank < w.size; ++rank) {
    if (rank != w.rank) all.push_back(WorkerId{rank});
  }
  return all;
}

// Begins, fills and publishes v. The first `bytes` of the slot are the payload.
inline void publish(Worker& w, Window& window, Version v, std::size_t bytes, std::vector<WorkerId> readers) {
  const auto begun = window.begin(v, in_time());
  ASSERT_TRUE(std::holds_alternative<std::span<std::byte>>(begun)) << w.id() << " begins " << v;
  fill(std::get<std::span<std::byte>>(begun).first(bytes), w.rank, v);
  window.publish(v, {.bytes = bytes, .codec = 7, .weight = 0.5, .readers = std::move(readers)});
}

// Checks that v of the peer arrives with the right header and bytes; releases it.
inline void expect_arrival(Worker& w, Window& window, WorkerId peer, Version v, std::size_t bytes) {
  const Outcome outcome = window.await(peer, v, in_time());
  ASSERT_TRUE(std::holds_alternative<Arrival>(outcome))
      << w.id() << " awaits " << v << " of " << peer << ", outcome " << outcome.index();
  const Arrival& arrival = std::get<Arrival>(outcome);
  EXPECT_EQ(arrival.peer(), peer);
  EXPECT_EQ(arrival.header().version, v);
  EXPECT_EQ(arrival.header().bytes, bytes);
  EXPECT_EQ(arrival.header().codec, 7u);
  EXPECT_EQ(arrival.header().weight, 0.5);
  EXPECT_EQ(arrival.header().shape_digest, window.options().shape_digest);
  ASSERT_EQ(arrival.data().size(), bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrival.data().data()) % 64, 0u);
  EXPECT_TRUE(holds(arrival.data(), peer.value, v)) << w.id() << " reads " << v << " of " << peer;
}

// Everybody comes here before anybody goes on.
inline void meet(Worker& w, std::string_view where, const std::vector<WorkerId>& peers) {
  w.store.set(cat(where, "/", w.rank), "");
  for (WorkerId peer : peers)
    EXPECT_TRUE(w.store.wait(cat(where, "/", peer.value), in_time())) << peer << " does not come";
}
// Before somebody dies: who still opens a window then may have to give it up.
inline void all_have_opened(Worker& w) {
  meet(w, "opened", others(w));
}

// Where versions have to travel, what a worker published can go down with it. So everybody comes here before
// anybody may go on to leave or to die.
inline void together(Worker& w, std::string_view where, const std::vector<WorkerId>& peers) {
  if (support::travels(w.transport.backend())) meet(w, where, peers);
}
inline void together(Worker& w, std::string_view where) {
  together(w, where, others(w));
}

// One full round: publish to the readers, take from the writers.
inline void round(Worker& w, Window& window, Version v, const std::vector<WorkerId>& readers,
                  const std::vector<WorkerId>& writers) {
  const std::size_t bytes = window.options().bytes;
  publish(w, window, v, bytes, readers);
  for (WorkerId peer : writers)
    expect_arrival(w, window, peer, v, bytes);
}

inline std::string label(std::size_t bytes) {
  return bytes == 1 ? "1B" : bytes == 4096 ? "4KB" : bytes == 25'000'000 ? "25MB" : "1MB3B";
}

// backend x world x size
using Cell = std::tuple<std::string, int, std::size_t>;
class Grid : public ::testing::TestWithParam<Cell> {
 protected:
  std::string backend() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
  std::size_t bytes() const { return std::get<2>(GetParam()); }
  // Many rounds where they are cheap.
  std::uint64_t rounds() const { return bytes() <= 4096 ? 40 : bytes() < 2'000'000 ? 8 : 4; }
};
inline std::string cell_name(const ::testing::TestParamInfo<Cell>& info) {
  return cat(std::get<0>(info.param), "_", std::get<1>(info.param), "_", label(std::get<2>(info.param)));
}

// backend x world
using Row = std::tuple<std::string, int>;
class Rows : public ::testing::TestWithParam<Row> {
 protected:
  std::string backend() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
};
inline std::string row_name(const ::testing::TestParamInfo<Row>& info) {
  return cat(std::get<0>(info.param), "_", std::get<1>(info.param));
}

}  // namespace kith::comm::conformance
