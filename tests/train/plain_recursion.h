#pragma once

#include <functional>
#include <string>
#include <vector>

// The decentralised recursions and a small network, written from the published formulas in plain double
// loops, to hold kith against. Knows nothing of kith.
namespace plain {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

// arXiv 2410.11998 (accumulated Adam included); torch's documentation for SGD, Adam and AdamW.
struct Rule {
  std::string optimizer;  // sgd, adam, adamw, accum-adam, accum-adamw
  double lr = 0;
  double decay = 0;
  double momentum = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  int commit_every = 4;
};

// x_i(0) = start for every worker i; gradient(i, t, x) is worker i's at step t; mixing(r) is W of round r. A
// step that mixes takes the next `rounds` of them; it is one of which mixes(t) is true.
struct Problem {
  int workers = 1;
  int steps = 0;
  Vector start;
  std::function<Vector(int worker, int t, const Vector& x)> gradient;
  std::function<Matrix(int round)> mixing;
  int rounds = 1;
  std::function<bool(int t)> mixes = [](int) { return true; };
  // choco, choco-mix-first, q-push: Q, and the consensus step.
  std::function<Vector(const Vector& x)> codec;
  double consensus_step = 1;
  // outer: momentum, rate and pull.
  double outer_momentum = 0, outer_rate = 1, outer_pull = 0;
};

// algorithm: awc, atc, dsgt (with rounds: mc-dsgt), sgp, choco, choco-mix-first, q-push, outer,
// allreduce, none.
// Every worker's last model.
std::vector<Vector> train(const std::string& algorithm, const Rule& rule, const Problem& problem);

// y = W2 tanh(W1 x + b1) + b2, parameters in the order W1 (hidden x inputs, by rows), b1, W2, b2.
struct Network {
  int inputs = 3;
  int hidden = 4;
  int outputs = 2;
  int parameters() const { return hidden * inputs + hidden + outputs * hidden + outputs; }
};

struct Batch {
  Matrix x;  // one row per sample
  Matrix y;
};

// Codecs as published, with the numbers of a message in single precision.
Vector sign_codec(const Vector& x);               // mean magnitude, signs
Vector top_codec(const Vector& x, int elements);  // the largest ones

// Gradient of the mean over samples and outputs of the squared error.
Vector gradient(const Network& network, const Vector& parameters, const Batch& batch);

// Mixing matrices of four workers.
Matrix complete4(int t);
Matrix ring4(int t);          // pairs (0,1)(2,3), then (0,3)(1,2)
Matrix exp4(int t);           // pairs i, i xor 1, then i, i xor 2
Matrix aer2x2(int t);         // both nodes inside, then all together
Matrix exp_directed4(int t);  // half to oneself, half to i + 1, then to i + 2

}  // namespace plain
