#include "kith/optim/methods.h"

#include <algorithm>
#include <array>

#include "kith/base/error.h"
#include "kith/base/text.h"
#include "kith/kernels/codec.h"
#include "kith/optim/algorithms.h"

namespace kith::optim {
namespace {

template <class T>
using Make = std::unique_ptr<Algorithm<T>> (*)(const MethodOptions&);

struct Entry {
  Method method;
  Make<float> make32;
  Make<double> make64;
};

// Adding a method: docs/adding-a-method.md.
using enum Method::Codec;

constexpr std::array kTable{
    Entry{{.name = "awc",
           .summary = "adapt while communicate: messages travel while the gradient is computed",
           .formula = "sum_j W[i,j] x_j - lr d_i",
           .codec = possible},
          make_awc<float>,
          make_awc<double>},
    Entry{{.name = "atc",
           .summary = "adapt then combine, with one or more rounds of mixing",
           .formula = "sum_j W[i,j] (x_j - lr d_j)",
           .takes_rounds = true,
           .codec = possible},
          make_atc<float>,
          make_atc<double>},
    Entry{{.name = "dsgd",
           .summary = "decentralised SGD, in both orders",
           .formula = "as atc, or as awc with mix-first; d the direction of sgd",
           .optimizer = "sgd",
           .takes_rounds = true,
           .takes_order = true,
           .codec = possible},
          make_dsgd<float>,
          make_dsgd<double>},
    Entry{{.name = "d-adam",
           .summary = "decentralised Adam, moments stay local, in both orders",
           .formula = "as atc, or as awc with mix-first; d the direction of adam",
           .optimizer = "adam",
           .takes_rounds = true,
           .takes_order = true,
           .codec = possible},
          make_dsgd<float>,
          make_dsgd<double>},
    Entry{{.name = "dsgt",
           .summary = "gradient tracking: every worker follows the mean gradient",
           .formula = "h = W (h + g - last g);  W (x - lr d(h))"},
          make_dsgt<float>,
          make_dsgt<double>},
    Entry{{.name = "mc-dsgt",
           .summary = "gradient tracking with several rounds of consensus per step",
           .formula = "h = W^R (h + g - last g);  W^R (x - lr d(h))",
           .takes_rounds = true},
          make_mc_dsgt<float>,
          make_mc_dsgt<double>},
    Entry{{.name = "sgp",
           .summary = "stochastic gradient push: directed, a weight travels along",
           .formula = "w = A (w - lr d at z);  y = A y;  z = w / y",
           .codec = possible},
          make_sgp<float>,
          make_sgp<double>},
    Entry{{.name = "choco",
           .summary = "compressed decentralised SGD: encoded differences to replicas travel",
           .formula = "y = x - lr d;  x^ += Q(y - x^);  y_i + c sum_j W[i,j] (x^_j - x^_i)",
           .optimizer = "sgd",
           .takes_rounds = true,
           .takes_order = true,
           .codec = needed},
          make_dsgd<float>,
          make_dsgd<double>},
    Entry{{.name = "cd-adam",
           .summary = "compressed decentralised Adam: d-adam with encoded differences",
           .formula = "as choco; d the direction of adam",
           .optimizer = "adam",
           .takes_rounds = true,
           .takes_order = true,
           .codec = needed},
          make_dsgd<float>,
          make_dsgd<double>},
    Entry{{.name = "q-push",
           .summary = "quantised push-sum: sgp with encoded differences",
           .formula = "u = w - lr d at z;  x^ += Q(u - x^);  w = u - x^_i + sum_j A[i,j] x^_j;  z = w / y",
           .codec = needed},
          make_sgp<float>,
          make_sgp<double>},
    Entry{{.name = "diloco",
           .summary =
               "outer steps of momentum on what the inner steps moved, with everybody: topology complete",
           .formula =
               "delta = a delta + b mean(theta - phi);  phi += delta;  theta = phi; the trigger says when",
           .takes_outer = true},
          make_diloco<float>,
          make_diloco<double>},
    Entry{{.name = "noloco",
           .summary = "the same in pairs: topology matching",
           .formula = "delta = a delta + b W (theta - phi) + g (W phi - phi);  phi += delta;  theta = phi",
           .takes_outer = true},
          make_noloco<float>,
          make_noloco<double>},
    Entry{{.name = "allreduce",
           .summary = "data parallel: everybody's gradients are averaged, hidden behind backward",
           .formula = "x - lr d(mean gradient)"},
          make_allreduce<float>,
          make_allreduce<double>},
    Entry{{.name = "none", .summary = "everybody for itself", .formula = "x_i - lr d_i"},
          make_none<float>,
          make_none<double>},
};

constexpr auto kMethods = [] {
  std::array<Method, kTable.size()> methods;
  for (std::size_t k = 0; k < kTable.size(); ++k)
    methods[k] = kTable[k].method;
  return methods;
}();

const Entry& entry_of(std::string_view name) {
  const auto* const entry = std::ranges::find(kTable, name, [](const Entry& e) { return e.method.name; });
  if (entry != kTable.end()) return *entry;
  throw InputError(cat("'", name, "' is not an algorithm"), "algorithm", suggest(name, algorithm_names()));
}

}  // namespace

std::span<const Method> methods() {
  return kMethods;
}

const Method& method_of(std::string_view name) {
  return entry_of(name).method;
}

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const Method& method : kMethods)
    names.emplace_back(method.name);
  return names;
}

