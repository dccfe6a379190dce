#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kith::comm::etcd {

// Bytes as etcd's JSON carries them (RFC 4648, with padding).
std::string to_base64(std::string_view bytes);
// Nothing when the text is not that.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace kith::comm::etcd
