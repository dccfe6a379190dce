#include "cli/training.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "cli/blas.h"
#include "cli/commands.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

struct Summary {
  const char* command;
  const char* text;
};

constexpr std::array<Summary, 8> kSummaries{{{"demo", kDemoSummary},
                                             {"train", kTrainSummary},
                                             {"profile", kProfileSummary},
                                             {"study", kStudySummary},
                                             {"data", kDataSummary},
                                             {"sample", kSampleSummary},
                                             {"translate", kTranslateSummary},
                                             {"export", kExportSummary}}};

}  // namespace

void add_training(CLI::App& app) {
  for (const Summary& summary : kSummaries)
    app.add_subcommand(summary.command, summary.text);
}

void hand_on_training(int argc, char** argv) {
  for (const Summary& summary : kSummaries) {
    if (argc < 2 || std::string_view(argv[1]) != summary.command) continue;
    const std::filesystem::path program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kith-training";
    choose_blas_kernels();
    ::execv(program.c_str(), argv);
    throw Error(cat("cannot be run: ", std::strerror(errno)), program.string(), "install it beside kith");
  }
}

}  // namespace kith::cli
