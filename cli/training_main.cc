// The commands that need LibTorch: Note [Two programs] in cli/training.h.

#include <CLI/CLI.hpp>
#include <cstdlib>

#include <malloc.h>

#include "cli/commands.h"
#include "cli/run.h"
#include "cli/workload_commands.h"

namespace {

// A pass of a model takes and gives back the same blocks in every step. As glibc is set up it hands those of
// a few hundred kilobytes back to the kernel, and each step begins with a page fault for every 4 kB of them.
void keep_freed_memory() {
  constexpr int kLargestKept = 32 << 20;  // the most that glibc takes for this
  constexpr int kKept = 512 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargestKept);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  // The oneDNN of LibTorch 1.13 takes a processor that names AMX for one that allows it, and dies of SIGILL
  // in 16-bit passes where a virtual machine does not. AVX-512 is the most that it needs for kith's models.
  ::setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);
  CLI::App app("Decentralised training of neural networks, without a global barrier.", "kith");
  app.require_subcommand(0, 1);
  kith::cli::add_demo(app);
  kith::cli::add_train(app);
  kith::cli::add_profile(app);
  kith::cli::add_study(app);
  kith::cli::add_data(app);
  kith::cli::add_sample(app);
  kith::cli::add_translate(app);
  kith::cli::add_export(app);
  return kith::cli::run_and_flush(app, argc, argv);
}
