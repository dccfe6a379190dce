#include "kith/base/dtype.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "kith/base/error.h"
#include "kith/base/text.h"

namespace kith {

namespace {

DType parse_one_of(std::initializer_list<DType> types, std::string_view text, std::string_view place) {
  std::vector<std::string> names;
  for (DType type : types) {
    if (text == name_of(type)) return type;
    names.emplace_back(name_of(type));
  }
  throw InputError(cat("'", text, "' is not an element type"), place, suggest(text, names));
}

}  // namespace

DType parse_dtype(std::string_view text, std::string_view place) {
  return parse_one_of({DType::f32, DType::f64, DType::bf16, DType::f16}, text, place);
}

DType parse_wire(std::string_view text, std::string_view place) {
  return parse_one_of({DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8}, text, place);
}

}  // namespace kith
