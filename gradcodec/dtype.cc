#include "gradcodec/dtype.h"

namespace optireduce::gradcodec {

std::optional<Dtype> DtypeFromWire(uint8_t value) {
  const auto dtype = static_cast<Dtype>(value);
  if (SizeOf(dtype) == 0) return std::nullopt;
  return dtype;
}

std::optional<ReduceOp> ReduceOpFromWire(uint8_t value) {
  if (value < static_cast<uint8_t>(ReduceOp::kSum) ||
      value > static_cast<uint8_t>(ReduceOp::kMax)) {
    return std::nullopt;
  }
  return static_cast<ReduceOp>(value);
}

std::string_view Name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kFloat16:
      return "float16";
    case Dtype::kBfloat16:
      return "bfloat16";
    case Dtype::kFloat64:
      return "float64";
    case Dtype::kInt8:
      return "int8";
    case Dtype::kUint8:
      return "uint8";
    case Dtype::kInt16:
      return "int16";
    case Dtype::kUint16:
      return "uint16";
    case Dtype::kInt32:
      return "int32";
    case Dtype::kUint32:
      return "uint32";
    case Dtype::kInt64:
      return "int64";
    case Dtype::kUint64:
      return "uint64";
  }
  return "unknown";
}

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
  }
  return "unknown";
}

}  // namespace optireduce::gradcodec
