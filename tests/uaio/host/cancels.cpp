// Cancels of whole descriptors while another thread starts requests: each request either completes
// or is cancelled, and a cancelled one has moved nothing.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>

#include "host.hpp"

namespace {

constexpr std::size_t count = 64;
using Word = std::uint64_t;

/// The descriptor is cancelled all the time while the requests are started and wait.
void cancel_beside_starts(std::vector<aiocb>& blocks, int (*start)(aiocb*)) {
  const int fildes = blocks[0].aio_fildes;
  std::atomic<bool> started{false};
  std::thread thread{[&] {
    while (!started) CHECK(aio_cancel(fildes, nullptr) >= 0);
  }};
  for (aiocb& each : blocks) CHECK(start(&each) == 0);
  started = true;
  thread.join();
}

/// All threads of the process but this one wait in the kernel.
bool all_others_sleep() {
  const std::filesystem::directory_iterator tasks{"/proc/self/task"};
  return std::all_of(begin(tasks), end(tasks), [](const auto& task) {
    const int thread = std::stoi(task.path().filename());
    return thread == ::gettid() || host::sleeps(thread);
  });
}

/// Whether it is complete, and not cancelled.
bool is_made(aiocb& block) {
  const ssize_t moved = host::finish(block);
  if (moved < 0) {
    CHECK(errno == ECANCELED);
    return false;
  }
  CHECK(moved == static_cast<ssize_t>(block.aio_nbytes));
  return true;
}

/// What has arrived, in words; the writers are done.
std::vector<Word> received(int fildes) {
  std::vector<Word> all;
  Word word = 0;
  pollfd state{fildes, POLLIN, 0};
  while (::poll(&state, 1, 0) == 1) {
    CHECK(::read(fildes, &word, sizeof(word)) == sizeof(word));
    all.push_back(word);
  }
  return all;
}

/// Writes words beside cancels. Returns those whose writes were made.
std::vector<Word> write_words(int out) {
  std::vector<Word> words(count);
  std::vector<aiocb> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = i;
    blocks.push_back(host::request(out, &words[i], sizeof(Word)));
  }
  cancel_beside_starts(blocks, aio_write);
  std::vector<Word> made;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_made(blocks[i])) made.push_back(i);
  }
  return made;
}

void write_to(int in, int out) {
  for (int round = 0; round < host::rounds(); ++round) {
    const std::vector<Word> made = write_words(in);
    CHECK(received(out) == made);
  }
}

}  // namespace

