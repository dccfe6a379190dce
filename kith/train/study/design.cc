#include "kith/train/study/design.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/config/read.h"
#include "kith/train/study/grid.h"
#include "kith/train/study/toml_axes.h"

namespace kith::train::study {
namespace {

const std::vector<std::string> kSections{"study", "common", "tune", "methods"};
const std::vector<std::string> kStudyKeys{"job", "baseline", "steps", "seeds"};

// Keys that a study decides itself, and how.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNotYours{{
    {"train.seed", "write study.seeds, and tune.seeds"},
    {"train.epochs", "a study counts in train.steps"},
    {"train.seconds", "a study counts in train.steps"},
    {"output.folder", "use --out"},
}};

std::int64_t integer(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const toml::table& table_at(const toml::node& node, const std::string& name,
                            const std::filesystem::path& file) {
  if (const auto* table = node.as_table()) return *table;
  throw InputError("is no section", cat(place_of(node, file), ": ", name), cat("write [", name, "]"));
}

std::string text_at(const toml::node& node, const std::string& place) {
  if (const auto* text = node.as_string(); text != nullptr && !text->get().empty()) return text->get();
  throw InputError("is no text", place, "write it in quotes");
}

void refuse_keys_of_the_study(const std::vector<Axis>& axes) {
  for (const Axis& axis : axes) {
    const auto found = std::ranges::find(kNotYours, axis.key, &decltype(kNotYours)::value_type::first);
    if (found != kNotYours.end())
      throw InputError("the study sets it itself", cat(axis.place, ": ", axis.key), found->second);
  }
}

void read_study_section(Design& design, const toml::table& table) {
  for (const auto& [name, node] : in_order(table)) {
    const std::string place = cat(place_of(*node, design.file), ": study.", name);
    if (name == "job") {
      design.job = (std::filesystem::absolute(design.file).parent_path() / text_at(*node, place))
                       .lexically_normal()
                       .string();
    } else if (name == "baseline") {
      design.baseline = text_at(*node, place);
    } else if (name == "steps") {
      const auto* steps = node->as_integer();
      if (steps == nullptr || steps->get() < 1)
        throw InputError("is no number of steps", place, "for example 3000");
      design.steps = steps->get();
    } else if (name == "seeds") {
      design.seeds = integers_of(*node, place);
    } else {
      throw InputError("there is no such key", place, suggest(name, kStudyKeys));
    }
  }
}

// The axes of a [tune], without what is not tuned: its seeds, its length.
std::vector<Axis> read_tune_section(Design& design, const toml::table& table) {
  if (const toml::node* seeds = table.get("seeds")) {
    design.tuning_seeds = integers_of(*seeds, cat(place_of(*seeds, design.file), ": tune.seeds"));
  }
  std::vector<Axis> axes = axes_of(table, design.file, "seeds");
  refuse_keys_of_the_study(axes);
  const auto steps = std::ranges::find(axes, kSteps, &Axis::key);
  if (steps != axes.end()) {
    if (steps->values.size() > 1)
      throw InputError("several lengths to tune at", cat(steps->place, ": tune.", kSteps), "give one");
    design.tuning_steps = integer(steps->values.front());
    axes.erase(steps);
  }
  return axes;
}

Method read_method(const std::string& name, const toml::table& table, const Design& design,
                   const std::vector<Axis>& tuned) {
  Method method{.name = name, .settings = {}, .tuned = tuned};
  if (const toml::node* own = table.get("tune")) {
    const auto axes = axes_of(table_at(*own, cat("methods.", name, ".tune"), design.file), design.file);
    refuse_keys_of_the_study(axes);
    for (const Axis& axis : axes) {
      const auto shared = std::ranges::find(method.tuned, axis.key, &Axis::key);
      if (shared != method.tuned.end()) {
        *shared = axis;
      } else {
        method.tuned.push_back(axis);
      }
    }
  }
  method.settings = axes_of(table, design.file, "tune");
  refuse_keys_of_the_study(method.settings);
  return method;
}

toml::table parse(const std::filesystem::path& file) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(file, problem))
    throw InputError("no such file", file.string(), "docs/study.md has one to start from");
  try {
    return toml::parse_file(file.string());
  } catch (const toml::parse_error& error) {
    throw InputError(cat("not TOML: ", error.description()),
                     cat(file.string(), ":", error.source().begin.line));
  }
}

