#include "cli/plan_report.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "kith/base/text.h"
#include "kith/plan/plan_file.h"
#include "kith/plan/units.h"

namespace kith::cli {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

void print_row(std::ostream& out, const plan::Prediction& p, bool chosen) {
  const std::string range = format("%.1f-%.1f", p.time.low_s * 1e3, p.time.high_s * 1e3);
  const std::string steps =
      p.steps.known ? format("%s%.2f", p.steps.measured ? "" : "~", p.steps.factor) : "?";
  const std::string to_loss = p.steps.known ? format("%.2fx", p.speed_up / p.steps.factor) : "?";
  out << format("%c %-42s %8.1f %13s %7.2fx %7s %8s %6.0f%% %10s %11.3f %5d\n", chosen ? '*' : ' ',
                p.candidate.text().c_str(), p.time.iteration_s * 1e3, range.c_str(), p.speed_up,
                steps.c_str(), to_loss.c_str(), 100 * p.time.hidden, human_bytes(p.time.nic_bytes).c_str(),
                p.quality.contraction, p.quality.staleness);
}

nlohmann::ordered_json candidate_json(const plan::Prediction& p) {
  return {{"method", p.candidate.all_reduce() ? "all-reduce" : "mix"},
          {"topology", p.candidate.topology},
          {"collective", std::string(sim::name_of(p.candidate.collective))},
          {"wire", std::string(name_of(p.candidate.wire))},
          {"bucket_bytes", p.candidate.bucket_bytes},
          {"every", p.candidate.every},
          {"codec", p.candidate.codec},
          {"outer", p.candidate.outer},
          {"iteration_ms", p.time.iteration_s * 1e3},
          {"low_ms", p.time.low_s * 1e3},
          {"high_ms", p.time.high_s * 1e3},
          {"speed_up", p.speed_up},
          {"steps_factor",
           {{"factor", p.steps.factor},
            {"low", p.steps.low},
            {"high", p.steps.high},
            {"measured", p.steps.measured},
            {"known", p.steps.known}}},
          {"speed_up_to_loss",
           p.steps.known ? nlohmann::ordered_json(p.speed_up / p.steps.factor) : nlohmann::ordered_json()},
          {"hidden", p.time.hidden},
          {"nic_bytes", p.time.nic_bytes},
          {"contraction", p.quality.contraction},
          {"staleness", p.quality.staleness}};
}

// Where the steps come from.
void print_sources(std::ostream& out) {
  out << "Steps for the loss of all-reduce, over all-reduce's, as measured:\n";
  for (const plan::MeasuredFactor& row : plan::measured_factors()) {
    const plan::StepsFactor steps{row.factor, row.low, row.high, true};
    out << "  " << row.topology << ", " << row.workers << " workers, " << row.steps << " steps, "
        << row.method << ": " << plan::text_of(steps) << " (" << row.source << ")\n";
  }
}

}  // namespace

void print_plan(std::ostream& out, const PlanReport& report) {
  const plan::Profile& profile = report.profile;
  out << profile.name << ": " << profile.nodes.workers() << " workers on nodes of " << profile.nodes.text()
      << ", NIC " << plan::human_rate(profile.network.nic_bytes_per_s) << ", model "
      << human_bytes(profile.job.bytes()) << " in " << profile.job.buckets.size() << " buckets, compute "
      << plan::human_seconds(profile.job.compute_s()) << "\n\n";
  out << format("  %-42s %8s %13s %8s %7s %8s %7s %10s %11s %5s\n", "candidate", "ms", "5-95%", "speed-up",
                "steps", "to loss", "hidden", "NIC/iter", "contraction", "stale");
  const plan::Candidate& choice = report.recommendation.choice.candidate;
  for (const plan::Prediction& p : report.predictions) {
    if (p.candidate.as_profiled()) print_row(out, p, p.candidate == choice);
  }
  out << "  variations\n";
  for (const plan::Prediction& p : report.predictions) {
    const bool related =
        p.candidate.all_reduce() || !p.candidate.outer.empty() || p.candidate.topology == choice.topology;
    if (!p.candidate.as_profiled() && related) print_row(out, p, p.candidate == choice);
  }
  out << "\nRecommended: " << report.recommendation.choice.candidate.text() << ". "
      << report.recommendation.reason << "\n";
  if (!report.recommendation.remark.empty()) out << report.recommendation.remark << "\n";
  print_sources(out);
  out << "What would change the answer:\n";
  for (const std::string& sentence : report.outlook)
    out << "  " << sentence << "\n";
}

