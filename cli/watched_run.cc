#include "cli/watched_run.h"

#include <chrono>
#include <memory>
#include <optional>

#include "kith/base/error.h"
#include "kith/comm/file_store.h"
#include "kith/comm/tcp_store.h"
#include "kith/launch/assignment.h"
#include "kith/launch/meeting_point.h"
#include "kith/observe/run_reader.h"

namespace kith::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

std::unique_ptr<comm::Store> open_store(const std::string& text, Deadline deadline) {
  if (std::filesystem::is_directory(text)) return std::make_unique<comm::FileStore>(text);
  const launch::MeetingPoint point = launch::parse_meeting_point(text, "kith watch");
  if (point.is_folder())
    throw InputError("there is no such folder", text, "name a run folder, or the store of a run");
  if (point.is_etcd()) throw InputError("a run in etcd is not looked up there", text, "name its run folder");
  return std::make_unique<comm::TcpStore>(
      comm::TcpStoreOptions{.server = point.address,
                            .secret = launch::discover(launch::read_environment()).secret},
      deadline);
}

}  // namespace

std::filesystem::path run_folder_of(const std::string& text) {
  std::error_code ignored;
  const std::filesystem::path folder = text;
  if (std::filesystem::exists(folder / "config.toml", ignored) || !observe::workers_in(folder).empty())
    return folder;
  const Deadline deadline = SteadyClock().now() + kPatience;
  const std::optional<std::string> told = open_store(text, deadline)->wait(kRunKey, deadline);
  if (!told || !told->starts_with(kRunReady))
    throw InputError("is no run folder, and no run is known in a store there", text,
                     "name a folder that kith train wrote, or where its workers meet");
  return told->substr(1, told->find('\n') - 1);
}

}  // namespace kith::cli
