#pragma once

#include <string>
#include <string_view>

namespace kith {

enum class LogLevel { debug, info, warning, error };

// Where log lines go. Passed in option structs (there is no global logger); safe from any thread.
class Log {
 public:
  virtual ~Log() = default;
  virtual void write(LogLevel level, std::string_view line) = 0;

  void debug(std::string_view line) { write(LogLevel::debug, line); }
  void info(std::string_view line) { write(LogLevel::info, line); }
  void warning(std::string_view line) { write(LogLevel::warning, line); }
  void error(std::string_view line) { write(LogLevel::error, line); }
};

class NullLog final : public Log {
 public:
  void write(LogLevel, std::string_view) override {}
};

// Lines on standard error: "PREFIX warning: line". Each line is one write, so that processes do not
// interleave.
class StderrLog final : public Log {
 public:
  explicit StderrLog(std::string prefix = "kith", LogLevel least = LogLevel::info);
  void write(LogLevel level, std::string_view line) override;

 private:
  const std::string prefix_;
  const LogLevel least_;
};

}  // namespace kith
