#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/assignment_flags.h"
#include "cli/commands.h"
#include "kith/base/text.h"
#include "kith/launch/assignment.h"

namespace kith::cli {
namespace {

struct EnvFlags {
  launch::AssignmentFlags assignment;
  bool json = false;
};

std::string shown(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "not told";
}

void print_json(const launch::Assignment& assignment) {
  const auto number = [](const std::optional<int>& n) { return n ? nlohmann::json(*n) : nlohmann::json(); };
  nlohmann::json out{
      {"launcher", assignment.launcher},
      {"run", assignment.run},
      {"worker", assignment.worker},
      {"workers", assignment.workers},
      {"local_rank", number(assignment.local_rank)},
      {"local_workers", number(assignment.local_workers)},
      {"store", assignment.store ? nlohmann::json(assignment.store->text()) : nlohmann::json()},
      {"store_from", assignment.store ? nlohmann::json(assignment.store->origin) : nlohmann::json()},
      {"interface", assignment.interface},
      {"secret", !assignment.secret.empty()},
      {"variables", nlohmann::json::object()}};
  for (const launch::Variable& variable : assignment.variables)
    out["variables"][variable.name] = variable.value ? nlohmann::json(*variable.value) : nlohmann::json();
  std::cout << out.dump(2) << "\n";
}

void print_text(const launch::Assignment& assignment) {
  const auto row = [](std::string_view name, const std::string& value) {
    std::cout << name << std::string(15 - name.size(), ' ') << value << "\n";
  };
  row("launcher", assignment.assigned() ? assignment.launcher : "none: a single process");
  if (!assignment.run.empty()) row("run", assignment.run);
  row("worker", cat(assignment.worker, " of ", assignment.workers));
  row("local rank", shown(assignment.local_rank));
  row("local workers", shown(assignment.local_workers));
  row("store", assignment.store ? cat(assignment.store->text(), " (", assignment.store->origin, ")")
                                : "none is needed");
  row("interface", assignment.interface.empty() ? "any" : assignment.interface);
  row("secret", assignment.secret.empty() ? "no" : "yes");
  std::cout << "\nlooked at:\n";
  for (const launch::Variable& variable : assignment.variables)
    std::cout << "  " << variable.name << "=" << variable.value.value_or("(unset)") << "\n";
}

}  // namespace

void add_env(CLI::App& app) {
  auto flags = std::make_shared<EnvFlags>();
  CLI::App* command = app.add_subcommand("env", "Show which world this process finds itself in");
  add_assignment_flags(*command, flags->assignment);
  command->add_option("--workers", flags->assignment.workers, "with --worker: of how many");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags] {
    const launch::Assignment assignment = launch::discover(launch::read_environment(), flags->assignment);
    flags->json ? print_json(assignment) : print_text(assignment);
  });
}

}  // namespace kith::cli
