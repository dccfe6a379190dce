#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/place_flags.h"
#include "kith/base/text.h"
#include "kith/launch/place.h"

namespace kith::cli {
namespace {

struct EnvFlags {
  launch::PlaceFlags place;
  bool json = false;
};

std::string shown(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "not told";
}

void print_json(const launch::Place& place) {
  const auto number = [](const std::optional<int>& n) { return n ? nlohmann::json(*n) : nlohmann::json(); };
  nlohmann::json out{{"launcher", place.launcher},
                     {"run", place.run},
                     {"worker", place.worker},
                     {"workers", place.workers},
                     {"local_rank", number(place.local_rank)},
                     {"local_workers", number(place.local_workers)},
                     {"store", place.store ? nlohmann::json(place.store->text()) : nlohmann::json()},
                     {"store_from", place.store ? nlohmann::json(place.store->origin) : nlohmann::json()},
                     {"interface", place.interface},
                     {"secret", !place.secret.empty()},
                     {"variables", nlohmann::json::object()}};
  for (const launch::Variable& variable : place.variables)
    out["variables"][variable.name] = variable.value ? nlohmann::json(*variable.value) : nlohmann::json();
  std::cout << out.dump(2) << "\n";
}

void print_text(const launch::Place& place) {
  const auto row = [](std::string_view name, const std::string& value) {
    std::cout << name << std::string(15 - name.size(), ' ') << value << "\n";
  };
  row("launcher", place.placed() ? place.launcher : "none: a single process");
  if (!place.run.empty()) row("run", place.run);
  row("worker", cat(place.worker, " of ", place.workers));
  row("local rank", shown(place.local_rank));
  row("local workers", shown(place.local_workers));
  row("store", place.store ? cat(place.store->text(), " (", place.store->origin, ")") : "none is needed");
  row("interface", place.interface.empty() ? "any" : place.interface);
  row("secret", place.secret.empty() ? "no" : "yes");
  std::cout << "\nlooked at:\n";
  for (const launch::Variable& variable : place.variables)
    std::cout << "  " << variable.name << "=" << variable.value.value_or("(unset)") << "\n";
}

}  // namespace

void add_env(CLI::App& app) {
  auto flags = std::make_shared<EnvFlags>();
  CLI::App* command = app.add_subcommand("env", "Show which world this process finds itself in");
  add_place_flags(*command, flags->place);
  command->add_option("--workers", flags->place.workers, "with --worker: of how many");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags] {
    const launch::Place place = launch::discover(launch::read_environment(), flags->place);
    flags->json ? print_json(place) : print_text(place);
  });
}

}  // namespace kith::cli