nlohmann::ordered_json to_json(const PlanReport& report) {
  nlohmann::ordered_json json;
  json["profile"] = report.profile.name;
  json["workers"] = report.profile.nodes.workers();
  for (int node = 0; node < report.profile.nodes.nodes(); ++node)
    json["nodes"].push_back(report.profile.nodes.size_of(node));
  json["recommended"] = candidate_json(report.recommendation.choice);
  json["reason"] = report.recommendation.reason;
  json["remark"] = report.recommendation.remark;
  json["outlook"] = report.outlook;
  json["plan_toml"] = plan_toml(report.profile, report.recommendation);
  for (const plan::Prediction& p : report.predictions)
    json["candidates"].push_back(candidate_json(p));
  return json;
}

void print_why(std::ostream& out, const plan::Why& why) {
  const double base = why.all_reduce.time.iteration_s;
  const auto line = [&](const char* what, double seconds) {
    out << format("  %-58s %8.1f ms %+8.1f ms %6.2fx\n", what, seconds * 1e3, (seconds - base) * 1e3,
                  base / seconds);
  };
  out << "\nWhy " << why.mixing.candidate.text() << ": each factor alone, from all-reduce\n";
  line("all-reduce", base);
  line("overlap: a whole iteration to travel in", why.overlap_s);
  line("topology: its rounds instead of everybody with everybody", why.topology_s);
  line("straggling: waiting only for whom one meets", why.straggling_s);
  out << format("  %-58s %11s %+8.1f ms\n", "the three together, beyond their sum", "",
                why.together_s() * 1e3);
  line(why.mixing.candidate.text().c_str(), why.mixing.time.iteration_s);
}

nlohmann::ordered_json to_json(const plan::Why& why) {
  return {{"all_reduce_ms", why.all_reduce.time.iteration_s * 1e3},
          {"overlap_alone_ms", why.overlap_s * 1e3},
          {"topology_alone_ms", why.topology_s * 1e3},
          {"straggling_alone_ms", why.straggling_s * 1e3},
          {"beyond_their_sum_ms", why.together_s() * 1e3},
          {"candidate", candidate_json(why.mixing)}};
}

void print_map(std::ostream& out, const plan::Map& map) {
  out << "speed-up of the best topology over all-reduce; " << name_of(map.across.swept) << " across, "
      << name_of(map.down.swept) << " down\n"
      << format("%14s", "");
  for (const std::string& label : map.across.labels)
    out << format(" %13s", label.c_str());
  out << "\n";
  for (std::size_t row = 0; row < map.down.values.size(); ++row) {
    out << format("%14s", map.down.labels[row].c_str());
    for (std::size_t column = 0; column < map.across.values.size(); ++column) {
      const plan::Cell& cell = map.cell(row, column);
      out << format(" %8.2fx %-4s", cell.speed_up, cell.topology.c_str());
    }
    out << "\n";
  }
}

nlohmann::ordered_json to_json(const plan::Map& map) {
  nlohmann::ordered_json json{{"across", std::string(name_of(map.across.swept))},
                              {"across_values", map.across.values},
                              {"down", std::string(name_of(map.down.swept))},
                              {"down_values", map.down.values}};
  for (const plan::Cell& cell : map.cells) {
    json["cells"].push_back({{"speed_up", cell.speed_up},
                             {"topology", cell.topology},
                             {"all_reduce_ms", cell.all_reduce_s * 1e3},
                             {"mix_ms", cell.mixing_s * 1e3}});
  }
  return json;
}

}  // namespace kith::cli
