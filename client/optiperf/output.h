// The table that people read and the file that programs read.

#ifndef OPTIREDUCE_CLIENT_OPTIPERF_OUTPUT_H_
#define OPTIREDUCE_CLIENT_OPTIPERF_OUTPUT_H_

#include <string>
#include <vector>

#include "client/optiperf/options.h"
#include "client/optiperf/stats.h"

namespace optireduce::optiperf {

std::string FormatHeader(const Options& options);
std::string FormatRow(const Row& row);
std::string FormatFooter(const std::vector<Row>& rows);

std::string FormatJson(const std::vector<Row>& rows);

}  // namespace optireduce::optiperf

#endif  // OPTIREDUCE_CLIENT_OPTIPERF_OUTPUT_H_
