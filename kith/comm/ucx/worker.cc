#include "kith/comm/ucx/worker.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "kith/base/check.h"
#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::comm::ucx {
namespace {

void require(ucs_status_t status, std::string_view what) {
  if (status == UCS_OK) return;
  throw Error(cat(what, ": ", ucs_status_string(status)), "UCX",
              "look at what UCX_LOG_LEVEL=info prints; UCX_TLS and UCX_NET_DEVICES say what it may use");
}

// A Done on its way through UCX.
void* pack(Done done) {
  return new Done(std::move(done));
}
void tell(void* packed, bool complete) {
  const std::unique_ptr<Done> done(static_cast<Done*>(packed));
  (*done)(complete);
}

}  // namespace

void Delivery::copy_to(std::byte* to) const {
  std::memcpy(to, data_, bytes_);
}

Worker::Worker(const Settings& settings, OnMessage on_message) : on_message_(std::move(on_message)) {
  ucp_config_t* config = nullptr;
  require(ucp_config_read(nullptr, nullptr, &config), "cannot read its configuration");
  for (const Setting& setting : settings) {
    // What the user set in the environment is in `config` already and stays.
    if (std::getenv(setting.environment.c_str()) == nullptr)
      ucp_config_modify(config, setting.name.c_str(), setting.value.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "kith";
  const ucs_status_t status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  require(status, "cannot start");

  try {
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    require(ucp_worker_create(context_, &worker_params, &worker_), "cannot make a worker");
    require(ucp_worker_get_efd(worker_, &fd_), "cannot be waited for");
    ucp_am_handler_param_t handler{};
    handler.field_mask =
        UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = 0;
    handler.cb = deliver;
    handler.arg = this;
    require(ucp_worker_set_am_recv_handler(worker_, &handler), "cannot take messages");
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    require(ucp_worker_get_address(worker_, &address, &bytes), "has no address");
    address_.assign(reinterpret_cast<const char*>(address), bytes);
    ucp_worker_release_address(worker_, address);
  } catch (...) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

Worker::~Worker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::vector<std::string> Worker::memory_types() const {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require(ucp_context_query(context_, &attributes), "cannot be asked about memory");
  std::vector<std::string> names;
  for (unsigned type = 0; type < UCS_MEMORY_TYPE_LAST; ++type)
    if ((attributes.memory_types >> type & 1) != 0) names.emplace_back(ucs_memory_type_names[type]);
  return names;
}

bool Worker::arm() {
  return ucp_worker_arm(worker_) == UCS_OK;
}

bool Worker::progress() {
  return ucp_worker_progress(worker_) != 0;
}

ucs_status_t Worker::deliver(void* self, const void* header, std::size_t header_bytes, void* data,
                             std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto& worker = *static_cast<Worker*>(self);
  // Peers send nothing that would have to be fetched first; a stranger's is dropped.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  Delivery delivery(data, bytes);
  worker.on_message_({static_cast<const std::byte*>(header), header_bytes}, delivery);
  return UCS_OK;
}

Endpoint::Endpoint(Worker& worker, const std::string& address,
                   std::function<void(std::string_view)> on_failure)
    : on_failure_(std::move(on_failure)) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_error, .arg = this};
  require(ucp_ep_create(worker.worker_, &params, &endpoint_), "cannot reach a peer");
}

void Endpoint::on_error(void* self, ucp_ep_h, ucs_status_t status) {
  auto& endpoint = *static_cast<Endpoint*>(self);
  if (std::exchange(endpoint.failed_, true)) return;
  endpoint.on_failure_(ucs_status_string(status));
}

void Endpoint::send(std::span<const std::byte> header, std::span<const std::byte> payload, Done done) {
  if (endpoint_ == nullptr || failed_) return done(false);
  void* const packed = pack(std::move(done));
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.user_data = packed;
  param.cb.send = [](void* request, ucs_status_t status, void* user) {
    ucp_request_free(request);
    tell(user, status == UCS_OK);
  };
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(endpoint_, 0, header.data(), header.size(), payload.data(), payload.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) tell(packed, request == nullptr);
}

void Endpoint::close() {
  if (endpoint_ == nullptr) return;
  failed_ = true;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.user_data = this;
  param.cb.send = [](void* request, ucs_status_t, void* user) {
    ucp_request_free(request);
    static_cast<Endpoint*>(user)->closed_ = true;
  };
  const ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &param);
  if (!UCS_PTR_IS_PTR(request)) closed_ = true;
}

}  // namespace kith::comm::ucx
