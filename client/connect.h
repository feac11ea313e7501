// From a socket path to a connection with a segment.

#ifndef OPTIREDUCE_CLIENT_CONNECT_H_
#define OPTIREDUCE_CLIENT_CONNECT_H_

#include <string>

#include "client/control_channel.h"
#include "client/optireduce.h"
#include "client/segment.h"

namespace optireduce::client {

struct Connection {
  std::string path;
  ControlChannel control;
  Segment segment;
};

// As or_connect. While there is no daemon, or it is starting or stopping, tries
// again until the limit.
or_status Connect(const or_connect_options& options, Connection* connection);

// What an error of the daemon's means to our caller.
or_status StatusOf(control::ErrorCode code);

}  // namespace optireduce::client

#endif  // OPTIREDUCE_CLIENT_CONNECT_H_
