#pragma once

#include <CLI/CLI.hpp>

namespace kith::cli {

// Exit codes (docs/errors.md). 70 is EX_SOFTWARE of sysexits.h.
inline constexpr int kFailed = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kBug = 70;
inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as a shell reports it
inline constexpr int kTerminated = 143;   // 128 + SIGTERM

// Whether it was asked to end.
inline bool stopped(int code) {
  return code == kInterrupted || code == kTerminated;
}

// For commands that do long work: output that nobody reads any more (`kith train | head -1`) is dropped
// instead of ending the process.
void outlive_readers();
// True for a pipe or socket whose other end is closed.
bool nobody_reads(int fd);

// Thrown by a command that has said what there is to say and ends with this code.
struct ExitCode {
  int code = 0;
};

// Parses the arguments, which runs the command they name, and returns the exit code. Whatever goes wrong
// becomes one line on standard error that begins with the command's name; an unknown command or flag gets a
// suggestion. An empty value is refused, whatever the option. Without arguments prints the help.
int run(CLI::App& app, int argc, const char* const* argv);

// The same as a program's whole main: what was printed has arrived, or that is a failure too.
int run_and_flush(CLI::App& app, int argc, const char* const* argv);

}  // namespace kith::cli
