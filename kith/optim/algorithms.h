#pragma once

#include <memory>

#include "kith/optim/algorithm.h"

namespace kith::optim {

// The makers that the table in methods.cc knows.
template <class T>
std::unique_ptr<Algorithm<T>> make_awc(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_atc(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_dsgt(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_mc_dsgt(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_dsgd(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_sgp(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_diloco(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_noloco(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_allreduce(const MethodOptions&);
template <class T>
std::unique_ptr<Algorithm<T>> make_none(const MethodOptions&);

}  // namespace kith::optim
