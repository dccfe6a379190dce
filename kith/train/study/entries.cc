#include <algorithm>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/train/study/trial.h"

namespace kith::train::study {

std::vector<Entry> all_entries(const std::string& topology) {
  optim::MethodOptions four_rounds;
  four_rounds.rounds = 4;
  const std::string directed = "exp-directed";
  return {
      {"allreduce", "allreduce", "sgd", topology},
      {"allreduce, adam", "allreduce", "adam", topology},
      {"none", "none", "sgd", topology},
      {"awc", "awc", "sgd", topology},
      {"dsgd", "dsgd", "sgd", topology},
      {"dsgd, every 8", "dsgd", "sgd", topology, "", "every 8"},
      {"dsgt", "dsgt", "sgd", topology},
      {"mc-dsgt, 4 rounds", "mc-dsgt", "sgd", topology, "", "", four_rounds},
      {"sgp", "sgp", "sgd", directed},
      {"awc, wire int8", "awc", "sgd", topology, "", "", {}, DType::i8},
      {"awc, int8", "awc", "sgd", topology, "int8"},
      {"awc, sign", "awc", "sgd", topology, "sign"},
      {"choco, qsgd 4", "choco", "sgd", topology, "qsgd 4"},
      {"choco, sign", "choco", "sgd", topology, "sign"},
      {"choco, top-k 0.01", "choco", "sgd", topology, "top-k 0.01"},
      {"choco, top-k 0.002", "choco", "sgd", topology, "top-k 0.002"},
      {"q-push, qsgd 6", "q-push", "sgd", directed, "qsgd 6"},
      {"d-adam", "d-adam", "adam", topology},
      {"cd-adam, sign", "cd-adam", "adam", topology, "sign"},
      {"diloco, every 20", "diloco", "sgd", "complete", "", "every 20"},
      {"noloco, every 20", "noloco", "sgd", "matching", "", "every 20"},
  };
}

std::vector<Entry> named_entries(const std::vector<Entry>& entries, const std::vector<std::string>& names,
                                 const std::string& place) {
  std::vector<Entry> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(entries, name, &Entry::name);
    if (found == entries.end()) {
      std::vector<std::string> known;
      for (const Entry& entry : entries)
        known.push_back(entry.name);
      throw InputError(cat("'", name, "' is none of the methods"), place, suggest(name, known));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace kith::train::study
