#include "tests/train/plain_recursion.h"

#include <cmath>
#include <cstddef>

namespace plain {
namespace {

struct State {
  Vector m, v, a;
  int k = 0;
};

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// One local step from `point` along the direction of g.
Vector local_step(const Rule& r, Vector point, Vector g, State& s) {
  if (s.m.empty()) s.m = s.v = s.a = Vector(point.size(), 0.0);
  ++s.k;
  const bool decoupled = r.optimizer == "adamw" || r.optimizer == "accum-adamw";
  const bool accumulates = r.optimizer == "accum-adam" || r.optimizer == "accum-adamw";
  const int commit_every = accumulates ? r.commit_every : 1;
  const double j = std::ceil(static_cast<double>(s.k) / commit_every);
  for (std::size_t e = 0; e < point.size(); ++e) {
    if (decoupled) {
      point[e] *= 1 - r.lr * r.decay;
    } else {
      g[e] += r.decay * point[e];
    }
    if (r.optimizer == "sgd") {
      s.m[e] = s.k == 1 ? g[e] : r.momentum * s.m[e] + g[e];
      point[e] -= r.lr * (r.momentum != 0 ? s.m[e] : g[e]);
      continue;
    }
    s.a[e] += g[e] / commit_every;
    const double m = r.beta1 * s.m[e] + (1 - r.beta1) * g[e];
    const double v = r.beta2 * s.v[e] + (1 - r.beta2) * g[e] * g[e];
    const double corrected_m = m / (1 - std::pow(r.beta1, j));
    const double corrected_v = v / (1 - std::pow(r.beta2, j));
    point[e] -= r.lr * corrected_m / (std::sqrt(corrected_v) + r.eps);
    if (s.k % commit_every == 0) {
      s.m[e] = r.beta1 * s.m[e] + (1 - r.beta1) * s.a[e];
      s.v[e] = r.beta2 * s.v[e] + (1 - r.beta2) * s.a[e] * s.a[e];
      s.a[e] = 0;
    }
  }
  return point;
}

std::vector<Vector> mix(const Matrix& w, const std::vector<Vector>& x) {
  std::vector<Vector> out(x.size(), Vector(x[0].size(), 0.0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      for (std::size_t e = 0; e < x[j].size(); ++e)
        out[i][e] += w[i][j] * x[j][e];
    }
  }
  return out;
}

struct Run {
  const Rule& rule;
  const Problem& problem;
  std::vector<Vector> x;
  std::vector<State> states;

  Run(const Rule& r, const Problem& p)
      : rule(r), problem(p), x(at(p.workers), p.start), states(at(p.workers)) {}

  std::vector<Vector> gradients(int t) const {
    std::vector<Vector> all;
    for (int i = 0; i < problem.workers; ++i)
      all.push_back(problem.gradient(i, t, x[at(i)]));
    return all;
  }
  // By the rounds of step t, if it mixes.
  std::vector<Vector> combine(int t, std::vector<Vector> from) const {
    if (!problem.mixes(t)) return from;
    int before = 0;
    for (int u = 0; u < t; ++u)
      before += problem.mixes(u) ? 1 : 0;
    for (int k = 0; k < problem.rounds; ++k)
      from = mix(problem.mixing(before * problem.rounds + k), from);
    return from;
  }
  std::vector<Vector> adapt(const std::vector<Vector>& from, const std::vector<Vector>& g) {
    std::vector<Vector> next;
    for (int i = 0; i < problem.workers; ++i)
      next.push_back(local_step(rule, from[at(i)], g[at(i)], states[at(i)]));
    return next;
  }
};

std::vector<Vector> train_awc(Run run) {
  for (int t = 0; t < run.problem.steps; ++t) {
    const auto g = run.gradients(t);
    run.x = run.adapt(run.combine(t, run.x), g);
  }
  return run.x;
}

std::vector<Vector> train_atc(Run run) {
  for (int t = 0; t < run.problem.steps; ++t) {
    run.x = run.combine(t, run.adapt(run.x, run.gradients(t)));
  }
  return run.x;
}

std::vector<Vector> train_dsgt(Run run) {
  const Vector zero(run.problem.start.size(), 0.0);
  std::vector<Vector> h(run.x.size(), zero);
  std::vector<Vector> last(run.x.size(), zero);
  for (int t = 0; t < run.problem.steps; ++t) {
    const auto g = run.gradients(t);
    for (std::size_t i = 0; i < h.size(); ++i) {
      for (std::size_t e = 0; e < zero.size(); ++e)
        h[i][e] += g[i][e] - last[i][e];
    }
    last = g;
    h = run.combine(t, h);
    run.x = run.combine(t, run.adapt(run.x, h));
  }
  return run.x;
}

std::vector<Vector> train_sgp(Run run) {
  std::vector<Vector> w = run.x;
  std::vector<Vector> y(run.x.size(), Vector{1.0});
  for (int t = 0; t < run.problem.steps; ++t) {
    const auto g = run.gradients(t);  // at z, which run.x holds
    w = run.combine(t, run.adapt(w, g));
    y = run.combine(t, y);
    for (std::size_t i = 0; i < w.size(); ++i) {
      for (std::size_t e = 0; e < w[i].size(); ++e)
        run.x[i][e] = w[i][e] / y[i][0];
    }
  }
  return run.x;
}

// What everybody knows of each worker. The first message is the vector itself.
struct Replicas {
  const Problem& problem;
  std::vector<Vector> known;

