#pragma once

namespace kith::train {

// Tensors of a worker's file besides the engine's (docs/checkpoint-format.md).
inline constexpr const char* kBufferPrefix = "buffer.";
inline constexpr const char* kReplicas = "replicas.";  // of other workers, once per bucket and channel
inline constexpr const char* kPace = "pace";           // where measurements decide when workers mix
inline constexpr const char* kGroups = "groups";
inline constexpr const char* kRandomState = "random";
inline constexpr const char* kDeviceRandomState = "random.device";
inline constexpr const char* kOptimizer = "optimizer";
inline constexpr const char* kNoise = "noise";
inline constexpr const char* kPosition = "position";

}  // namespace kith::train
