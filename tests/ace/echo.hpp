// A full-duplex echo: each side has a read and a write in flight at the same time.
#pragma once

#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_Connector.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>

#include "support.hpp"

namespace baton::ace::test {

/// A connection that reads all the time, and writes its queue. It is deleted when its last
/// operation is complete after a failure or the peer's end.
class Session : public ACE_Service_Handler {
 public:
  ~Session() override {
    if (this->handle() != ACE_INVALID_HANDLE) ::close(this->handle());
  }
  void open(ACE_HANDLE handle, ACE_Message_Block&) override {
    bool last = false;
    {
      const std::lock_guard guard{mutex_};
      ++pending_;  // this function
      EXPECT_EQ(0, reader_.open(*this, handle, nullptr, proactor()));
      EXPECT_EQ(0, writer_.open(*this, handle, nullptr, proactor()));
      opened();
      read();
      last = leave();
    }
    if (last) delete this;
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    bool last = false;
    {
      const std::lock_guard guard{mutex_};
      ACE_Message_Block& block = result.message_block();
      if (result.success() && result.bytes_transferred() > 0) {
        arrived(block.rd_ptr(), block.length());
        if (!closing_) read();
      } else {
        closing_ = true;
      }
      block.release();
      last = leave();
    }
    if (last) delete this;
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    bool last = false;
    {
      const std::lock_guard guard{mutex_};
      if (!result.success()) closing_ = true;
      result.message_block().release();
      writing_ = false;
      written();
      write_next();
      last = leave();
    }
    if (last) delete this;
  }

 protected:
  virtual void opened() {}
  virtual void arrived(const char* data, std::size_t size) = 0;
  virtual void written() {}

  void send(const char* data, std::size_t size) {
    auto* const block = new ACE_Message_Block(size);
    block->copy(data, size);
    queue_.push_back(block);
    write_next();
  }
  void half_close() { ::shutdown(handle(), SHUT_WR); }
  [[nodiscard]] std::size_t queued() const { return queue_.size() + (writing_ ? 1 : 0); }

 private:
  void read() {
    auto* const block = new ACE_Message_Block(1'021);
    ++pending_;
    if (reader_.read(*block, block->space()) == 0) return;
    --pending_;
    closing_ = true;
    block->release();
  }
  void write_next() {
    if (writing_ || queue_.empty()) return;
    ACE_Message_Block* const block = queue_.front();
    queue_.pop_front();
    ++pending_;
    if (!closing_ && writer_.write(*block, block->length()) == 0) {
      writing_ = true;
      return;
    }
    --pending_;
    block->release();
    write_next();
  }
  bool leave() { return --pending_ == 0; }

  std::mutex mutex_;  // reads and writes complete in any thread
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
  std::deque<ACE_Message_Block*> queue_;
  int pending_ = 0;
  bool writing_ = false;
  bool closing_ = false;
};

class EchoServer final : public Session {
 protected:
  void arrived(const char* data, std::size_t size) override { send(data, size); }
};

/// Sends a pattern of its own, two blocks ahead of the answers, and checks each byte.
class EchoClient final : public Session {
 public:
  struct Totals {
    Count done;  ///< clients that are deleted
    std::atomic<long> right{0};
    std::atomic<std::uint32_t> next{0};
    std::size_t bytes = 0;  ///< that each sends
  };
  static inline Totals* totals = nullptr;

  ~EchoClient() override {
    if (received_ == totals->bytes && !wrong_) totals->right.fetch_add(1);
    totals->done.add();
  }

 protected:
  void opened() override { fill(); }
  void arrived(const char* data, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) {
      if (data[i] != pattern(received_ + i)) wrong_ = true;
    }
    received_ += size;
    fill();
    if (received_ == totals->bytes) half_close();
  }
  void written() override { fill(); }

 private:
  static constexpr std::size_t block = 700;
  [[nodiscard]] char pattern(std::size_t at) const {
    return static_cast<char>((at * 31 + at / 251 + number_ * 17) & 0xff);
  }
  void fill() {
    char data[block];
    while (sent_ < totals->bytes && sent_ - received_ < 8 * block && queued() < 2) {
      const std::size_t size = std::min(block, totals->bytes - sent_);
      for (std::size_t i = 0; i < size; ++i) data[i] = pattern(sent_ + i);
      sent_ += size;
      send(data, size);
    }
  }

  const std::uint32_t number_ = totals->next.fetch_add(1);
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  bool wrong_ = false;
};

}  // namespace baton::ace::test
