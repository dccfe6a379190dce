#pragma once

#include <map>
#include <string>
#include <vector>

namespace kith::bench {

// What bench/cluster measured of one set-up at one rate: medians over blocks.
struct Configuration {
  std::string setup;  // "small_4x2"
  double gbit = 0;
  double link_bytes_per_s = 0;
  double cpu_s_per_byte = 0;                  // of a transfer, at each end
  std::map<std::string, double> iteration_s;  // by mode
  double local_step_s = 0;                    // of local-only, the part in step()

  // Of the model's layers, in backward order.
  std::vector<double> layer_bytes() const;
  int hosts() const;
  int workers_per_host() const;
};

// From the lines that bench/cluster --csv writes. InputError with file and line for what is not such a line.
std::vector<Configuration> read_measured(const std::string& file);

}  // namespace kith::bench
