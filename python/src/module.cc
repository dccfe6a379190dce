// The module kith._kith: kith/launch and kith/engine for Python. Knows nothing of torch; the package beside
// it does.
#include <algorithm>
#include <array>
#include <exception>
#include <string_view>

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/graph/schedule.h"
#include "kith/launch/assignment.h"
#include "python/src/front_engine.h"

namespace kith::python {
namespace {

namespace py = pybind11;
using namespace pybind11::literals;

// Error is a RuntimeError, InputError a ValueError besides, Bug a RuntimeError of its own. They live as long
// as the process.
void add_exceptions(py::module_& m) {
  static const py::handle error = py::exception<Error>(m, "Error", PyExc_RuntimeError).release();
  static const py::handle input =
      py::exception<InputError>(m, "InputError", py::make_tuple(error, py::handle(PyExc_ValueError)))
          .release();
  static const py::handle bug = py::exception<Bug>(m, "Bug", PyExc_RuntimeError).release();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const InputError& e) {
      PyErr_SetString(input.ptr(), e.what());
    } catch (const Error& e) {
      PyErr_SetString(error.ptr(), e.what());
    } catch (const Bug& e) {
      PyErr_SetString(bug.ptr(), e.what());
    }
  });
}

constexpr std::string_view kKeys = "kith/python/";  // what the package has in the store

