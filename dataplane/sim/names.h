// Names of enumerations in JSON and on the command line.

#ifndef OPTIREDUCE_DATAPLANE_SIM_NAMES_H_
#define OPTIREDUCE_DATAPLANE_SIM_NAMES_H_

#include <optional>
#include <string>
#include <string_view>

#include "dataplane/core/engine_core.h"
#include "dataplane/core/report.h"
#include "dataplane/core/types.h"
#include "dataplane/sim/scenario.h"
#include "gradcodec/dtype.h"
#include "proto/wire.h"

namespace optireduce::sim {

std::string_view NameOf(core::SubmitResult result);
std::string_view NameOf(core::OpStatus status);
std::string_view NameOf(core::EndCause cause);

std::optional<core::Collective> CollectiveFrom(const std::string& name);
std::optional<gradcodec::ReduceOp> ReduceOpFrom(const std::string& name);
std::optional<gradcodec::Dtype> DtypeFrom(const std::string& name);
std::optional<core::Mode> ModeFrom(const std::string& name);
std::optional<core::Codec> CodecFrom(const std::string& name);
std::optional<core::FillPolicy> FillPolicyFrom(const std::string& name);
std::optional<InputKind> InputKindFrom(const std::string& name);
std::optional<Ending> EndingFrom(const std::string& name);
std::optional<ScriptAction> ScriptActionFrom(const std::string& name);
std::optional<wire::PacketType> PacketTypeFrom(const std::string& name);

}  // namespace optireduce::sim

#endif  // OPTIREDUCE_DATAPLANE_SIM_NAMES_H_
