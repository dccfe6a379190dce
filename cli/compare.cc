#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "kith/base/error.h"
#include "kith/observe/report.h"

namespace kith::cli {
namespace {

struct CompareFlags {
  std::vector<std::string> runs;
  std::string out = "compare.html";
};

void print(const std::vector<std::vector<std::string>>& table) {
  for (const auto& row : table) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      std::size_t width = 0;
      for (const auto& other : table)
        width = std::max(width, other[k].size());
      std::cout << (k == 0 ? std::left : std::right) << std::setw(static_cast<int>(width) + (k == 0 ? 0 : 3))
                << row[k];
    }
    std::cout << "\n";
  }
}

void run_compare(const CompareFlags& flags) {
  std::vector<std::unique_ptr<observe::RunReader>> readers;
  std::vector<const observe::RunReader*> runs;
  for (const std::string& folder : flags.runs) {
    readers.push_back(std::make_unique<observe::RunReader>(folder));
    runs.push_back(readers.back().get());
  }
  print(observe::compare_table(runs));
  std::ofstream out(flags.out, std::ios::binary);
  out << observe::compare_html(runs, "kith compare");
  if (!out.flush()) throw Error("cannot be written", flags.out, "name another file with --out");
  std::cout << "\npage: " << flags.out << "\n";
}

}  // namespace

void add_compare(CLI::App& app) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand("compare", "Lay runs over each other: over time, steps or bytes");
  command->add_option("runs", flags->runs, "run folders")->required();
  command->add_option("--out", flags->out, "the HTML file (default: compare.html)");
  command->callback([flags] { run_compare(*flags); });
}

}  // namespace kith::cli
