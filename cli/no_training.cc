#include "cli/commands.h"
#include "kith/base/error.h"

namespace kith::cli {

void add_training(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model (this kith was built without LibTorch)");
  command->allow_extras();
  command->callback([] {
    throw InputError("this kith was built without LibTorch", {},
                     "configure with -DKITH_TRAIN=ON and build again");
  });
}

}  // namespace kith::cli
