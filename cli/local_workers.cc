#include "cli/local_workers.h"

#include <iostream>
#include <utility>

#include "cli/run.h"
#include "kith/base/text.h"

namespace kith::cli {

launch::Environment local_environment(int worker, int workers, const std::string& folder) {
  return {{"KITH_WORKER", std::to_string(worker)},
          {"KITH_WORKERS", std::to_string(workers)},
          {"KITH_LOCAL_RANK", std::to_string(worker)},
          {"KITH_LOCAL_WORKERS", std::to_string(workers)},
          {"KITH_STORE", folder}};
}

int run_local_workers(int workers, const std::vector<std::string>& arguments, SupervisorOptions options) {
  const TempFolder folder("kith");  // where the workers meet
  Supervisor supervisor(std::move(options));
  bool told = false;
  for (int worker = 0; worker < workers; ++worker) {
    ChildOptions child{.command = {own_program()},
                       .environment = local_environment(worker, workers, folder.path())};
    child.command.insert(child.command.end(), arguments.begin(), arguments.end());
    child.on_end = [&told, worker](const Ending& ending) {
      if (ending.code == 0 || std::exchange(told, true) || stopped(ending.code)) return;
      std::cerr << "kith: worker " << worker << " " << ending.text << "\n";
    };
    supervisor.start(std::move(child));
  }
  return supervisor.wait();
}

}  // namespace kith::cli
