#include "cli/local_workers.h"

#include <filesystem>
#include <iostream>
#include <utility>

#include "cli/run.h"
#include "kith/base/text.h"
#include "kith/comm/file_store.h"
#include "kith/train/run/begun.h"

namespace kith::cli {

launch::Environment local_environment(int worker, int workers, const std::string& store) {
  return {{"KITH_WORKER", std::to_string(worker)},
          {"KITH_WORKERS", std::to_string(workers)},
          {"KITH_LOCAL_RANK", std::to_string(worker)},
          {"KITH_LOCAL_WORKERS", std::to_string(workers)},
          {"KITH_STORE", store}};
}

std::string left_file_in(const std::string& folder, int worker) {
  return cat(folder, "/left-", worker);
}

bool has_left(const std::string& left_file) {
  std::error_code ignored;
  return std::filesystem::exists(left_file, ignored);
}

int run_local_workers(int workers, const std::vector<std::string>& arguments, SupervisorOptions options,
                      const std::string& store) {
  const TempFolder folder("kith");  // where the workers meet; the death of one leaves it as it is
  const bool go_on = options.deaths.then == OnDeath::go_on;
  options.deaths.begun = [path = folder.path()] {
    return comm::FileStore(path).get(train::kBegunKey).has_value();
  };
  Supervisor supervisor(std::move(options));
  bool told = false;
  for (int worker = 0; worker < workers; ++worker) {
    ChildOptions child{
        .name = cat("worker ", worker),
        .command = {own_program()},
        .environment = local_environment(worker, workers, store.empty() ? folder.path() : store)};
    child.command.insert(child.command.end(), arguments.begin(), arguments.end());
    const std::string left_file = left_file_in(folder.path(), worker);
    child.environment[std::string(launch::kLeftFile)] = left_file;
    child.left = [left_file] { return has_left(left_file); };
    child.on_end = [&, worker](const Ending& ending) {
      if (ending.code == 0 || stopped(ending.code)) return;
      if (std::exchange(told, true) && (!go_on || supervisor.ending())) return;
      std::cerr << "kith: worker " << worker << " " << ending.text << "\n";
    };
    supervisor.start(std::move(child));
  }
  const int code = supervisor.wait();
  if (code == 0 && supervisor.lost() > 0)
    std::cerr << "kith: " << supervisor.left() << " of " << workers << " workers finished\n";
  return code;
}

}  // namespace kith::cli
