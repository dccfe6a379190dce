#pragma once

// All that a program of one's own needs: one world, one wrapper around the model, checkpoints and exports.
// Link kith::train. docs/training.md is the page to it, examples/ has whole programs.
//
//   kith::World world = kith::join();
//   kith::DecentralizedDataParallel model(net.ptr(), world, {.topology = "aer", .lr = 1e-3});
//   loop: model.zero_grad(); loss(net->forward(x), y).backward(); model.step();

#include "kith/base/error.h"
#include "kith/launch/join.h"
#include "kith/launch/threads.h"
#include "kith/train/checkpoint.h"
#include "kith/train/data_parallel.h"
#include "kith/train/export.h"
#include "kith/train/learning_rate.h"

namespace kith {

using launch::join;
using launch::JoinOptions;
using launch::run_threads;
using launch::World;

using train::export_model;
using train::newest_valid_checkpoint;
using train::Options;
using train::save_checkpoint;
using train::StepOptions;
using train::StepReport;

}  // namespace kith
