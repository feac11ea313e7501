#include "control/authorization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/base/unique_fd.h"

namespace optireduce::control {
namespace {

using ::testing::HasSubstr;

PeerCredentials Peer(uid_t uid, gid_t gid) { return {uid, gid, 0}; }

TEST(AuthorizeTest, WithoutListsTheSocketsPermissionsDecide) {
  EXPECT_TRUE(Authorize({.own_uid = 5}, Peer(1000, 1000)).ok());
}

TEST(AuthorizeTest, AListExcludesAllOthers) {
  const AccessPolicy policy = {.own_uid = 5, .allowed_uids = {1000, 1001}};
  EXPECT_TRUE(Authorize(policy, Peer(1001, 7)).ok());
  const absl::Status status = Authorize(policy, Peer(1002, 7));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("user 1002"));
}

// K04: an allowed group does not let a refused user in.
TEST(AuthorizeTest, BothListsMustLetThePeerIn) {
  const AccessPolicy policy = {
      .own_uid = 5, .allowed_uids = {1000}, .allowed_gids = {2000}};
  EXPECT_TRUE(Authorize(policy, Peer(1000, 2000)).ok());
  EXPECT_THAT(std::string(Authorize(policy, Peer(1001, 2000)).message()),
              HasSubstr("allowed_uid"));
  EXPECT_THAT(std::string(Authorize(policy, Peer(1000, 2001)).message()),
              HasSubstr("group 2001"));
}

TEST(AuthorizeTest, RootAndTheDaemonItselfMayAlways) {
  const AccessPolicy policy = {
      .own_uid = 5, .allowed_uids = {1000}, .allowed_gids = {2000}};
  EXPECT_TRUE(Authorize(policy, Peer(0, 0)).ok());
  EXPECT_TRUE(Authorize(policy, Peer(5, 1)).ok());
}

TEST(ReadPeerCredentialsTest, AreThoseOfWhoMadeTheSocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const UniqueFd first(ends[0]);
  const UniqueFd second(ends[1]);
  const auto peer = ReadPeerCredentials(first.get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->gid, getegid());
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_FALSE(ReadPeerCredentials(-1).ok());
}

}  // namespace
}  // namespace optireduce::control
