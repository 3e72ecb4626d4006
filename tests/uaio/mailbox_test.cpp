// The messages to the keeper: from this process only, and nothing is left behind.
#include "mailbox.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

namespace uaio {
namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

TEST(Mailbox, TrialLeavesNoDescriptor) {
  const std::ptrdiff_t before = open_descriptors();
  Mailbox mailbox;
  const int listener = mailbox.listen();
  ASSERT_GE(listener, 0);
  EXPECT_EQ(open_descriptors(), before + 1);
  ::close(listener);
}

// A message is a pointer.
TEST(Mailbox, HearsNoOtherProcess) {
  Mailbox mailbox;
  const int listener = mailbox.listen();
  ASSERT_GE(listener, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(mailbox.connect() == 0 && mailbox.send(nullptr, -1) == Mailbox::Sent::sent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it can send";
  EXPECT_EQ(Mailbox::accept(listener), -1);
  EXPECT_EQ(mailbox.connect(), 0);
  const int receiver = Mailbox::accept(listener);
  EXPECT_GE(receiver, 0);
  ::close(receiver);
  mailbox.close_sender();
  ::close(listener);
}

}  // namespace
}  // namespace uaio
