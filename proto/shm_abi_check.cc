// Compiles the ABI as C++.
#include "proto/shm_abi.h"