template <>
std::unique_ptr<Algorithm<float>> make_algorithm(std::string_view name, const MethodOptions& options) {
  return entry_of(name).make32(options);
}
template <>
std::unique_ptr<Algorithm<double>> make_algorithm(std::string_view name, const MethodOptions& options) {
  return entry_of(name).make64(options);
}

Exchange exchange_of(std::string_view name) {
  return make_algorithm<float>(name)->exchange();
}

bool takes(std::string_view method, std::string_view optimizer) {
  const std::string_view family = method_of(method).optimizer;
  return family.empty() || optimizer == family || (family == "adam" && optimizer == "adamw");
}

void validate(std::string_view name, const MethodOptions& options, std::string_view optimizer) {
  const Method& method = method_of(name);
  if (options.rounds < 1) throw InputError(cat(options.rounds), "rounds per step", "at least 1");
  const bool adapts_first = options.order == Order::adapt_first;
  if (options.rounds > 1 && !(method.takes_rounds && adapts_first)) {
    throw InputError(cat(options.rounds, " rounds per step with algorithm '", name, "'",
                         adapts_first ? "" : " in the order mix-first"),
                     "rounds per step", "it takes one; atc and mc-dsgt take several");
  }
  if (!adapts_first && !method.takes_order) {
    throw InputError(cat("order '", name_of(options.order), "' with algorithm '", name, "'"), "order",
                     "that algorithm has one order only: leave it at adapt-first");
  }
  if (!method.takes_outer && (options.outer_momentum || options.outer_pull || options.outer_rate != 0.7)) {
    throw InputError(cat("numbers of outer steps with algorithm '", name, "'"), "algorithm",
                     "diloco and noloco take outer steps");
  }
  if (const double a = options.outer_momentum.value_or(0); !(a >= 0 && a < 1))
    throw InputError(cat(a), "outer momentum", "from 0 to below 1");
  if (!(options.outer_rate > 0 && options.outer_rate <= 2))
    throw InputError(cat(options.outer_rate), "outer rate", "above 0, up to 2");
  if (const double g = options.outer_pull.value_or(1); !(g > 0 && g <= 1))
    throw InputError(cat(g), "outer pull", "above 0, up to 1");
  if (!optimizer.empty() && !takes(name, optimizer)) {
    throw InputError(cat("algorithm '", name, "' with optimizer '", optimizer, "'"), "algorithm",
                     cat("it is defined with ", method.optimizer, "; atc and awc take any optimizer"));
  }
}

void validate_codec(std::string_view name, std::string_view codec, double consensus_step) {
  const Method& method = method_of(name);
  if (codec.empty() && method.codec == needed) {
    throw InputError(cat("algorithm '", name, "' without a codec"), "codec",
                     "for example sign, qsgd 4 or top-k 0.01");
  }
  if (codec.empty() && consensus_step != 0) {
    throw InputError(cat("a consensus step of ", consensus_step, " without a codec"), "consensus step",
                     "it goes with a codec");
  }
  if (codec.empty()) return;
  if (method.codec == none) {
    throw InputError(cat("codec '", codec, "' with algorithm '", name, "'"), "codec",
                     "awc, atc, sgp and the methods built on them take one");
  }
  const auto made = kernels::make_codec<float>(codec);
  if (!(consensus_step >= 0 && consensus_step <= 1)) {
    throw InputError(cat(consensus_step), "consensus step", "from 0, the codec's own, to 1");
  }
  if (!make_algorithm<float>(name)->needs_directed_schedule()) return;
  const double step = consensus_step > 0 ? consensus_step : made->consensus_step();
  if (step == 1) return;
  throw InputError(cat("codec '", codec, "' with algorithm '", name, "', at a consensus step of ", step),
                   "codec",
                   "push-sum cannot converge with it: mass moves whole, so the error must be small; int8, "
                   "qsgd 4 or qsgd-max 3");
}

std::vector<std::string> order_names() {
  return {"adapt-first", "mix-first"};
}

std::string_view name_of(Order order) {
  return order == Order::adapt_first ? "adapt-first" : "mix-first";
}

Order parse_order(std::string_view text) {
  for (const Order order : {Order::adapt_first, Order::mix_first})
    if (name_of(order) == text) return order;
  throw InputError(cat("'", text, "' is not an order"), "order", suggest(text, order_names()));
}

}  // namespace kith::optim
