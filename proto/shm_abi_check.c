/* Compiles the ABI as C11. */
#include "proto/shm_abi.h"
