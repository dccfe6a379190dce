#pragma once

#include <atomic>
#include <cstdint>

#include <pthread.h>

// The C library's own, past interpose.cc.
namespace kith::replay::real {

int create_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument);
// May return early.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value);
void wake(const std::atomic<std::uint32_t>& word);

}  // namespace kith::replay::real
