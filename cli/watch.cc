#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/watch_server.h"
#include "cli/watched_run.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/launch/secret.h"
#include "kith/observe/run_reader.h"
#include "kith/observe/terminal.h"
#include "kith/observe/waits.h"

namespace kith::cli {
namespace {

constexpr auto kPause = std::chrono::seconds(1);

struct WatchFlags {
  std::string run;
  bool text = false;
  bool once = false;
  std::string address = "127.0.0.1";
  int port = 0;
  bool open = false;
};

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

int columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

// Until the run is over.
void show_text(observe::RunReader& run, bool once) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    run.refresh();
    const double now = unix_now();
    if (terminal && !once) std::cout << "\033[H\033[J";
    std::cout << observe::terminal_text(run, now, columns()) << (terminal ? "" : "\n") << std::flush;
    if (once || !std::cout || observe::over(run, now)) return;
    std::this_thread::sleep_for(kPause);
  }
}

void show_page(observe::RunReader& run, const WatchFlags& flags) {
  if (const std::string obstacle = server_obstacle(); !obstacle.empty())
    throw InputError(obstacle, "kith watch", "look at the run with --text");
  const std::string token = flags.open ? std::string() : launch::make_secret();
  serve(run, {flags.address, flags.port, token, launch::make_secret()}, [&](int port) {
    std::cout << "http://" << flags.address << ":" << port << "/" << (token.empty() ? "" : "?token=") << token
              << "\nCtrl-C ends it. From another machine: ssh -L " << port << ":localhost:" << port
              << " THIS-MACHINE, then open the same address there." << std::endl;
  });
}

void run_watch(const WatchFlags& flags) {
  observe::RunReader run(run_folder_of(flags.run));
  if (flags.text || flags.once) return show_text(run, flags.once);
  show_page(run, flags);
}

}  // namespace

void add_watch(CLI::App& app) {
  auto flags = std::make_shared<WatchFlags>();
  CLI::App* command =
      app.add_subcommand("watch", "Follow a run: a page in the browser, or text in the terminal");
  command
      ->add_option("run", flags->run,
                   "the run folder, or the store where its workers meet (HOST:PORT, a folder)")
      ->required();
  command->add_flag("--text", flags->text, "in the terminal, until the run is over");
  command->add_flag("--once", flags->once, "in the terminal, once");
  command->add_option("--address", flags->address, "where the page is served (default: 127.0.0.1)");
  command->add_option("--port", flags->port, "its port (default: any that is free)")
      ->check(CLI::Range(0, 65535));
  command->add_flag("--open", flags->open, "without a token: whoever reaches the address sees the run");
  command->callback([flags] { run_watch(*flags); });
}

}  // namespace kith::cli
