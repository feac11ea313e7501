#include "dataplane/sim/alloc_trap.h"

#include <cstdlib>
#include <new>

namespace optireduce::sim {

thread_local int NoAllocation::depth_ = 0;
thread_local uint64_t NoAllocation::violations_ = 0;

}  // namespace optireduce::sim

namespace {

void* Allocate(std::size_t size) {
  optireduce::sim::NoAllocation::Notice();
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}

void* AllocateAligned(std::size_t size, std::align_val_t alignment) {
  optireduce::sim::NoAllocation::Notice();
  const auto align = static_cast<std::size_t>(alignment);
  void* const memory =
      std::aligned_alloc(align, (size + align - 1) / align * align);
  if (memory == nullptr) std::abort();
  return memory;
}

void Release(void* memory) {
  if (memory != nullptr) optireduce::sim::NoAllocation::Notice();
  std::free(memory);
}

}  // namespace

// The other forms are defined by the library in terms of these.
void* operator new(std::size_t size) { return Allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return AllocateAligned(size, alignment);
}
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  Release(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  Release(memory);
}
void operator delete(void* memory, std::size_t /*size*/,
                     std::align_val_t /*alignment*/) noexcept {
  Release(memory);
}
