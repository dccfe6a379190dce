#include "cli/commands.h"
#include "cli/training.h"
#include "kith/base/error.h"

namespace kith::cli {

void add_training(CLI::App& app) {
  const auto explain = [&](const char* name, const char* summary) {
    CLI::App* command = app.add_subcommand(name, summary);
    command->allow_extras();
    command->callback([] {
      throw InputError("this kith was built without LibTorch", {},
                       "configure with -DKITH_TRAIN=ON and build again");
    });
  };
  explain("demo", "Compare two ways to train (this kith was built without LibTorch)");
  explain("train", "Train a model (this kith was built without LibTorch)");
  explain("profile", "Measure a job (this kith was built without LibTorch)");
  explain("data", "Make data sets (this kith was built without LibTorch)");
  explain("sample", "Continue a text (this kith was built without LibTorch)");
  explain("translate", "Translate (this kith was built without LibTorch)");
  explain("export", "Write a model for others (this kith was built without LibTorch)");
  explain("study", "Compare methods (this kith was built without LibTorch)");
}

void hand_on_training(int, char**) {}

}  // namespace kith::cli
