#include "kith/base/ids.h"

namespace kith {

Members Members::first(int n) {
  Members members;
  for (int i = 0; i < n; ++i) members.workers.push_back(WorkerId{i});
  return members;
}

}  // namespace kith
