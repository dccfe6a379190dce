#include "cli/run.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/shortened.h"
#include "kith/base/text.h"

namespace kith::cli {
namespace {

constexpr std::size_t kMostOfInput = 1000;  // characters of a message

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
    const std::string flag = shortened(word.substr(0, word.find('=')), kMostOfInput);
    return cat("unknown flag '", flag, "' (", suggest(flag, flags_of(app)), ")");
  }
  const std::vector<std::string> commands = commands_of(app);
  const std::string shown = shortened(word, kMostOfInput);
  if (commands.empty()) return cat("unexpected argument '", shown, "' (see ", full_name(app), " --help)");
  return cat("unknown command '", shown, "' (", suggest(word, commands), ")");
}

// "Could not convert: --workers = four" in the words of the other messages.
std::string describe_conversion(const CLI::App& app, std::string_view message) {
  constexpr std::string_view kBefore = ": ", kBetween = " = ";
  const auto name = message.find(kBefore), value = message.find(kBetween);
  if (name == std::string_view::npos || value == std::string_view::npos) return std::string(message);
  const std::string flag(message.substr(name + kBefore.size(), value - name - kBefore.size()));
  const std::string_view given = message.substr(value + kBetween.size());
  const CLI::Option* const option = app.get_option_no_throw(flag);
  const std::string type = option ? option->get_type_name() : "";
  const bool digits = given.find_first_not_of("0123456789", given.starts_with('-')) == std::string_view::npos;
  std::string problem = type.starts_with("FLOAT") ? "not a number" : "not a whole number";
  if (digits) problem = given.starts_with('-') ? "too small" : "too large";
  return cat(flag, ": '", shortened(given, kMostOfInput), "' is ", problem);
}

// An empty value is most often a shell variable that is not set; nothing that kith takes may be empty.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() == 0) continue;  // a flag
    const auto problem = [](const std::string& value) {
      return value.empty() ? std::string("an empty value (give one, or leave it out)") : std::string();
    };
    option->transform(CLI::Validator(problem, ""));  // not check: it comes before the others
  }
  for (CLI::App* command : app.get_subcommands({}))
    refuse_empty_values(*command);
}

// CLI11 takes the word after "--out=" for its value, so that becomes the two words "--out" and "". What
// follows the words of a command that runs another one is not ours.
std::vector<std::string> words_of(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words;
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool flag = word.starts_with("--") && word.size() > 2;
    const CLI::Option* const option =
        flag ? command->get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
    if (option == nullptr && command->get_prefix_command()) {  // the other command begins
      words.insert(words.end(), argv + i, argv + argc);
      break;
    }
    if (option != nullptr && word.ends_with('=') && word.find('=') + 1 == word.size()) {
      words.insert(words.end(), {word.substr(0, word.size() - 1), ""});
      continue;
    }
    words.push_back(word);
    const bool value_follows =
        option != nullptr && option->get_items_expected_min() > 0 && word.find('=') == word.npos;
    if (value_follows && i + 1 < argc) words.emplace_back(argv[++i]);
    for (const CLI::App* const named : command->get_subcommands({}))
      if (named->get_name() == word) command = named;
  }
  std::ranges::reverse(words);  // as CLI11 takes them
  return words;
}

int report(const CLI::App& app, std::string_view problem, int code) {
  std::cerr << full_name(reached(app)) << ": " << problem << "\n";
  return code;
}

}  // namespace

void outlive_readers() {
  ::signal(SIGPIPE, SIG_IGN);
}

bool nobody_reads(int fd) {
  pollfd file{fd, 0, 0};
  return ::poll(&file, 1, 0) == 1 && (file.revents & POLLERR) != 0;
}

int run(CLI::App& app, int argc, const char* const* argv) {
  refuse_empty_values(app);
  try {
    app.parse(words_of(app, argc, argv));
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
  } catch (const CLI::ConversionError& error) {
    return report(app, describe_conversion(reached(app), error.what()), kBadInput);
  } catch (const CLI::ArgumentMismatch& error) {  // "--svg: 1 required TEXT missing"
    const std::string_view message = error.what();
    return report(app, cat(message.substr(0, message.find(": ")), ": no value is given"), kBadInput);
  } catch (const CLI::ParseError& error) {
    return report(app, shortened(error.what(), kMostOfInput), kBadInput);
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

int run_and_flush(CLI::App& app, int argc, const char* const* argv) {
  const int code = run(app, argc, argv);
  const bool written = std::fflush(stdout) == 0 && std::cout.flush();
  if (code == 0 && !written && !nobody_reads(STDOUT_FILENO)) {
    std::cerr << "kith: cannot write to standard output\n";
    return kFailed;
  }
  return code;
}

}  // namespace kith::cli
