#include "kith/train/data/jpeg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith::train {
namespace {

constexpr std::int64_t kEighths = 8;  // JPEG's scales are n/8

struct Failure {
  jpeg_error_mgr manager;  // first: libjpeg knows this part
  std::jmp_buf leave;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void fail(j_common_ptr info) {
  auto* const failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message.data());
  std::longjmp(failure->leave, 1);
}

// Decoded pixels, and which part of the image they are.
struct Decoded {
  std::vector<std::uint8_t> pixels;
  std::int64_t width = 0, height = 0, colours = 3;
  // The wanted part within them, in their pixels.
  double left = 0, top = 0, across = 0, down = 0;
};

// libjpeg leaves a failed call by longjmp, over no C++ object that would have to be destroyed: what this
// holds lives outside the calls.
class Decoder {
 public:
  explicit Decoder(const JpegRequest& request) : request_(request) {
    info_.err = ::jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = fail;
    // A damaged image is an error, not a warning with grey below.
    failure_.manager.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) fail(info);
    };
    ::jpeg_create_decompress(&info_);
  }
  ~Decoder() { ::jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  Decoded decode() {
    if (!read_header()) refuse();
    const Crop crop = request_.crop(info_.image_width, info_.image_height);
    choose_scale(crop);
    if (!start()) refuse();
    place(crop);
    if (!crop_columns()) refuse();
    decoded_.pixels.resize(static_cast<std::size_t>(decoded_.width * decoded_.height * decoded_.colours));
    if (!read_rows()) refuse();
    return std::move(decoded_);
  }

 private:
  [[noreturn]] void refuse() const {
    throw InputError(cat("is no JPEG that can be read: ", failure_.message.data()), request_.place,
                     "replace or remove it");
  }

  bool read_header() {
    if (setjmp(failure_.leave) != 0) return false;
    ::jpeg_mem_src(&info_, request_.bytes.data(), request_.bytes.size());
    ::jpeg_read_header(&info_, TRUE);
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four ? JCS_CMYK : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;
    return true;
  }

  void choose_scale(const Crop& crop) {
    info_.scale_denom = kEighths;
    info_.scale_num = kEighths;
    const std::int64_t least = std::min(crop.width, crop.height);
    for (unsigned eighths = kEighths; eighths > 1; eighths /= 2) {
      if (least * (eighths / 2) < request_.side * kEighths) break;
      info_.scale_num = eighths / 2;
    }
  }

  bool start() {
    if (setjmp(failure_.leave) != 0) return false;
    ::jpeg_start_decompress(&info_);
    return true;
  }

  // In pixels of the scaled image; neighbours of the part's edges are needed too.
  void place(const Crop& crop) {
    const double scale = static_cast<double>(info_.scale_num) / kEighths;
    const double left = static_cast<double>(crop.left) * scale, top = static_cast<double>(crop.top) * scale;
    decoded_.across = static_cast<double>(crop.width) * scale;
    decoded_.down = static_cast<double>(crop.height) * scale;
    const auto last_column = static_cast<std::int64_t>(info_.output_width);
    const auto last_row = static_cast<std::int64_t>(info_.output_height);
    first_column_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(left) - 1, 0, last_column - 1);
    first_row_ = std::clamp<std::int64_t>(static_cast<std::int64_t>(top) - 1, 0, last_row - 1);
    const auto end = [](double value, std::int64_t most) {
      return std::min<std::int64_t>(most, static_cast<std::int64_t>(std::ceil(value)) + 1);
    };
    decoded_.width = end(left + decoded_.across, last_column) - first_column_;
    decoded_.height = end(top + decoded_.down, last_row) - first_row_;
    decoded_.colours = info_.output_components;
    decoded_.left = left;
    decoded_.top = top - static_cast<double>(first_row_);
  }

  // libjpeg widens them to whole blocks.
  bool crop_columns() {
    column_ = static_cast<JDIMENSION>(first_column_);
    columns_ = static_cast<JDIMENSION>(decoded_.width);
    if (setjmp(failure_.leave) != 0) return false;
    ::jpeg_crop_scanline(&info_, &column_, &columns_);
    decoded_.left -= column_;
    decoded_.width = columns_;
    return true;
  }

  bool read_rows() {
    if (setjmp(failure_.leave) != 0) return false;
    ::jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(first_row_));
    for (std::int64_t row = 0; row < decoded_.height;) {
      JSAMPROW to = decoded_.pixels.data() + row * decoded_.width * decoded_.colours;
      row += ::jpeg_read_scanlines(&info_, &to, 1);
    }
    return true;
  }

  const JpegRequest& request_;
  jpeg_decompress_struct info_{};
  Failure failure_{};
  Decoded decoded_;
  std::int64_t first_column_ = 0, first_row_ = 0;
  JDIMENSION column_ = 0, columns_ = 0;  // what libjpeg made of the columns
};