HOST_CASE(cancels_beside_writes_of_files, "answers") {
  for (const int flags : {0, O_DIRECT, O_SYNC}) {
    const std::size_t size = 4'096;
    const int file = host::temporary(flags, count * size);
    const int reader = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY);
    auto* const memory = static_cast<char*>(host::aligned(count * size));
    std::vector<char> back(size);
    for (int round = 0; round < host::rounds(); ++round) {
      // Different in each round.
      std::memset(memory, 1 + round % 100, count * size);
      std::vector<aiocb> blocks;
      for (std::size_t i = 0; i < count; ++i) {
        blocks.push_back(
            host::request(file, memory + i * size, size, static_cast<off_t>(i * size)));
      }
      cancel_beside_starts(blocks, aio_write);
      std::vector<bool> made;
      for (aiocb& each : blocks) made.push_back(is_made(each));
      aiocb sync = host::request(file, nullptr, 0);
      CHECK(aio_fsync(O_SYNC, &sync) == 0 && host::finish(sync) == 0);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(::pread(reader, back.data(), size, static_cast<off_t>(i * size)) == 4'096);
        CHECK((back[0] == memory[0]) == made[i]);
      }
    }
  }
}
HOST_CASE(cancels_beside_appends, "answers") {
  const int file = host::temporary(O_APPEND);
  const int reader = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY);
  for (int round = 0; round < host::rounds(); ++round) {
    CHECK(::ftruncate(file, 0) == 0);
    const std::vector<Word> made = write_words(file);
    std::vector<Word> back(count);
    const ssize_t bytes = ::pread(reader, back.data(), count * sizeof(Word), 0);
    CHECK(bytes >= 0);
    back.resize(static_cast<std::size_t>(bytes) / sizeof(Word));
    CHECK(back == made);
  }
}
HOST_CASE(cancels_beside_writes_of_streams, "answers") {
  host::Pipe pipe;
  write_to(pipe.in(), pipe.out());
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    int ends[2];
    CHECK(::socketpair(AF_UNIX, type, 0, ends) == 0);
    write_to(ends[0], ends[1]);
  }
}
// The bytes of a read that is cancelled are the next one's.
HOST_CASE(cancels_beside_reads, "answers") {
  host::Pipe pipe;
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  const std::array<std::array<int, 2>, 2> pairs{{{pipe.out(), pipe.in()}, {ends[0], ends[1]}}};
  for (const auto& [out, in] : pairs) {
    for (int round = 0; round < host::rounds(); ++round) {
      constexpr std::size_t sent = 8;
      std::vector<Word> words(count, ~Word{0});
      std::vector<aiocb> blocks;
      for (Word& each : words) blocks.push_back(host::request(out, &each, sizeof(Word)));
      std::thread writer{[in = in] {
        for (Word i = 0; i < sent; ++i) CHECK(::write(in, &i, sizeof(i)) == sizeof(i));
      }};
      cancel_beside_starts(blocks, aio_read);
      writer.join();
      CHECK(aio_cancel(out, nullptr) >= 0);
      std::vector<Word> got;
      // Those that the system's library has begun wait for bytes; they get these.
      for (aiocb& each : blocks) {
        const Word filler = sent;
        if (aio_error(&each) == EINPROGRESS) CHECK(::write(in, &filler, sizeof(filler)) == 8);
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (is_made(blocks[i]) && words[i] < sent) got.push_back(words[i]);
      }
      for (const Word each : received(out)) {
        if (each < sent) got.push_back(each);
      }
      CHECK(got.size() == sent);
      for (std::size_t i = 0; i < sent; ++i) CHECK(got[i] == i);
    }
  }
}

// The peer's queue is full, so the first write has begun and waits; the others wait for it.
HOST_CASE(datagram_that_is_being_written_is_not_cancelled, "answers") {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
  const std::vector<char> data(4'096, 'f');
  std::vector<char> got(data.size());
  int queued = 0;
  while (::send(ends[0], data.data(), data.size(), MSG_DONTWAIT) > 0) ++queued;
  char bytes[] = {'a', 'b', 'c'};
  std::vector<aiocb> writes;
  for (char& each : bytes) writes.push_back(host::request(ends[0], &each, 1));
  for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
  host::until(all_others_sleep);  // the system's library has begun by then
  CHECK(aio_cancel(ends[0], &writes[1]) == AIO_CANCELED);
  CHECK(aio_cancel(ends[0], &writes[0]) == AIO_NOTCANCELED);
  CHECK(aio_cancel(ends[0], nullptr) == AIO_NOTCANCELED);
  CHECK(aio_error(&writes[0]) == EINPROGRESS);
  for (aiocb* const each : {&writes[1], &writes[2]}) {
    CHECK(aio_error(each) == ECANCELED && aio_return(each) == -1);
  }
  for (; queued > 0; --queued) CHECK(::read(ends[1], got.data(), got.size()) > 0);
  CHECK(host::finish(writes[0]) == 1);
  CHECK(::read(ends[1], got.data(), got.size()) == 1 && got[0] == 'a');
}

// Each sync waits for those before it. The last one is taken out while the first are at work.
HOST_CASE(sync_behind_a_cancelled_one_is_made, "order") {
  host::end_in_time();
  const std::vector<char> page(4'096, 's');
  const int file = host::temporary();
  for (int i = 0; i < host::rounds(); ++i) {
    CHECK(::pwrite(file, page.data(), page.size(), 0) > 0);
    std::vector<aiocb> syncs(10, host::request(file, nullptr, 0));
    for (aiocb& each : syncs) CHECK(aio_fsync(O_SYNC, &each) == 0);
    CHECK(aio_cancel(file, &syncs.back()) != -1);
    aiocb behind = host::request(file, nullptr, 0);
    CHECK(aio_fsync(O_SYNC, &behind) == 0);
    CHECK(host::finish(behind) == 0);
    for (aiocb& each : syncs) CHECK(host::finish(each) == 0 || errno == ECANCELED);
  }
}
