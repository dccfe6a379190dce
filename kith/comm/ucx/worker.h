#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ucp/api/ucp.h>

namespace kith::comm::ucx {

// Told once: true when everything went through.
using Done = std::function<void(bool complete)>;

// The payload of a message being delivered; lives as long as the call that hands it over.
class Delivery {
 public:
  Delivery(const void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::size_t bytes() const { return bytes_; }
  // A payload that nobody copies is dropped.
  void copy_to(std::byte* to) const;

 private:
  const void* const data_;
  const std::size_t bytes_;
};

// What UCX is told where the user's environment does not say it.
struct Setting {
  std::string name;  // as ucp_config_modify takes it
  std::string value;
  std::string environment;  // the variable that has the last word: "UCX_TLS"
};
using Settings = std::vector<Setting>;

// One UCP worker for active messages. Used, made and destroyed by one thread.
class Worker {
 public:
  using OnMessage = std::function<void(std::span<const std::byte> header, Delivery& delivery)>;

  // Error when UCX finds nothing to work with.
  Worker(const Settings& settings, OnMessage on_message);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Whose memory this UCX could send from and receive into: "host", and with its CUDA module "cuda".
  std::vector<std::string> memory_types() const;
  // For an Endpoint of another process.
  const std::string& address() const { return address_; }
  // Becomes readable when there is something to do, once arm() gave true.
  int fd() const { return fd_; }
  bool arm();
  // Does what there is to do; false when there was nothing.
  bool progress();

 private:
  friend class Endpoint;
  static ucs_status_t deliver(void* self, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* param);

  const OnMessage on_message_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
  std::string address_;
};

// A way to another process's worker. Lives until closed() unless the worker has ended.
class Endpoint {
 public:
  // `on_failure` is told once when the peer is found dead, during Worker::progress. Error when there is no
  // way to that address.
  Endpoint(Worker& worker, const std::string& address, std::function<void(std::string_view why)> on_failure);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Goes at once. Header and payload stay until `done`, which may be told before this returns.
  void send(std::span<const std::byte> header, std::span<const std::byte> payload, Done done);

  // Ends it; what is under way is told not to be complete. What was sent is not taken back.
  void close();
  bool closed() const { return closed_; }

 private:
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const std::function<void(std::string_view)> on_failure_;
  ucp_ep_h endpoint_ = nullptr;
  bool failed_ = false;
  bool closed_ = false;
};

}  // namespace kith::comm::ucx
