#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/assignment_flags.h"
#include "cli/commands.h"
#include "cli/data_folders.h"
#include "cli/local_workers.h"
#include "cli/placement.h"
#include "cli/room.h"
#include "cli/run.h"
#include "cli/training.h"
#include "kith/base/error.h"
#include "kith/base/log.h"
#include "kith/base/text.h"
#include "kith/gossip/link_probe.h"
#include "kith/launch/join.h"
#include "kith/plan/measured.h"
#include "kith/plan/units.h"
#include "kith/train/config/read.h"
#include "kith/train/data/dataset.h"
#include "kith/train/run/local.h"
#include "kith/train/run/profiler.h"

namespace kith::cli {
namespace {

struct ProfileFlags {
  std::string config;
  std::vector<std::string> sets;
  std::optional<int> workers;
  int steps = 40;
  double link_seconds = 1;
  std::string out = "profile.json";
  launch::AssignmentFlags assignment;
};

train::Job job_of(const ProfileFlags& flags) {
  std::vector<train::Setting> settings;
  for (const std::string& set : flags.sets)
    settings.push_back({set, "--set"});
  if (flags.workers) settings.push_back({cat("world.workers=", *flags.workers), "--workers"});
  return train::read_job({.file = flags.config, .settings = settings}).job;
}

std::optional<sim::Link> link_of(const std::optional<gossip::LinkTimes>& times) {
  if (!times) return std::nullopt;
  return sim::Link{times->latency_s, times->bytes_per_s};
}

void print_link(const char* name, const std::optional<sim::Link>& link) {
  if (!link) return;
  std::printf("%-16s %s, %s\n", name, plan::human_seconds(link->latency_s).c_str(),
              plan::human_rate(link->bytes_per_s).c_str());
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return sum / static_cast<double>(values.size());
}

void print(const plan::Measured& measured, const std::string& file) {
  double backward = 0, step = 0, bytes = 0;
  for (const plan::MeasuredBucket& bucket : measured.buckets) {
    backward += mean(bucket.backward_s);
    step += mean(bucket.step_s);
    bytes += bucket.bytes;
  }
  std::printf("workers          %d on nodes of %s\n", measured.nodes.workers(),
              measured.nodes.text().c_str());
  std::printf("model            %s in %zu buckets\n", human_bytes(bytes).c_str(), measured.buckets.size());
  std::printf("forward          %s\n", plan::human_seconds(mean(measured.forward_s)).c_str());
  std::printf("backward         %s\n", plan::human_seconds(backward).c_str());
  std::printf("mix and step     %s\n", plan::human_seconds(step).c_str());
  std::printf("batches vary by  %.1f%%\n", 100 * measured.batch_cv);
  const std::vector<double> slowness = plan::slowness_of(measured);
  if (slowness.empty()) {
    std::printf("workers          equally fast\n");
  } else {
    const auto slowest = std::max_element(slowness.begin(), slowness.end());
    const auto fastest = std::min_element(slowness.begin(), slowness.end());
    std::printf("slowest worker   %td takes %.2f times as long as the fastest, %td\n",
                slowest - slowness.begin(), *slowest / *fastest, fastest - slowness.begin());
  }
  print_link("inside a node", measured.inside);
  print_link("between nodes", measured.between);
  if (measured.nic_bytes_per_s)
    std::printf("a node's NIC     %s\n", plan::human_rate(*measured.nic_bytes_per_s).c_str());
  if (measured.message_s_per_byte > 0) {
    std::printf("messages         slow computing down by %s a megabyte\n",
                plan::human_seconds(measured.message_s_per_byte * 1e6).c_str());
  }
  std::printf("memory           %s for each worker\n", plan::human_rate(measured.memory_bytes_per_s).c_str());
  std::printf("profile: %s\nnext: kith plan --profile %s\n", file.c_str(), file.c_str());
}

void profile_as_worker(const ProfileFlags& flags, const launch::Assignment& assignment) {
  train::Job job = job_of(flags);
  job.world.workers = assignment.workers;
  StderrLog log(cat("worker ", assignment.worker), LogLevel::warning);
  const launch::World world =
      launch::join(assignment, {.facts = {{"steps", std::to_string(flags.steps)}}, .log = &log});
  job.world.nodes = nodes_of(world.transport());
  const auto dataset = train::open_dataset(job, data_folders());

  gossip::LinkProbeOptions probing;
  probing.duration =
      std::chrono::duration_cast<Clock::Duration>(std::chrono::duration<double>(flags.link_seconds));
  const gossip::LinkReport links =
      gossip::probe_links(world.transport(), world.members(), world.clock(), probing);
  plan::Measured measured;
  measured.memory_bytes_per_s =
      gossip::probe_memory(world.transport(), world.members(), world.clock(), probing);
  const train::JobTimes times =
      train::profile_job(job, *dataset, engine::seen_by_engine(world), {.steps = flags.steps, .warm_up = 5});
  if (assignment.worker != 0) return;

  measured.name = job.output.name;
  measured.about = cat(job.model.name, " at batch ", job.train.batch, " in ", job.train.precision, " on ",
                       job.world.device, ", measured by kith profile");
  measured.nodes = job.world.nodes.empty() ? graph::Shape::single_node(assignment.workers)
                                           : graph::Shape::parse(job.world.nodes, "placement");
  measured.forward_s = times.forward_s;
  measured.batch_cv = times.batch_cv;
  measured.compute_s = times.compute_s;
  for (const train::BucketTimes& bucket : times.buckets)
    measured.buckets.push_back({bucket.bytes, bucket.backward_s, bucket.step_s});
  measured.message_s_per_byte = times.message_s_per_byte;
  measured.inside = link_of(links.inside);
  measured.between = link_of(links.between);
  measured.nic_bytes_per_s = links.nic_bytes_per_s;
  std::ofstream file(flags.out);
  file << plan::profile_json(measured);
  if (!file.flush()) throw Error("cannot be written", flags.out, "is the folder there and writable?");
  print(measured, flags.out);
}

void run_profile(const ProfileFlags& flags) {
  launch::AssignmentFlags assignment_flags = flags.assignment;
  if (assignment_flags.worker) assignment_flags.workers = flags.workers;
  const launch::Assignment assignment = launch::discover(launch::read_environment(), assignment_flags);
  if (assignment.assigned()) return profile_as_worker(flags, assignment);

  const train::Job job = job_of(flags);
  // What is wrong with the job is found before anybody is started.
  train::check_machine(job, static_cast<int>(job.world.workers));
  train::open_dataset(job, data_folders());
  require_room(static_cast<int>(job.world.workers), kTrainingWorker, room_here(), "world.workers");
  std::vector<std::string> arguments{"profile"};
  if (!flags.config.empty()) arguments.push_back(flags.config);
  for (const std::string& set : flags.sets)
    arguments.insert(arguments.end(), {"--set", set});
  arguments.insert(arguments.end(),
                   {"--workers", std::to_string(job.world.workers), "--steps", std::to_string(flags.steps),
                    "--link-seconds", cat(flags.link_seconds), "--out", flags.out});
  if (const int code = run_local_workers(static_cast<int>(job.world.workers), arguments))
    throw ExitCode{code};
}

}  // namespace

void add_profile(CLI::App& app) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand("profile", kProfileSummary);
  command->add_option("config", flags->config, "TOML file of the job, as for kith train");
  command->add_option("--set", flags->sets, "KEY=VALUE over the file; repeatable")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--workers", flags->workers, "how many workers (world.workers)");
  command->add_option("--steps", flags->steps, "steps to measure")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--link-seconds", flags->link_seconds, "how long each link is measured")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  command->add_option("--out", flags->out, "the profile")->capture_default_str();
  add_assignment_flags(*command, flags->assignment);
  command->callback([flags] {
    outlive_readers();
    run_profile(*flags);
  });
}

}  // namespace kith::cli
