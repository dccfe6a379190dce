#include "bench/exchange/gloo_exchange.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

namespace kith::bench {

GlooExchange::GlooExchange(int rank, int size, const std::string& folder) {
  gloo::transport::tcp::attr attr;
  attr.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attr);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  context_ = context;
}

GlooExchange::~GlooExchange() = default;

void GlooExchange::swap(int peer, std::span<float> mine, std::span<float> theirs) {
  auto out = context_->createUnboundBuffer(mine.data(), mine.size_bytes());
  auto in = context_->createUnboundBuffer(theirs.data(), theirs.size_bytes());
  const unsigned long slot = slot_++;
  in->recv(peer, slot);
  out->send(peer, slot);
  in->waitRecv();
  out->waitSend();
}

}  // namespace kith::bench