void add_world(py::module_& m) {
  py::class_<World, std::shared_ptr<World>>(m, "World")
      .def("close", &World::close, py::call_guard<py::gil_scoped_release>())
      .def("fail", &World::fail, py::call_guard<py::gil_scoped_release>())
      .def(
          "tell",
          [](World& w, const std::string& key, const std::string& value) {
            w.store().set(cat(kKeys, key), value);
          },
          "key"_a, "value"_a, py::call_guard<py::gil_scoped_release>())
      .def(
          "told", [](World& w, const std::string& key) { return w.store().get(cat(kKeys, key)); }, "key"_a,
          py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("newcomer", [](const World& w) { return w.launch().newcomer(); })
      .def_property_readonly("worker", [](const World& w) { return w.launch().self().value; })
      .def_property_readonly("size", [](const World& w) { return w.launch().size(); })
      .def_property_readonly("local_rank", [](const World& w) { return w.launch().local_rank(); })
      .def_property_readonly("machines", [](const World& w) { return w.launch().transport().machines(); })
      .def_property_readonly("backend",
                             [](const World& w) { return std::string(w.launch().transport().backend()); });
  m.def(
      "discover",
      [](const launch::Environment& environment) {
        const launch::Assignment found = launch::discover(environment);
        return py::dict("launcher"_a = found.launcher, "worker"_a = found.worker, "workers"_a = found.workers,
                        "local_rank"_a = found.local_rank, "local_workers"_a = found.local_workers);
      },
      "environment"_a);
  m.def(
      "join",
      [](launch::Environment environment, std::map<std::string, std::string> facts, std::string backend,
         std::optional<int> gpu, double patience) {
        return join({std::move(environment), std::move(facts), std::move(backend), gpu, patience});
      },
      "environment"_a, "facts"_a, "backend"_a, "gpu"_a, "patience"_a);
}

constexpr std::array<std::string_view, 3> kOnLost{"fail", "carry_on", "reform"};  // as train::OnLost

double seconds_of(const train::Options& options) {
  return seconds(options.patience);
}

void add_options(py::module_& m) {
  using train::Options;
  py::class_<Options> options(m, "Options");
  options.def(py::init<>())
      .def_readwrite("topology", &Options::topology)
      .def_readwrite("nodes", &Options::nodes)
      .def_readwrite("algorithm", &Options::algorithm)
      .def_readwrite("inside", &Options::inside)
      .def_readwrite("optimizer", &Options::optimizer)
      .def_readwrite("beta1", &Options::beta1)
      .def_readwrite("beta2", &Options::beta2)
      .def_readwrite("eps", &Options::eps)
      .def_readwrite("commit_every", &Options::commit_every)
      .def_readwrite("momentum", &Options::momentum)
      .def_readwrite("dampening", &Options::dampening)
      .def_readwrite("nesterov", &Options::nesterov)
      .def_readwrite("lr", &Options::lr)
      .def_readwrite("weight_decay", &Options::weight_decay)
      .def_readwrite("name", &Options::name)
      .def_readwrite("mix_every", &Options::mix_every)
      .def_readwrite("stagger", &Options::stagger)
      .def_readwrite("bucket_bytes", &Options::bucket_bytes)
      .def_readwrite("same_start", &Options::same_start)
      .def_readwrite("topology_seed", &Options::topology_seed)
      .def_readwrite("degree", &Options::degree)
      .def_readwrite("edge_probability", &Options::edge_probability)
      .def_readwrite("centres", &Options::centres)
      .def_readwrite("topology_file", &Options::topology_file);
  options.def_readwrite("patience_adapts", &Options::patience_adapts);
  options.def_property("patience", &seconds_of, [](Options& o, double s) { o.patience = from_seconds(s); });
  options.def_property(
      "wire",
      [](const Options& o) { return o.wire ? std::optional(std::string(name_of(*o.wire))) : std::nullopt; },
      [](Options& o, const std::optional<std::string>& name) {
        o.wire = name ? std::optional(parse_wire(*name, "wire")) : std::nullopt;
      });
  options.def_property_readonly("skips_non_finite",
                                [](const Options& o) { return o.non_finite == engine::NonFinite::skip; });
  options.def_property(
      "on_lost", [](const Options& o) { return kOnLost.at(static_cast<std::size_t>(o.on_lost)); },
      [](Options& o, const std::string& name) {
        const auto found = std::ranges::find(kOnLost, name);
        if (found == kOnLost.end())
          throw InputError(cat("'", name, "'"), "on_lost", "fail, carry_on, reform");
        o.on_lost = static_cast<train::OnLost>(found - kOnLost.begin());
      });
  options.def_property_readonly("averages_buffers",
                                [](const Options& o) { return o.buffers == train::BufferPolicy::averaged; });
  m.def("topologies", &graph::schedule_names);
}

std::vector<int> numbers(const std::vector<WorkerId>& workers) {
  std::vector<int> ids;
  for (const WorkerId worker : workers)
    ids.push_back(worker.value);
  return ids;
}

std::vector<WorkerId> workers_of(const std::vector<int>& ids) {
  std::vector<WorkerId> workers;
  for (const int id : ids)
    workers.push_back(WorkerId{id});
  return workers;
}

void add_report(py::module_& m) {
  using engine::StepReport;
  py::class_<StepReport>(m, "StepReport", "What a step did.")
      .def_readonly("step", &StepReport::step, "The step just done, from 0.")
      .def_property_readonly(
          "waited", [](const StepReport& r) { return seconds(r.waited); },
          "Seconds that the step stood still for neighbours.")
      .def_readonly("bytes_read", &StepReport::bytes_read, "Of neighbours' models.")
      .def_readonly("bytes_published", &StepReport::bytes_published)
      .def_readonly("missing_weight", &StepReport::missing_weight,
                    "Weight of neighbours that did not come; it went to the worker's own model.")
      .def_property_readonly(
          "late", [](const StepReport& r) { return numbers(r.late); },
          "Workers that did not come within the patience.")
      .def_property_readonly(
          "lost", [](const StepReport& r) { return numbers(r.lost); }, "Workers that are gone.")
      .def_readonly("view", &StepReport::view,
                    "The view that it ended in: another one when somebody is gone or has come.")
      .def_readwrite(
          "skipped", &StepReport::skipped,
          "The model was mixed, but not moved: the gradients held inf or NaN, or a newcomer began.")
      .def_property_readonly(
          "gradient_norm",
          [](const StepReport& r) -> std::optional<double> {
            if (!r.gradient_norm.valid()) return std::nullopt;
            const py::gil_scoped_release released;
            return r.gradient_norm.get();
          },
          "Norm of the whole gradient before clipping, where something asked for it; else None. Waits for "
          "the device.");
}

std::vector<std::vector<std::pair<std::size_t, std::size_t>>> pairs_of(const engine::Cut& cut) {
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> buckets;
  for (const auto& bucket : cut) {
    buckets.emplace_back();
    for (const engine::CutPart& part : bucket)
      buckets.back().emplace_back(part.segment, part.count);
  }
  return buckets;
}

engine::Cut cut_of_pairs(const std::vector<std::vector<std::pair<std::size_t, std::size_t>>>& buckets) {
  engine::Cut cut;
  for (const auto& bucket : buckets) {
    cut.emplace_back();
    for (const auto& [segment, count] : bucket)
      cut.back().push_back({segment, count});
  }
  return cut;
}

void add_engine(py::module_& m) {
  py::class_<FrontEngine, std::unique_ptr<FrontEngine, EndInOwnProcess>>(m, "Engine")
      .def(py::init([](std::shared_ptr<World> world, const train::Options& options,
                       const std::vector<std::vector<std::pair<std::size_t, std::size_t>>>& cut,
                       const std::vector<Parameter>& parameters, std::optional<int> gpu, Address stream,
                       const std::vector<int>& members) {
             return std::unique_ptr<FrontEngine, EndInOwnProcess>(
                 new FrontEngine(std::move(world), options, cut_of_pairs(cut), parameters,
                                 {gpu, stream, workers_of(members)}));
           }),
           "world"_a, "options"_a, "cut"_a, "parameters"_a, "gpu"_a, "stream"_a, "members"_a)
      .def("start", &FrontEngine::start)
      .def("restore", &FrontEngine::restore, "step"_a)
      .def("resume", &FrontEngine::resume)
      .def(
          "step",
          [](FrontEngine& e, const std::vector<Input>& inputs, double gradient_scale,
             std::optional<double> max_norm, bool skip_non_finite, Address stream) {
            return e.step(inputs,
                          {gradient_scale, max_norm,
                           skip_non_finite ? engine::NonFinite::skip : engine::NonFinite::use},
                          stream);
          },
          "inputs"_a, "gradient_scale"_a, "max_norm"_a, "skip_non_finite"_a, "stream"_a)
      .def("gradient_ready", &FrontEngine::gradient_ready, "parameter"_a, "gradient"_a, "stream"_a,
           py::call_guard<py::gil_scoped_release>())
      .def("mean_gradients", &FrontEngine::mean_gradients, "gradients"_a, "to"_a, "stream"_a)
      .def("find_non_finite", &FrontEngine::find_non_finite, "gradients"_a, "found"_a, "stream"_a)
      .def("average", &FrontEngine::average, "to"_a, "stream"_a)
      .def("consensus_distance", &FrontEngine::consensus_distance, "stream"_a)
      .def("gather", &FrontEngine::gather, "value"_a)
      .def("mean", &FrontEngine::mean, "numbers"_a, "count"_a)
      .def("share", &FrontEngine::share, "numbers"_a, "count"_a)
      .def("finish", &FrontEngine::finish)
      .def("give_along", &FrontEngine::give_along, "extra"_a)
      .def_property_readonly("joined",
                             [](const FrontEngine& e) -> std::optional<py::tuple> {
                               const auto joined = e.joined();
                               if (!joined) return std::nullopt;
                               const auto& [step, view, extra] = *joined;
                               return py::make_tuple(step, view, py::bytes(extra));
                             })
      .def_property_readonly("left", [](const FrontEngine& e) { return numbers(e.left()); })
      .def("state", &FrontEngine::state, "stream"_a)
      .def("copy_state_to", &FrontEngine::copy_state_to, "blocks"_a, "stream"_a)
      .def("copy_state_from", &FrontEngine::copy_state_from, "blocks"_a, "stream"_a)
      .def("close", &FrontEngine::close, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("steps", &FrontEngine::steps)
      .def_property_readonly("members", [](const FrontEngine& e) { return numbers(e.members()); })
      .def_property_readonly("view_began", &FrontEngine::view_began)
      .def("heard", &FrontEngine::heard, "worker"_a)
      .def_property_readonly("buckets", &FrontEngine::buckets)
      .def_property_readonly("cut", [](const FrontEngine& e) { return pairs_of(e.cut()); })
      .def_property_readonly("memory", [](const FrontEngine& e) {
        const engine::MemoryUse use = e.memory();
        return py::dict("windows"_a = use.windows, "state"_a = use.state, "staging"_a = use.staging);
      });
}

}  // namespace

PYBIND11_MODULE(_kith, m) {
  m.doc() = "kith's engine for Python, without torch: what the package kith is made of.";
  m.attr("__version__") = KITH_VERSION;
  m.attr("cuda") = built_with_cuda();
  add_exceptions(m);
  add_world(m);
  add_options(m);
  add_report(m);
  add_engine(m);
}

}  // namespace kith::python
