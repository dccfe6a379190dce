#include "kith/base/dtype.h"

#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith {

DType parse_dtype(std::string_view text, std::string_view place) {
  std::vector<std::string> names;
  for (DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    if (text == name_of(type)) return type;
    names.emplace_back(name_of(type));
  }
  throw InputError(cat("'", text, "' is not an element type"), place, suggest(text, names));
}

}  // namespace kith
