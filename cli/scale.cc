#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/scale_requests.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/environment.h"
#include "kith/launch/meeting_point.h"
#include "kith/launch/secret.h"

namespace kith::cli {
namespace {

constexpr auto kAnswerWithin = std::chrono::seconds(20);
constexpr const char* kSecretFile = "KITH_SECRET_FILE";

struct ScaleFlags {
  std::string run;
  int workers = 0;
};

// Where the workers of a run meet, and where its secret lies on the machine of worker 0; empty: nowhere.
struct Meeting {
  launch::MeetingPoint store;
  std::string secret_file;
};

// As the run folder says; or what is named itself.
Meeting meeting_of(const std::string& run) {
  const std::filesystem::path folder = run;
  std::error_code ignored;
  if (run.find("://") != std::string::npos) return {launch::parse_meeting_point(run, "the store"), {}};
  if (!std::filesystem::is_directory(folder, ignored))
    throw InputError("there is no such folder", run, "name a run folder, or where the workers meet");
  if (!std::filesystem::exists(folder / "config.toml", ignored))
    return {{.folder = run, .address = {}, .origin = "the store"}, {}};
  std::string store, secret_file;
  std::ifstream in(folder / "store");
  std::getline(in, store);
  std::getline(in, secret_file);
  if (store.empty())
    throw InputError("was not started by a launcher", run, "kith launch --elastic MIN:MAX -- kith train ...");
  const Meeting meeting{launch::parse_meeting_point(store, (folder / "store").string()), secret_file};
  if (meeting.store.by_worker())
    throw InputError(cat("its workers meet at one of them, ", store), run,
                     "a run of kith launch --elastic MIN:MAX can be scaled");
  if (meeting.store.is_folder() && !std::filesystem::is_directory(store, ignored))
    throw InputError("is over: nobody meets there any more", store, "a run that goes on can be scaled");
  return meeting;
}

// The user's own, or the launcher's, where this is its machine and user.
std::string secret_of(const Meeting& meeting) {
  const launch::Environment own = launch::read_environment();
  std::error_code ignored;
  if (const auto named = own.find(kSecretFile); named != own.end())
    return launch::read_secret(named->second, kSecretFile);
  if (meeting.secret_file.empty()) return {};
  if (!std::filesystem::exists(meeting.secret_file, ignored))
    throw InputError("the secret of the run is not on this machine, or the run is over", meeting.secret_file,
                     cat("scale it on the machine of worker 0, or set ", kSecretFile));
  return launch::read_secret(meeting.secret_file, "the run folder");
}

std::string scale(const ScaleFlags& flags) {
  const Meeting meeting = meeting_of(flags.run);
  const Deadline deadline = SteadyClock().now() + kAnswerWithin;
  const launch::Environment own = launch::read_environment();
  const auto interface = own.find("KITH_INTERFACE");
  const auto store =
      launch::reach_store(meeting.store,
                          {.interface = interface == own.end() ? std::string() : interface->second,
                           .secret = meeting.store.is_folder() ? std::string() : secret_of(meeting)},
                          deadline);
  return ask_to_scale(*store, meeting.store.text(), flags.workers, deadline);
}

}  // namespace

void add_scale(CLI::App& app) {
  auto flags = std::make_shared<ScaleFlags>();
  CLI::App* command = app.add_subcommand("scale", "Ask a running elastic job for another number of workers");
  command
      ->add_option("run", flags->run,
                   "its run folder, or where its workers meet: a folder, tcp://HOST:PORT, "
                   "etcd://HOST:PORT,.../RUN")
      ->required();
  command->add_option("workers", flags->workers, "how many workers")->required()->check(CLI::Range(1, 4096));
  command->callback([flags] { std::cout << scale(*flags) << "\n"; });
}

}  // namespace kith::cli
