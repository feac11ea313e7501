// Integers of a given byte order at any address, on a host of any byte order.
// Little-endian is ours; big-endian is that of Ethernet and IP headers.

#ifndef OPTIREDUCE_DATAPLANE_BASE_BYTE_ORDER_H_
#define OPTIREDUCE_DATAPLANE_BASE_BYTE_ORDER_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace optireduce {

namespace byte_order_internal {

static_assert(std::endian::native == std::endian::little ||
              std::endian::native == std::endian::big);

constexpr uint16_t Swap(uint16_t v) { return __builtin_bswap16(v); }
constexpr uint32_t Swap(uint32_t v) { return __builtin_bswap32(v); }
constexpr uint64_t Swap(uint64_t v) { return __builtin_bswap64(v); }

// Between the host's order and little-endian; its own inverse.
template <class T>
constexpr T Convert(T value) {
  return std::endian::native == std::endian::little ? value : Swap(value);
}

template <class T>
T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return Convert(value);
}

template <class T>
void Store(void* to, T value) {
  value = Convert(value);
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace byte_order_internal

// Each reads or writes exactly the bytes its name says; no alignment needed.

inline uint16_t LoadLe16(const void* from) {
  return byte_order_internal::Load<uint16_t>(from);
}
inline uint32_t LoadLe24(const void* from) {
  const auto* bytes = static_cast<const uint8_t*>(from);
  return LoadLe16(bytes) | uint32_t{bytes[2]} << 16;
}
inline uint32_t LoadLe32(const void* from) {
  return byte_order_internal::Load<uint32_t>(from);
}
inline uint64_t LoadLe64(const void* from) {
  return byte_order_internal::Load<uint64_t>(from);
}

inline void StoreLe16(void* to, uint16_t value) {
  byte_order_internal::Store(to, value);
}
// Stores the low 24 bits.
inline void StoreLe24(void* to, uint32_t value) {
  auto* bytes = static_cast<uint8_t*>(to);
  StoreLe16(bytes, static_cast<uint16_t>(value));
  bytes[2] = static_cast<uint8_t>(value >> 16);
}
inline void StoreLe32(void* to, uint32_t value) {
  byte_order_internal::Store(to, value);
}
inline void StoreLe64(void* to, uint64_t value) {
  byte_order_internal::Store(to, value);
}

inline uint16_t LoadBe16(const void* from) {
  return byte_order_internal::Swap(LoadLe16(from));
}
inline uint32_t LoadBe32(const void* from) {
  return byte_order_internal::Swap(LoadLe32(from));
}

inline void StoreBe16(void* to, uint16_t value) {
  StoreLe16(to, byte_order_internal::Swap(value));
}
inline void StoreBe32(void* to, uint32_t value) {
  StoreLe32(to, byte_order_internal::Swap(value));
}

}  // namespace optireduce

#endif  // OPTIREDUCE_DATAPLANE_BASE_BYTE_ORDER_H_
