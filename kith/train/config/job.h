#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kith/graph/shape.h"
#include "kith/train/options.h"

namespace kith::train {

// Everything a training run is told. The values here are the defaults, those of a model's Options where they
// have the key too; schema.h documents every key and ties it to its member. Torch-free.
struct Job {
  struct {
    std::int64_t workers = 4;
    std::string nodes;  // empty: one node
    std::string backend = "automatic";
    std::string device = "cpu";
    std::int64_t compute_threads = 1;
    std::string on_lost = "reform";
    std::int64_t least = 1;
    std::int64_t leave_out_slow = 0;  // evaluations in a row; 0: never
  } world;
  struct {
    std::string preset = "none";
    std::string name = "gpt";
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t width = 256;
    std::int64_t feed_forward = 0;  // 0: four times the width
    std::int64_t context = 64;
    std::int64_t vocabulary = 256;
    bool bias = true;
    std::string gelu = "exact";
    double dropout = 0;
    std::int64_t classes = 10;
    std::string stem = "large";
    bool channels_last = true;
    std::string weights;  // empty: drawn
    std::string buffers = "averaged";
  } model;
  struct {
    std::string name = "text";
    std::string path;  // empty: the text shipped with kith; for mnist where `kith data mnist` puts it
    double validation = 0.1;
    std::string augment = "none";
    std::int64_t image_size = 224;
    std::int64_t threads = 1;
    std::int64_t batch_tokens = 4096;
  } data;
  struct {
    std::int64_t steps = 300;
    std::int64_t epochs = 0;  // 0: `steps` decides
    double seconds = 0;       // 0: `steps` or `epochs` decide
    std::int64_t batch = 4;
    std::int64_t accumulate = 1;
    std::string precision = "fp32";
    std::string graph = "automatic";
    double label_smoothing = 0;
    double clip = 1;  // 0: off
    std::string non_finite = "skip";
    std::int64_t eval_every = 75;
    std::int64_t eval_samples = 128;
    std::int64_t seed = 1;
  } train;
  struct {
    std::string name = default_options().algorithm;
    std::string inside = default_options().inside;
    std::int64_t mix_every = default_options().mix_every;
    std::string trigger = default_options().trigger;
    std::string control = default_options().control;
    std::int64_t rounds = default_options().method.rounds;
    std::string order = std::string(optim::name_of(default_options().method.order));
    double outer_momentum = -1;  // the method's own
    double outer_rate = default_options().method.outer_rate;
    double outer_pull = -1;  // the method's own
    bool stagger = default_options().stagger;
    double patience_seconds = 0;  // by what steps take
  } algorithm;
  struct {
    std::string name = default_options().optimizer;
    double weight_decay = default_options().weight_decay;
    double momentum = default_options().momentum;
    double dampening = default_options().dampening;
    bool nesterov = default_options().nesterov;
    double beta1 = default_options().beta1;
    double beta2 = default_options().beta2;
    double eps = default_options().eps;
    std::int64_t commit_every = default_options().commit_every;
    std::int64_t noise_every = 8;  // 0: never
  } optimizer;
  struct {
    std::string curve = "cosine";
    double lr = default_options().lr;
    std::int64_t warmup = -1;  // a tenth of the steps
    double final_fraction = 0.1;
    std::int64_t every = 100;
    double factor = 0.1;
    std::string on_view = "keep";
  } rate;
  struct {
    std::string name = default_options().topology;
    std::int64_t seed = static_cast<std::int64_t>(default_options().topology_seed);
    std::int64_t degree = default_options().degree;
    double edge_probability = default_options().edge_probability;
    std::int64_t centres = default_options().centres;
    std::string file;
  } topology;
  struct {
    std::string type = "full";
    std::string codec = default_options().codec;
    double consensus_step = default_options().consensus_step;
    std::string bucket = "25MiB";
    std::string layout = "automatic";
  } wire;
  struct {
    std::int64_t every = 0;  // steps; 0: not by steps
    double minutes = 10;     // 0: not by time
    std::int64_t keep = 2;
    double sigterm_seconds = 25;
  } checkpoint;
  struct {
    std::string name = "train";
    std::string folder = "runs";
    std::int64_t log_every = 10;
    bool trace = false;
  } output;
};

// Where each value came from: key -> "job.toml:12" or "--set". Keys that nobody set are absent.
using Origins = std::map<std::string, std::string, std::less<>>;

// "job.toml:12: optimizer.name", or "optimizer.name (default)" for a key that nobody set.
std::string place_of(const Origins& origins, std::string_view key);

// Checks what one key alone cannot tell: values that contradict each other. InputError names a key and its
// place. Ranges and choices of single keys are the reader's business (read_job).
void check_combinations(const Job& job, const Origins& origins);

// Colours of a pixel of the job's images.
std::int64_t image_channels(const Job& job);
// Of a transformer block.
std::int64_t hidden_width(const Job& job);

graph::Shape shape_of(const Job& job);
// Whether its workers average models by the rounds of a topology.
bool averages_models(const Job& job);
// Whether forward and backward passes are recorded and repeated, where the LibTorch at hand can (Note
// [Recorded passes] in gradient_graphs.h).
bool records_passes(const Job& job);
// Of a run of `steps`.
std::int64_t warmup_steps(const Job& job, std::int64_t steps);
// How the job trains its model; the groups and where it goes on from are the trainer's business.
Options options_of(const Job& job);

}  // namespace kith::train
