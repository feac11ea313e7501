// Operations and their ends, in words and in the caller's structs.

#ifndef OPTIREDUCE_CLIENT_DESCRIBE_H_
#define OPTIREDUCE_CLIENT_DESCRIBE_H_

#include <cstdint>
#include <string>

#include "client/op_table.h"
#include "client/optireduce.h"
#include "proto/shm_abi.h"

namespace optireduce::client {

// "all_reduce avg float32, 1000 elements, bounded", "saving its state"
std::string DescribeOp(const Op& op);

// Why `op`, which the daemon answered with an error, failed, and what to do
// about it. `data_offset` turns offsets into addresses of the caller, whose
// data area begins at `data`.
std::string DescribeFailure(const Op& op, const uint8_t* data,
                            uint64_t data_offset);

// Why the daemon refused what `answer` is about, and what to do about it.
std::string DescribeRefusal(const OptireduceShmCompletion& answer,
                            const uint8_t* data, uint64_t data_offset);

// The account of an op that has ended, but for `step_open`, which may change
// after the end.
or_report MakeReport(const Op& op);

// "[0x7f0000001000, 0x7f0000001040)"
std::string DescribeRange(const Range& range, const uint8_t* data,
                          uint64_t data_offset);

// "1, 2, 5"; at most 16 ranks by number.
std::string DescribeRanks(const uint64_t (&bits)[OR_MAX_WORLD / 64]);

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_DESCRIBE_H_
