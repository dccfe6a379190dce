#pragma once

#include <memory>

#include <torch/types.h>

#include "kith/engine/world_parts.h"
#include "kith/train/config/job.h"

namespace kith::train {

class Model;   // kith/train/models/model.h
struct Batch;  // kith/train/data/dataset.h

// How a job's model computes, for whoever runs it: training and profiling.

// How many GPUs there are. InputError, for a job that asks for one, when there is none.
int gpus_here();

// Where this worker's model lies: the workers of a machine take its GPUs in turn. InputError when the job
// wants a GPU and there is none.
torch::Device device_for(const Job& job, const engine::WorldParts& world);
std::shared_ptr<Model> model_on(torch::Device device, const Job& job);

// Forward in the job's precision, and the loss. The batch lies where the model does.
torch::Tensor loss_of(const Job& job, Model& model, const Batch& batch);

// Returns when the device has done what it was given; at once for a CPU.
void wait_for(torch::Device device);

}  // namespace kith::train