void check_baseline(const Design& design) {
  std::vector<std::string> names;
  for (const Method& method : design.methods)
    names.push_back(method.name);
  const std::string place = cat(design.file.string(), ": study.baseline");
  if (names.empty())
    throw InputError("there is no method", design.file.string(), "write [methods.NAME] sections");
  if (design.baseline.empty()) throw InputError("no method is named", place, cat("one of: ", join(names)));
  if (std::ranges::find(names, design.baseline) == names.end())
    throw InputError(cat("there is no method '", design.baseline, "'"), place,
                     suggest(design.baseline, names));
  for (const Axis& axis : design.method(design.baseline).settings) {
    if (axis.values.size() > 1 && axis.key != kSteps)
      throw InputError("the baseline would be several", cat(axis.place, ": ", axis.key),
                       "one value, or an axis of [common]");
  }
}

// Every value that a run could get, as `kith train` reads it.
void check_runs(const Design& design) {
  const std::vector<Cell> cells = cells_of(design);
  for (const Cell& cell : cells) {
    std::vector<Run> runs = tuning_runs(design, cell);
    const auto measuring = measuring_runs(design, cell, cell.first_choice());
    runs.insert(runs.end(), measuring.begin(), measuring.end());
    for (const Run& run : runs)
      read_job({.file = design.job, .settings = run.settings});
  }
}

std::vector<std::int64_t> baseline_lengths(const Design& design) {
  for (const Cell& cell : cells_of(design)) {
    if (cell.method == design.baseline) return cell.lengths;
  }
  KITH_CHECK(false, "the baseline is a method");
  return {};
}

}  // namespace

const Method& Design::method(const std::string& name) const {
  const auto found = std::ranges::find(methods, name, &Method::name);
  KITH_CHECK(found != methods.end(), "no such method");
  return *found;
}

Design read_design(const std::filesystem::path& file) {
  Design design;
  design.file = file;
  const toml::table table = parse(file);
  for (const auto& [name, node] : in_order(table)) {
    if (std::ranges::find(kSections, name) == kSections.end())
      throw InputError("there is no such section", cat(place_of(*node, file), ": ", name),
                       suggest(name, kSections));
  }
  const toml::table absent;
  const auto section = [&](const char* name) -> const toml::table& {
    const toml::node* node = table.get(name);
    return node != nullptr ? table_at(*node, name, file) : absent;
  };
  read_study_section(design, section("study"));
  if (design.seeds.empty())
    throw InputError("there are no seeds", cat(file.string(), ": study.seeds"), "for example [1, 2, 3]");
  design.common = axes_of(section("common"), file);
  refuse_keys_of_the_study(design.common);
  const std::vector<Axis> tuned = read_tune_section(design, section("tune"));
  if (design.tuning_seeds.empty()) design.tuning_seeds = design.seeds;
  const toml::table& methods = section("methods");
  for (const auto& [name, node] : in_order(methods))
    design.methods.push_back(read_method(name, table_at(*node, cat("methods.", name), file), design, tuned));
  check_baseline(design);
  const std::vector<std::int64_t> lengths = baseline_lengths(design);
  if (design.steps == 0) design.steps = *std::ranges::min_element(lengths);
  if (std::ranges::find(lengths, design.steps) == lengths.end())
    throw InputError(cat("the baseline has no runs of ", design.steps, " steps"),
                     cat(file.string(), ": study.steps"), cat("one of its ", kSteps));
  if (design.tuning_steps == 0) design.tuning_steps = design.steps;
  check_runs(design);
  return design;
}

}  // namespace kith::train::study
