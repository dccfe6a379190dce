#include "cli/run.h"

#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

// The innermost command that the arguments reached.
const CLI::App& reached(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : reached(*parsed.back());
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? cat(full_name(*app.get_parent()), " ", app.get_name()) : app.get_name();
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

// What is wrong with a word that no option, argument or command takes.
std::string describe_unexpected(const CLI::App& app, const std::string& word) {
  if (word.starts_with("-")) {
    const std::string flag = word.substr(0, word.find('='));
    return cat("unknown flag '", flag, "' (", suggest(flag, flags_of(app)), ")");
  }
  const std::vector<std::string> commands = commands_of(app);
  if (commands.empty()) return cat("unexpected argument '", word, "' (see ", full_name(app), " --help)");
  return cat("unknown command '", word, "' (", suggest(word, commands), ")");
}

int report(const CLI::App& app, std::string_view problem, int code) {
  std::cerr << full_name(reached(app)) << ": " << problem << "\n";
  return code;
}

}  // namespace

int run(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    if (argc == 1) std::cout << app.help();
    return 0;
  } catch (const ExitCode& exit) {
    return exit.code;
  } catch (const CLI::Success& asked) {  // --help and --version
    return app.exit(asked);
  } catch (const CLI::ExtrasError& error) {
    const CLI::App& command = reached(app);
    const std::vector<std::string> extras = command.remaining();
    return report(app, extras.empty() ? error.what() : describe_unexpected(command, extras.front()),
                  kBadInput);
  } catch (const CLI::ParseError& error) {
    return report(app, error.what(), kBadInput);
  } catch (const InputError& error) {
    return report(app, error.what(), kBadInput);
  } catch (const Bug& bug) {
    report(app, bug.what(), kBug);
    std::cerr << "This is a bug in kith. Please report it with the line above, the command, and the output "
                 "of kith --version.\n";
    return kBug;
  } catch (const std::exception& error) {
    return report(app, error.what(), kFailed);
  }
}

}  // namespace kith::cli
