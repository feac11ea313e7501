#include "control/optictl/render.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "control/optictl/explain.h"
#include "control/optictl/table.h"

namespace optireduce::control {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

// ---- one field --------------------------------------------------------------

std::string TextOf(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    std::vector<std::string> elements;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      elements.push_back(
          field.cpp_type() == FieldDescriptor::CPPTYPE_STRING
              ? reflection.GetRepeatedString(message, &field, i)
              : absl::StrCat(reflection.GetRepeatedUInt32(message, &field, i)));
    }
    return absl::StrJoin(elements, ",");
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrFormat("%.6g", reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      // Of fixed width are only the names of formations.
      if (field.type() == FieldDescriptor::TYPE_FIXED32) {
        return absl::StrFormat("%08x", reflection.GetUInt32(message, &field));
      }
      return absl::StrCat(reflection.GetUInt32(message, &field));
    default:
      return "";
  }
}

Json JsonOf(const Message& message);

Json JsonOf(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  if (field.has_presence() && !reflection.HasField(message, &field)) {
    return nullptr;
  }
  if (field.is_repeated()) {
    Json list = Json::array();
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_STRING:
          list.push_back(reflection.GetRepeatedString(message, &field, i));
          break;
        case FieldDescriptor::CPPTYPE_MESSAGE:
          list.push_back(
              JsonOf(reflection.GetRepeatedMessage(message, &field, i)));
          break;
        default:
          list.push_back(reflection.GetRepeatedUInt32(message, &field, i));
      }
    }
    return list;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return JsonOf(reflection.GetMessage(message, &field));
    default:
      return reflection.GetUInt32(message, &field);
  }
}

// ---- whole messages ---------------------------------------------------------

Json JsonOf(const Message& message) {
  Json object = Json::object();
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    object[field.name()] = JsonOf(message, field);
  }
  return object;
}

// The answer that a reply holds.
const Message& BodyOf(const Reply& reply) {
  const auto& oneof = *reply.GetDescriptor()->oneof_decl(0);
  const auto& reflection = *reply.GetReflection();
  return reflection.GetMessage(
      reply, reflection.GetOneofFieldDescriptor(reply, &oneof));
}

// The rows of an answer that is a list; null if it is none.
const FieldDescriptor* RowsOf(const Message& body) {
  const FieldDescriptor& first = *body.GetDescriptor()->field(0);
  return first.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ? &first
                                                              : nullptr;
}

std::string Upper(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string ListTable(const Message& body, const FieldDescriptor& rows_field) {
  const auto& columns = *rows_field.message_type();
  std::vector<Row> rows(1);
  for (int c = 0; c < columns.field_count(); ++c) {
    rows[0].push_back(Upper(columns.field(c)->name()));
  }
  const auto& reflection = *body.GetReflection();
  for (int r = 0; r < reflection.FieldSize(body, &rows_field); ++r) {
    const Message& message =
        reflection.GetRepeatedMessage(body, &rows_field, r);
    Row& row = rows.emplace_back();
    for (int c = 0; c < columns.field_count(); ++c) {
      const std::string text = TextOf(message, *columns.field(c));
      row.push_back(text.empty() ? "-" : text);
    }
  }
  return Align(rows);
}

std::string ObjectTable(const Message& body) {
  std::vector<Row> rows;
  const auto& descriptor = *body.GetDescriptor();
  const auto& reflection = *body.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (!field.is_repeated()) {
      rows.push_back({field.name(), TextOf(body, field)});
      continue;
    }
    for (int n = 0; n < reflection.FieldSize(body, &field); ++n) {
      rows.push_back(
          {field.name(), reflection.GetRepeatedString(body, &field, n)});
    }
  }
  return Align(rows);
}

}  // namespace

std::string ToTable(const Reply& reply) {
  if (reply.has_ops()) return OpsTable(reply.ops());
  const Message& body = BodyOf(reply);
  const FieldDescriptor* rows = RowsOf(body);
  return rows != nullptr ? ListTable(body, *rows) : ObjectTable(body);
}

std::string ToJson(const Reply& reply) {
  Json json = Json::object();
  if (reply.has_stats()) {
    for (const auto& counter : reply.stats().counters()) {
      json[counter.name()] = counter.value();
    }
  } else if (reply.has_config()) {
    for (const auto& entry : reply.config().entries()) {
      json[entry.key()] = {{"value", entry.value()},
                           {"origin", entry.origin()},
                           {"where", entry.where()}};
    }
  } else {
    json = JsonOf(BodyOf(reply));
  }
  // Not every text that a client gave need be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace optireduce::control