// Printers' colours as Adobe stores them, inverted.
void to_rgb(Decoded& decoded) {
  if (decoded.colours == 3) return;
  std::vector<std::uint8_t> rgb;
  rgb.reserve(decoded.pixels.size() / 4 * 3);
  for (std::size_t at = 0; at < decoded.pixels.size(); at += 4) {
    const unsigned black = decoded.pixels[at + 3];
    for (std::size_t c = 0; c < 3; ++c)
      rgb.push_back(static_cast<std::uint8_t>(decoded.pixels[at + c] * black / 255));
  }
  decoded.pixels = std::move(rgb);
  decoded.colours = 3;
}

// Where output pixel i lies between two input pixels: the first, the second, and the second's share.
struct Between {
  std::int64_t first, second;
  float share;
};

std::vector<Between> positions(double from, double length, std::int64_t size, std::int64_t side) {
  std::vector<Between> result;
  for (std::int64_t i = 0; i < side; ++i) {
    const double at = from + (static_cast<double>(i) + 0.5) * length / static_cast<double>(side) - 0.5;
    const double whole = std::floor(at);
    const auto first = static_cast<std::int64_t>(whole);
    result.push_back({std::clamp<std::int64_t>(first, 0, size - 1),
                      std::clamp<std::int64_t>(first + 1, 0, size - 1), static_cast<float>(at - whole)});
  }
  return result;
}

std::vector<std::uint8_t> scale(const Decoded& image, std::int64_t side) {
  const std::vector<Between> columns = positions(image.left, image.across, image.width, side);
  const std::vector<Between> rows = positions(image.top, image.down, image.height, side);
  std::vector<std::uint8_t> result(static_cast<std::size_t>(3 * side * side));
  std::uint8_t* to = result.data();
  for (const Between& row : rows) {
    const std::uint8_t* const above = image.pixels.data() + 3 * row.first * image.width;
    const std::uint8_t* const below = image.pixels.data() + 3 * row.second * image.width;
    for (const Between& column : columns) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const auto mix = [&](const std::uint8_t* line) {
          const auto left = static_cast<float>(line[3 * column.first + c]);
          return left + column.share * (static_cast<float>(line[3 * column.second + c]) - left);
        };
        const float upper = mix(above);
        *to++ = static_cast<std::uint8_t>(upper + row.share * (mix(below) - upper) + 0.5f);
      }
    }
  }
  return result;
}

void mirror(std::vector<std::uint8_t>& pixels, std::int64_t side) {
  for (std::int64_t y = 0; y < side; ++y) {
    std::uint8_t* const row = pixels.data() + 3 * side * y;
    for (std::int64_t x = 0; x < side / 2; ++x)
      std::swap_ranges(row + 3 * x, row + 3 * x + 3, row + 3 * (side - 1 - x));
  }
}

}  // namespace

bool reads_jpeg() {
  return true;
}

std::vector<std::uint8_t> decode_jpeg(const JpegRequest& request) {
  bool mirrored = false;
  JpegRequest noting = request;
  noting.crop = [&](std::int64_t width, std::int64_t height) {
    const Crop crop = request.crop(width, height);
    mirrored = crop.mirrored;
    return crop;
  };
  Decoded decoded = Decoder(noting).decode();
  to_rgb(decoded);
  std::vector<std::uint8_t> pixels = scale(decoded, request.side);
  if (mirrored) mirror(pixels, request.side);
  return pixels;
}

}  // namespace kith::train
