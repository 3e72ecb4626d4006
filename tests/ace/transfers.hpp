// What the tests of transfers share: files, datagrams, transmit-file.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "support.hpp"

namespace baton::ace::test {

/// A file of the test's own, deleted at once.
inline int scratch_file() {
  char name[] = "/tmp/ace_test_XXXXXX";
  const int fildes = ::mkostemp(name, O_CLOEXEC);
  EXPECT_GE(fildes, 0);
  ::unlink(name);
  return fildes;
}

/// The values of a completion.
struct Ended {
  int count = 0;
  std::size_t bytes = 0;
  int success = -1;
  u_long error = 0;
  const void* act = nullptr;
  int priority = 0;
  int signal_number = 0;
  u_long offset = 0;

  template <class Result>
  void take(const Result& result) {
    ++count;
    bytes = result.bytes_transferred();
    success = result.success();
    error = result.error();
    act = result.act();
    priority = result.priority();
    signal_number = result.signal_number();
    offset = result.offset();
  }
};

class Taker final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    read.take(result);
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    written.take(result);
  }
  void handle_read_file(const ACE_Asynch_Read_File::Result& result) override { read.take(result); }
  void handle_write_file(const ACE_Asynch_Write_File::Result& result) override {
    written.take(result);
  }
  void handle_read_dgram(const ACE_Asynch_Read_Dgram::Result& result) override {
    read.take(result);
    EXPECT_EQ(0, result.remote_address(sender));
  }
  void handle_write_dgram(const ACE_Asynch_Write_Dgram::Result& result) override {
    written.take(result);
  }
  void handle_transmit_file(const ACE_Asynch_Transmit_File::Result& result) override {
    written.take(result);
    to_write = result.bytes_to_write();
    per_send = result.bytes_per_send();
  }
  Ended read;
  Ended written;
  ACE_INET_Addr sender{static_cast<u_short>(0), INADDR_LOOPBACK};  // of the expected family
  std::size_t to_write = 0;
  std::size_t per_send = 0;
};

class Transfers : public AceTest {
 protected:
  Taker taker_;
  int act_ = 0;
};

}  // namespace baton::ace::test
