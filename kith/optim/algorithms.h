#pragma once

#include <memory>

#include "kith/optim/algorithm.h"

namespace kith::optim {

// The makers that the table in algorithm.cc knows; one file each.
template <class T>
std::unique_ptr<Algorithm<T>> make_awc();
template <class T>
std::unique_ptr<Algorithm<T>> make_atc();
template <class T>
std::unique_ptr<Algorithm<T>> make_dsgt();
template <class T>
std::unique_ptr<Algorithm<T>> make_sgp();
template <class T>
std::unique_ptr<Algorithm<T>> make_allreduce();
template <class T>
std::unique_ptr<Algorithm<T>> make_none();

}  // namespace kith::optim
