#include "dataplane/sim/calc.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace optireduce::sim {
namespace {

nlohmann::json Calc(const std::string& name,
                    const std::vector<std::string>& arguments) {
  const auto result = Calculate(name, arguments);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return nlohmann::json::parse(result.ok() ? *result : "{}");
}

std::string Error(const std::string& name,
                  const std::vector<std::string>& arguments) {
  return std::string(Calculate(name, arguments).status().message());
}

TEST(CalcTest, Payload) {
  EXPECT_EQ(Calc("payload", {"mtu=1500"})["payload"], 1424);
  EXPECT_EQ(Calc("payload", {"mtu=100"})["payload"], 0);
}

TEST(CalcTest, ATokenBucketGrantsItsRateExactly) {
  EXPECT_EQ(Calc("token_bucket", {"rate_bps=1000000000"})["granted_bytes"],
            125'000);
  EXPECT_EQ(Calc("token_bucket", {"rate_bps=1000", "time_ns=16000000",
                                  "poll_ns=1000000"})["granted_bytes"],
            2);
}

TEST(CalcTest, SerialNumbersWrap) {
  const auto wrapped = Calc("serial", {"a=4294967295", "b=0"});
  EXPECT_EQ(wrapped["distance"], 1);
  EXPECT_EQ(wrapped["a_before_b"], true);
  EXPECT_EQ(Calc("serial", {"a=0", "b=65535", "bits=16"})["distance"], -1);
  EXPECT_EQ(Calc("serial", {"a=16777215", "b=1", "bits=24"})["distance"], 2);
}

TEST(CalcTest, HadamardInNaturalOrder) {
  EXPECT_EQ(Calc("hadamard", {"values=1,2,3,4"})["coefficients"],
            (std::vector<float>{5, -1, -2, 0}));
  const auto layout = Calc("hadamard_layout", {"count=10240"});
  EXPECT_EQ(layout["coefficients"], 10240);
  EXPECT_EQ(layout["groups"].size(), 2u);
}

TEST(CalcTest, APlanCoversTheBuffer) {
  const auto plan = Calc("plan", {"count=1000", "world=3", "op=5", "tag=9"});
  uint64_t elements = 0;
  for (const auto& owner : plan["owners"]) {
    for (const auto& chunk : owner["list"]) {
      elements += chunk["elements"].get<uint64_t>();
    }
  }
  EXPECT_EQ(elements, 1000u);
  EXPECT_EQ(Calc("rotation", {"world=3", "op=5", "tag=9"})["rotation"],
            plan["rotation"]);
}

TEST(CalcTest, SignsAreNewForEachOpButNotForABucket) {
  const auto seed = [](const char* op, const char* bucket) {
    return Calc("signs", {op, bucket, "tag=3"})["seed"];
  };
  EXPECT_NE(seed("op=1", "bucket=0"), seed("op=2", "bucket=0"));
  EXPECT_EQ(seed("op=1", "bucket=4"), seed("op=2", "bucket=4"));
}

TEST(CalcTest, ErrorsNameTheArgument) {
  EXPECT_EQ(Error("nothing", {}), "no function nothing");
  EXPECT_EQ(Error("payload", {}), "payload: mtu is needed");
  EXPECT_EQ(Error("payload", {"mtu=1500", "mut=1"}),
            "payload: mut means nothing here");
  EXPECT_EQ(Error("payload", {"mtu=x"}),
            "payload: mtu is not a whole number from 0 to 65535");
  EXPECT_EQ(Error("plan", {"count=1", "world=2", "dtype=float31"}),
            "plan: dtype has no value float31");
}

}  // namespace
}  // namespace optireduce::sim
