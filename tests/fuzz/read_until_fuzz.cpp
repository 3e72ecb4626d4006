// Compares read_until with a search in the whole stream: the same text, in chunks and a buffer of
// any size, gives the same lines. Lines are read as programs read them: bytes after a delimiter
// move to the front, and the next read begins with them.
//
// The first byte chooses the engine. Everything runs in this thread: after each sent chunk there is
// a completion exactly if the reference expects one.
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "baton.h"
#include "baton/limits.hpp"
#include "expect.hpp"
#include "input.hpp"
#include "proactors.hpp"

namespace baton::fuzz {
namespace {

constexpr std::size_t buffer_max = 300;
constexpr std::size_t stream_max = 32'768;  // a socket holds that much
constexpr std::int64_t patience_ns = 20'000'000'000;

class Reader {
 public:
  Reader(baton_proactor* proactor, std::string_view delimiter, std::size_t room)
      : proactor_(proactor), delimiter_(delimiter), room_(room) {
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
           "there is a pair of sockets");
    peer_ = ends[1];
    expect(baton_adopt(proactor, ends[0], BATON_STREAM_SOCKET, BATON_OWNED, &handle_) == 0,
           "a socket is adopted");
    start();
  }
  ~Reader() {
    if (peer_ >= 0) ::close(peer_);
    baton_operation close = BATON_OPERATION_INIT;
    close.kind = BATON_CLOSE;
    close.handle = handle_;
    expect(baton_start(proactor_, &close, 1, nullptr, nullptr) == 1, "a handle is closed");
    while (next().kind != BATON_CLOSE) {
    }
  }

  void send(std::string_view chunk) {
    chunk = chunk.substr(0, stream_max - std::min(stream_max, sent_.size()));
    if (chunk.empty()) return;
    expect(::send(peer_, chunk.data(), chunk.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(chunk.size()),
           "the socket holds the stream");
    sent_ += chunk;
    read_all();
  }
  void end() {
    ::close(peer_);
    peer_ = -1;
    read_all();
    expect(ended_, "the end of the stream is told");
  }

 private:
  /// The reference's view of the reader: the stream from the first byte of the buffer on.
  [[nodiscard]] std::string_view window() const {
    return std::string_view(sent_).substr(position_, room_);
  }

  void start() {
    baton_operation read = BATON_OPERATION_INIT;
    read.kind = BATON_READ_STREAM;
    read.flags = BATON_UNTIL;
    read.handle = handle_;
    read.data = buffer_.data();
    read.length = room_;
    read.offset = filled_;
    read.delimiter = delimiter_.data();
    read.delimiter_size = static_cast<std::uint32_t>(delimiter_.size());
    int why = 0;
    const int taken = baton_start(proactor_, &read, 1, nullptr, &why);
    expect(taken == 1 && why == 0, "a read is started", std::to_string(why));
  }

  baton_completion next() {
    baton_completion completion{};
    expect(baton_wait(proactor_, &completion, 1, patience_ns) == 1, "what is due comes");
    return completion;
  }

  /// As many completions as there must be now, and then none.
  void read_all() {
    while (!ended_) {
      const std::size_t found = window().find(delimiter_);
      const bool full = window().size() == room_;
      if (found == std::string_view::npos && !full && peer_ >= 0) break;
      expect_one(next(), found, full);
    }
    baton_completion completion{};
    expect(baton_wait(proactor_, &completion, 1, 0) == 0, "nothing comes before its time");
  }

  void expect_one(const baton_completion& done, std::size_t found, bool full) {
    const auto bytes = static_cast<std::size_t>(done.result);
    expect(bytes <= window().size() && bytes >= filled_, "no more than there is");
    expect(std::string_view(buffer_.data(), bytes) == window().substr(0, bytes),
           "the buffer has the stream's bytes");
    if (found != std::string_view::npos) {
      expect(done.error == 0, "the delimiter is there", std::to_string(done.error));
      expect(bytes >= found + delimiter_.size(), "and was read");
      consume(found + delimiter_.size(), bytes);
    } else if (full) {
      expect(done.error == BATON_DELIMITER_NOT_FOUND, "a full buffer is told",
             std::to_string(done.error));
      expect(bytes == room_, "when it is full");
      consume(bytes, bytes);
    } else {
      expect(done.error == BATON_END_OF_STREAM, "the end is told", std::to_string(done.error));
      expect(bytes == window().size(), "with what came before");
      ended_ = true;
    }
  }

  void consume(std::size_t count, std::size_t bytes) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(count),
              buffer_.begin() + static_cast<std::ptrdiff_t>(bytes), buffer_.begin());
    filled_ = bytes - count;
    position_ += count;
    start();
  }

  baton_proactor* const proactor_;
  const std::string delimiter_;
  const std::size_t room_;
  baton_handle handle_ = 0;
  int peer_ = -1;
  std::array<char, buffer_max> buffer_{};
  std::size_t filled_ = 0;
  std::string sent_;
  std::size_t position_ = 0;  // in the stream, of the buffer's first byte
  bool ended_ = false;
};

void check(Input& input) {
  baton_proactor* const proactor = kept_proactor(input.byte());
  std::string delimiter(input.text().substr(0, limits::delimiter_max));
  if (delimiter.empty()) delimiter = "\n";
  // A buffer that cannot hold the delimiter never finds it.
  const std::size_t room = 1 + static_cast<std::size_t>(input.word(2)) % buffer_max;
  Reader reader(proactor, delimiter, room);
  while (!input.empty()) reader.send(input.text());
  reader.end();
}

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::fuzz::Input input(data, size);
  baton::fuzz::check(input);
  return 0;
}
