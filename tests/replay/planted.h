#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kith/comm/memory_store.h"
#include "kith/comm/window.h"

namespace kith::replay {

// Mistakes that a transport, a store or an engine could make, to show that the seeds find them. They lie in
// wrappers of the test, never in shipped code.
enum class Bug : std::uint8_t {
  none,
  release_is_skipped,   // a reader now and then does not say that it is past a version
  release_comes_early,  // a reader lets go of a version before it has read it
  version_before,       // a reader now and then gets the version before the one that it asked for
  gives_up_silently,    // a reader now and then calls a version late at once
  reader_is_not_named,  // a writer now and then forgets one of its readers
  visible_too_early,    // a version is visible before its last byte is written
  weight_is_dropped,    // once somebody is gone, arrivals come with the weight of nothing
  loss_is_not_told,     // one worker never hears of a loss
  loss_of_the_living,   // when one worker is lost, another one is called lost too
  view_a_step_early,    // one worker reads a view's first step as one less
  call_is_not_heard,    // one worker's store never tells it that a view was called for
};
inline constexpr std::array kBugs{
    Bug::release_is_skipped,  Bug::release_comes_early, Bug::version_before,    Bug::gives_up_silently,
    Bug::reader_is_not_named, Bug::visible_too_early,   Bug::weight_is_dropped, Bug::loss_is_not_told,
    Bug::loss_of_the_living,  Bug::view_a_step_early,   Bug::call_is_not_heard,
};
std::string_view name_of(Bug bug);

// Whether the mistake is the engine's, above what is checked, or the transport's below it.
bool is_of_the_engine(Bug bug);

// A window with the bug, where it is one of windows. `inner` itself otherwise.
std::unique_ptr<comm::Window> with_bug(Bug bug, std::unique_ptr<comm::Window> inner);

// One worker's way to the store that all share: a point at every call, and the bug, where it is one of
// stores.
class WorkersStore final : public comm::Store {
 public:
  WorkersStore(comm::MemoryStore& shared, int worker, Bug bug)
      : shared_(shared), worker_(worker), bug_(bug) {}

 private:
  void set_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> get_for(std::string_view key, std::stop_token stop) override;
  std::int64_t add_for(std::string_view key, std::int64_t delta, std::stop_token stop) override;
  std::string set_once_for(std::string_view key, std::string_view value, std::stop_token stop) override;
  std::optional<std::string> wait_for(std::string_view key, Deadline deadline, std::stop_token stop) override;
  // As this worker reads it.
  std::string read(std::string_view key, std::string value) const;

  comm::MemoryStore& shared_;
  const int worker_;
  const Bug bug_;
};

}  // namespace kith::replay
