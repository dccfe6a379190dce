#include "kith/observe/report.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "kith/base/error.h"

namespace kith::cli {
namespace {

struct ReportFlags {
  std::string run;
  std::string out;
  std::string profile;
};

void run_report(const ReportFlags& flags) {
  const observe::RunReader run(flags.run);
  std::optional<plan::Profile> profile;
  if (!flags.profile.empty()) profile = plan::read_profile(flags.profile);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string html = observe::report_html(run, {now, profile ? &*profile : nullptr});
  const std::filesystem::path file =
      flags.out.empty() ? run.folder() / "report.html" : std::filesystem::path(flags.out);
  std::ofstream out(file, std::ios::binary);
  out << html;
  if (!out.flush()) throw Error("cannot be written", file.string(), "name another file with --out");
  std::cout << "report: " << file.string() << "\n";
}

}  // namespace

void add_report(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = app.add_subcommand("report", "Write what happened in a run as one HTML file");
  command->add_option("run", flags->run, "the run folder")->required();
  command->add_option("--out", flags->out, "the file (default: report.html in the run folder)");
  command->add_option("--profile", flags->profile,
                      "sets the plan for this profile against what was measured");
  command->callback([flags] { run_report(*flags); });
}

}  // namespace kith::cli
