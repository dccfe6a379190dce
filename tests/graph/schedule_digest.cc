#include <iostream>

#include "tests/graph/digest.h"
#include "tests/graph/worlds.h"

int main() {
  using namespace kith::graph;
  for (const std::string& name : built_in_names()) {
    for (const Shape& shape : all_shapes()) {
      std::cout << name << ' ' << shape.text() << ' ' << digest_of(*make(name, shape)) << '\n';
    }
  }
}
