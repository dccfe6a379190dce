#pragma once

#include <string>
#include <vector>

namespace figure6 {

enum class Method { all_reduce, exp, aer };
enum class Split { fit, held };

// One measured bar of the figure.
struct Bar {
  std::string cluster;
  int workers = 0;
  Method method = Method::all_reduce;
  double ms = 0;
  Split split = Split::fit;
};

std::string name_of(Method method);
// "A40 exp-32".
std::string name_of(const Bar& bar);

// Throws kith::InputError naming the line.
std::vector<Bar> read_bars(const std::string& path);

}  // namespace figure6
