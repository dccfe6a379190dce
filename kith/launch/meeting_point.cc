#include "kith/launch/meeting_point.h"

#include "kith/base/error.h"
#include "kith/base/sha256.h"
#include "kith/base/text.h"
#include "kith/comm/etcd_store.h"
#include "kith/comm/file_store.h"
#include "kith/comm/tcp_store.h"

namespace kith::launch {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kEtcd = "etcd://";
constexpr std::uint16_t kEtcdPort = 2379;

MeetingPoint parse_etcd(std::string_view text, const std::string& origin) {
  MeetingPoint point{{}, {}, origin, true};
  const auto slash = text.find('/');
  for (const std::string& member : split(text.substr(0, slash), ',')) {
    const bool has_port =
        member.find(':', member.starts_with('[') ? member.find(']') : 0) != std::string::npos;
    point.members.push_back(
        comm::net::parse_address(has_port ? member : cat(member, ":", kEtcdPort), origin));
  }
  if (slash != std::string_view::npos) point.run = text.substr(slash + 1);
  return point;
}

}  // namespace

std::string MeetingPoint::text() const {
  if (is_folder()) return folder;
  if (is_etcd()) {
    std::vector<std::string> names;
    for (const comm::net::Address& member : members)
      names.push_back(comm::net::text_of(member));
    return cat(kEtcd, kith::join(names, ","), run.empty() ? "" : "/", run);
  }
  return cat(served ? kTcp : std::string_view(), comm::net::text_of(address));
}

MeetingPoint parse_meeting_point(std::string_view text, const std::string& origin) {
  if (text.starts_with(kTcp))
    return {{}, comm::net::parse_address(text.substr(kTcp.size()), origin), origin, true};
  if (text.starts_with(kEtcd)) return parse_etcd(text.substr(kEtcd.size()), origin);
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos) {
    throw InputError(cat("'", text, "' is no store that kith knows"), origin,
                     "HOST:PORT, tcp://HOST:PORT, etcd://HOST:PORT,... or a folder");
  }
  if (text.find('/') != std::string_view::npos) return {std::string(text), {}, origin};
  return {{}, comm::net::parse_address(text, origin), origin};
}

MeetingPoint with_run(MeetingPoint point) {
  if (point.is_etcd() && point.run.empty()) point.run = cat("run-", hex(random_bytes(8)));
  return point;
}

std::unique_ptr<comm::TcpStoreServer> serve_store(const MeetingPoint& at, const ServeOptions& options) {
  std::unique_ptr<comm::TcpStoreServer> server;
  try {
    server = std::make_unique<comm::TcpStoreServer>(
        comm::TcpStoreServerOptions{.listen = {.at = at.address, .interface = options.interface},
                                    .secret = options.secret,
                                    .log = options.log});
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.what(), cat("the store's port (", at.origin, ")"), "set KITH_PORT on all workers");
  }
  if (options.log) {
    options.log->info(cat("the store listens on ", comm::net::text_of(server->bound()), " (", at.origin,
                          "), ",
                          options.secret.empty() ? "whoever reaches it may join: KITH_SECRET_FILE is not set"
                                                 : "joining needs the run secret"));
  }
  return server;
}

std::shared_ptr<comm::WillStore> reach_store(const MeetingPoint& at, const ReachOptions& options,
                                             Deadline deadline) {
  if (at.is_folder()) return std::make_shared<comm::FileStore>(at.folder);
  if (at.is_etcd()) {
    return std::make_shared<comm::EtcdStore>(
        comm::EtcdStoreOptions{
            .endpoints = at.members, .run = at.run, .secret = options.secret, .interface = options.interface},
        deadline);
  }
  return std::make_shared<comm::TcpStore>(comm::TcpStoreOptions{.server = at.address,
                                                                .secret = options.secret,
                                                                .interface = options.interface,
                                                                .remedy = options.remedy,
                                                                .log = options.log},
                                          deadline);
}

}  // namespace kith::launch