  void follow(const std::vector<Vector>& x) {
    if (known.empty()) {
      known = x;
      return;
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      Vector difference = x[i];
      for (std::size_t e = 0; e < difference.size(); ++e)
        difference[e] -= known[i][e];
      const Vector decoded = problem.codec(difference);
      for (std::size_t e = 0; e < decoded.size(); ++e)
        known[i][e] += decoded[e];
    }
  }

  // x_i + c (sum_j w_ij x^_j - x^_i)
  std::vector<Vector> combine(int t, std::vector<Vector> x) const {
    const auto mixed = mix(problem.mixing(t), known);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t e = 0; e < x[i].size(); ++e)
        x[i][e] += problem.consensus_step * (mixed[i][e] - known[i][e]);
    }
    return x;
  }
};

std::vector<Vector> train_choco(Run run, bool mix_first) {
  Replicas replicas{run.problem, {}};
  if (mix_first) replicas.follow(run.x);
  for (int t = 0; t < run.problem.steps; ++t) {
    const auto g = run.gradients(t);
    if (mix_first) {
      run.x = run.adapt(replicas.combine(t, run.x), g);
      replicas.follow(run.x);
    } else {
      run.x = run.adapt(run.x, g);
      replicas.follow(run.x);
      run.x = replicas.combine(t, run.x);
    }
  }
  return run.x;
}

std::vector<Vector> train_q_push(Run run) {
  Replicas replicas{run.problem, {}};
  std::vector<Vector> w = run.x;
  std::vector<Vector> y(run.x.size(), Vector{1.0});
  for (int t = 0; t < run.problem.steps; ++t) {
    w = run.adapt(w, run.gradients(t));
    replicas.follow(w);
    w = replicas.combine(t, w);
    y = mix(run.problem.mixing(t), y);
    for (std::size_t i = 0; i < w.size(); ++i) {
      for (std::size_t e = 0; e < w[i].size(); ++e)
        run.x[i][e] = w[i][e] / y[i][0];
    }
  }
  return run.x;
}

// arXiv 2506.10911; with everybody in one group and no pull arXiv 2311.08105.
std::vector<Vector> train_outer(Run run) {
  const Problem& p = run.problem;
  std::vector<Vector> phi = run.x;
  std::vector<Vector> delta(phi.size(), Vector(phi[0].size(), 0.0));
  for (int t = 0; t < p.steps; ++t) {
    run.x = run.adapt(run.x, run.gradients(t));
    if (!p.mixes(t)) continue;
    std::vector<Vector> moved = run.x;
    for (std::size_t i = 0; i < phi.size(); ++i) {
      for (std::size_t e = 0; e < phi[i].size(); ++e)
        moved[i][e] -= phi[i][e];
    }
    moved = run.combine(t, moved);
    const auto mean = run.combine(t, phi);
    for (std::size_t i = 0; i < phi.size(); ++i) {
      for (std::size_t e = 0; e < phi[i].size(); ++e) {
        delta[i][e] = p.outer_momentum * delta[i][e] + p.outer_rate * moved[i][e] +
                      p.outer_pull * (mean[i][e] - phi[i][e]);
        phi[i][e] += delta[i][e];
      }
    }
    run.x = phi;
  }
  return run.x;
}

std::vector<Vector> train_allreduce(Run run) {
  const Matrix mean(run.x.size(), Vector(run.x.size(), 1.0 / run.problem.workers));
  for (int t = 0; t < run.problem.steps; ++t)
    run.x = run.adapt(run.x, mix(mean, run.gradients(t)));
  return run.x;
}

std::vector<Vector> train_none(Run run) {
  for (int t = 0; t < run.problem.steps; ++t)
    run.x = run.adapt(run.x, run.gradients(t));
  return run.x;
}

