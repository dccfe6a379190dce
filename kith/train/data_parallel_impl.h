#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kith/train/buffer_mean.h"
#include "kith/train/checkpoint_folder.h"
#include "kith/train/compat.h"
#include "kith/train/data_parallel.h"
#include "kith/train/model_device.h"
#include "kith/train/noise_meter.h"
#include "kith/train/parameter_state.h"
#include "kith/train/parameter_table.h"

namespace kith::train {

// Six sources: data_parallel_impl.cc builds, data_parallel_step.cc steps, data_parallel_guards.cc averages
// and edits, data_parallel_state.cc saves, data_parallel_resume.cc goes on, data_parallel_newcomer.cc comes
// and leaves.
class DecentralizedDataParallel::Impl {
 public:
  Impl(std::shared_ptr<torch::nn::Module> module, const engine::WorldParts& world, Options options);
  ~Impl();

  StepReport step(const StepOptions& step_options);
  StepReport step(torch::optim::Optimizer& optimizer, const StepOptions& step_options);
  void sync_gradients();
  void measure_noise(double share);
  double rate_factor(const std::string& parameter);
  void attach(torch::optim::Optimizer& optimizer);
  double begin_average();  // returns the consensus distance
  void end_average();
  void begin_edit();
  void end_edit();
  void barrier(const char* what);
  double consensus_distance();
  std::vector<double> gather(double value);
  std::vector<StateBlock> state();
  std::string run_id();
  std::uint64_t agreement_number();
  void finish();
  void require_free(const char* what) const;

  const std::shared_ptr<torch::nn::Module> module_;
  engine::WorldParts world_;  // with the members of the view
  const Options options_;
  const engine::EngineOptions engine_options_;
  std::vector<ParameterGroup> groups_;
  std::optional<double> max_norm_;  // for the next step
  std::optional<Resumed> resumed_;
  std::function<std::vector<std::byte>()> position_;  // of the data, for newcomers
  bool joined_ = false;
  int no_sync_depth_ = 0;
  bool averaging_ = false;
  bool editing_ = false;
  std::unique_ptr<ParameterTable> table_;
  std::unique_ptr<ModelDevice> device_;
  NoiseMeter noise_;
  const bool corrects_noise_;  // where noise makes steps shorter than all-reduce's
  engine::Cut cut_;            // of the checkpoint that this run goes on from
  std::string run_;            // empty until somebody asks
  std::unique_ptr<engine::Engine> engine_;

 private:
  void build_engine();
  void make_groups();
  // Besides the engine's state, for newcomers; and what one of them does with it.
  std::vector<std::byte> given_along();
  void take_along(const engine::Joined& joined);
  void resume_from(const std::filesystem::path& folder);
  std::vector<engine::StateSpan> engine_state();
  // REQUIRES: a span of engine_state().
  static bool is_model(const engine::StateSpan& span) {
    return span.name.find("/model") != std::string::npos;
  }
  std::vector<StateTensor> engine_tensors();

  // What other workers go on from: sums over the files by tensor, and worker 0's file for the rest.
  struct Merged {
    WorkerFile first;
    std::map<std::string, std::vector<double>> sums;
    std::map<std::string, std::int64_t> largest;
    int workers = 0;
  };
  // Everything that can be wrong with the files is found here, before anything is changed.
  void require_fits(const WorkerFile& file, bool same_workers);
  void require_sound(const WorkerFile& file, const StateBlock& block, bool same_workers) const;
  WorkerFile read_own_file(const std::filesystem::path& folder, const Manifest& manifest);
  Merged merge_files(const std::filesystem::path& folder, const Manifest& manifest);
  void take_state(const WorkerFile& file);
  void take_merged(const Merged& merged);
  void take_groups(const WorkerFile& file);
  void note_resumed(const WorkerFile& file, int workers);
  void say_what_is_not_kept(int workers);
  void find_places();
  void point_at_engine();
  // After the engine may have moved to another view, with the parameters.
  void follow_view();
  // What `operation` of the engine returns or throws; then follows.
  template <class Operation>
  auto followed(const Operation& operation) {
    struct Follow {
      Impl& impl;
      ~Follow() { impl.follow_view(); }
    };
    const Follow follow{*this};
    return operation();
  }
  void release_to_torch();
  void hook_gradients();
  void gradient_arrived(std::size_t i);
  bool reduces() const { return engine::averages_gradients(engine_options_); }
  bool noise_shortens_steps() const;
  // The workers of a node that is one model step by the same rates.
  NoiseMeter::Agree agree_inside();
  int workers_of_node() const;  // that average gradients
  void collect_noise();
  double rate_factor(std::size_t i);
  engine::SegmentInput input(std::size_t i);
  std::vector<engine::SegmentInput> inputs();
  void require_steppable();
  // What clipping, scaling and NonFinite::skip do to gradients that an optimizer of one's own will read.
  struct Prepared {
    std::shared_future<double> norm;
    bool skip = false;
  };
  Prepared prepare_gradients(const StepOptions& step_options);
  StepReport finish_step(StepReport report);

  std::vector<std::size_t> group_of_;               // entry -> group
  std::vector<std::vector<torch::Tensor>> places_;  // entry -> flat tensors over the places it can lie in
  std::vector<bool> in_window_;                     // entry -> its places are the engine's memory
  std::vector<torch::Tensor> gradients_;  // of the step under way; the engine reads them in the background
  std::vector<bool> arrived_;             // all-reduce: handed over during backward
  bool synced_ = false;                   // all-reduce: the gradients are the means
  std::uint32_t noise_view_ = 0;          // in which the measured noise has been agreed on
  torch::optim::Optimizer* attached_ = nullptr;
  std::unique_ptr<BufferMean> buffer_mean_;                   // null when the buffers stay local
  std::vector<std::unique_ptr<compat::GradientHook>> hooks_;  // all-reduce: per entry, null while frozen
  int edits_ = 0;
};

}  // namespace kith::train
