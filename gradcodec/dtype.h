// Element types and reduction operations, and which of their combinations
// exist. The numeric values travel in packets and in shared memory: they never
// change, new ones are appended.
//
// Everything here is a pure function and safe from any thread.
#ifndef OPTIREDUCE_GRADCODEC_DTYPE_H_
#define OPTIREDUCE_GRADCODEC_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace optireduce::gradcodec {

enum class Dtype : uint8_t {
  kFloat32 = 1,
  kFloat16 = 2,   // IEEE 754 binary16
  kBfloat16 = 3,  // the upper half of a binary32
  kFloat64 = 4,
  kInt8 = 5,
  kUint8 = 6,
  kInt16 = 7,
  kUint16 = 8,
  kInt32 = 9,
  kUint32 = 10,
  kInt64 = 11,
  kUint64 = 12,
};

enum class ReduceOp : uint8_t {
  kSum = 1,
  kAvg = 2,
  kMin = 3,
  kMax = 4,
};

// Nothing for a value that names no type or operation (0 included).
std::optional<Dtype> DtypeFromWire(uint8_t value);
std::optional<ReduceOp> ReduceOpFromWire(uint8_t value);

// "float32", "bfloat16", "int8"; "sum", "avg". "unknown" for a value outside
// the enumeration.
std::string_view Name(Dtype dtype);
std::string_view Name(ReduceOp op);

// Bytes per element; 0 for a value outside the enumeration.
constexpr size_t SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kInt8:
    case Dtype::kUint8:
      return 1;
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
    case Dtype::kInt16:
    case Dtype::kUint16:
      return 2;
    case Dtype::kFloat32:
    case Dtype::kInt32:
    case Dtype::kUint32:
      return 4;
    case Dtype::kFloat64:
    case Dtype::kInt64:
    case Dtype::kUint64:
      return 8;
  }
  return 0;
}

constexpr bool IsFloating(Dtype dtype) {
  return dtype == Dtype::kFloat32 || dtype == Dtype::kFloat16 ||
         dtype == Dtype::kBfloat16 || dtype == Dtype::kFloat64;
}

// The published table (README.md). `bounded` is the mode that may lose
// contributions; exact mode is the other one. What is not in the table is
// refused, never approximated: there is no integer average, and nothing that
// must be exact runs in bounded mode.
constexpr bool IsSupported(Dtype dtype, ReduceOp op, bool bounded) {
  if (SizeOf(dtype) == 0) return false;
  switch (op) {
    case ReduceOp::kSum:
      return !bounded || IsFloating(dtype);
    case ReduceOp::kAvg:
      return IsFloating(dtype);
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return !bounded;
  }
  return false;
}

}  // namespace optireduce::gradcodec

#endif  // OPTIREDUCE_GRADCODEC_DTYPE_H_