// Disjoint groups that average.
Matrix groups(const std::vector<std::vector<int>>& parts) {
  Matrix w(4, Vector(4, 0.0));
  for (const auto& part : parts) {
    for (int i : part) {
      for (int j : part)
        w[at(i)][at(j)] = 1.0 / static_cast<double>(part.size());
    }
  }
  return w;
}

}  // namespace

std::vector<Vector> train(const std::string& algorithm, const Rule& rule, const Problem& problem) {
  const Run run(rule, problem);
  if (algorithm == "awc") return train_awc(run);
  if (algorithm == "atc") return train_atc(run);
  if (algorithm == "dsgt") return train_dsgt(run);
  if (algorithm == "sgp") return train_sgp(run);
  if (algorithm == "choco") return train_choco(run, false);
  if (algorithm == "choco-mix-first") return train_choco(run, true);
  if (algorithm == "q-push") return train_q_push(run);
  if (algorithm == "outer") return train_outer(run);
  if (algorithm == "allreduce") return train_allreduce(run);
  return train_none(run);
}

Vector sign_codec(const Vector& x) {
  double sum = 0;
  for (const double value : x)
    sum += std::fabs(value);
  const auto scale = static_cast<double>(static_cast<float>(sum / static_cast<double>(x.size())));
  Vector out;
  for (const double value : x)
    out.push_back(value < 0 ? -scale : scale);
  return out;
}

Vector top_codec(const Vector& x, int elements) {
  Vector out(x.size(), 0.0);
  for (std::size_t e = 0; e < x.size(); ++e) {
    int larger = 0;
    for (const double other : x)
      larger += std::fabs(other) > std::fabs(x[e]) ? 1 : 0;
    if (larger < elements) out[e] = static_cast<double>(static_cast<float>(x[e]));
  }
  return out;
}

Vector gradient(const Network& n, const Vector& p, const Batch& batch) {
  const int b1 = n.hidden * n.inputs, w2 = b1 + n.hidden, b2 = w2 + n.outputs * n.hidden;
  const double scale = 2.0 / (static_cast<double>(batch.x.size()) * n.outputs);
  Vector g(p.size(), 0.0);
  for (std::size_t s = 0; s < batch.x.size(); ++s) {
    Vector z(at(n.hidden));
    for (int h = 0; h < n.hidden; ++h) {
      double sum = p[at(b1 + h)];
      for (int k = 0; k < n.inputs; ++k)
        sum += p[at(h * n.inputs + k)] * batch.x[s][at(k)];
      z[at(h)] = std::tanh(sum);
    }
    Vector dz(at(n.hidden), 0.0);
    for (int o = 0; o < n.outputs; ++o) {
      double out = p[at(b2 + o)];
      for (int h = 0; h < n.hidden; ++h)
        out += p[at(w2 + o * n.hidden + h)] * z[at(h)];
      const double error = scale * (out - batch.y[s][at(o)]);
      g[at(b2 + o)] += error;
      for (int h = 0; h < n.hidden; ++h) {
        g[at(w2 + o * n.hidden + h)] += error * z[at(h)];
        dz[at(h)] += error * p[at(w2 + o * n.hidden + h)];
      }
    }
    for (int h = 0; h < n.hidden; ++h) {
      const double da = dz[at(h)] * (1 - z[at(h)] * z[at(h)]);
      g[at(b1 + h)] += da;
      for (int k = 0; k < n.inputs; ++k)
        g[at(h * n.inputs + k)] += da * batch.x[s][at(k)];
    }
  }
  return g;
}

Matrix complete4(int) {
  return groups({{0, 1, 2, 3}});
}
Matrix ring4(int t) {
  return t % 2 == 0 ? groups({{0, 1}, {2, 3}}) : groups({{0, 3}, {1, 2}});
}
Matrix exp4(int t) {
  return t % 2 == 0 ? groups({{0, 1}, {2, 3}}) : groups({{0, 2}, {1, 3}});
}
Matrix aer2x2(int t) {
  return t % 2 == 0 ? groups({{0, 1}, {2, 3}}) : groups({{0, 1, 2, 3}});
}

Matrix exp_directed4(int t) {
  Matrix w(4, Vector(4, 0.0));
  const int hop = t % 2 == 0 ? 1 : 2;
  for (int j = 0; j < 4; ++j) {
    w[at(j)][at(j)] = 0.5;
    w[at((j + hop) % 4)][at(j)] = 0.5;
  }
  return w;
}

}  // namespace plain
