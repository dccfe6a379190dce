#include "kith/train/data/jpeg.h"

#include "kith/base/error.h"

namespace kith::train {

bool reads_jpeg() {
  return false;
}

std::vector<std::uint8_t> decode_jpeg(const JpegRequest& request) {
  throw InputError("this kith was built without libjpeg", request.place,
                   "install libjpeg62-turbo-dev and build again");
}

}  // namespace kith::train
