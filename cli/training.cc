#include "cli/commands.h"

namespace kith::cli {

void add_training(CLI::App& app) {
  add_train(app);
  add_profile(app);
  add_data(app);
}

}  // namespace kith::cli
