// Files.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>

#include "../support/descriptors.hpp"
#include "baton/file.hpp"
#include "baton/pipe.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

/// A file in memory, opened by its name under /proc; `flags` beside read and write.
struct Opened {
  explicit Opened(World& world, FileFlags flags = FileFlags::none)
      : memory(::memfd_create("faults", MFD_CLOEXEC)) {
    const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
    auto opened = File::open(world.proactor(), path, FileFlags::read_write | flags);
    if (world.take(opened)) file = std::move(*opened);
  }
  const test::Fd memory;
  File file;
};

void write_read_sync(World& world) {
  const Text<5'000> text;
  char buffer[5'000] = {};
  Account writing(world), reading(world), syncing(world), data_syncing(world);
  Opened opened(world);
  if (!opened.file.is_open()) return;
  world.start(writing, [&](auto& op, auto handler) {
    return opened.file.write_all_at(op, 0, text.all(), handler);
  });
  if (!world.settle()) return;
  world.start(syncing, [&](auto& op, auto handler) { return opened.file.sync(op, handler); });
  world.start(data_syncing,
              [&](auto& op, auto handler) { return opened.file.data_sync(op, handler); });
  world.start(reading, [&](auto& op, auto handler) {
    return opened.file.read_exactly_at(op, 0, buffer, handler);
  });
  world.settle();
  world.check(reading.bytes == sizeof buffer, "all of it");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void many_at_once(World& world) {
  static const Text<1'600> text;
  char buffer[1'600] = {};
  std::array<std::optional<Account>, 16> accounts;
  Opened opened(world);
  if (!opened.file.is_open()) return;
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    world.start(accounts[i].emplace(world), [&](auto& op, auto handler) {
      return opened.file.write_all_at(op, i * 100, text.part(i * 100, 100), handler);
    });
  }
  if (!world.settle()) return;
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    world.start(*accounts[i], [&](auto& op, auto handler) {
      return opened.file.read_exactly_at(op, i * 100, MutableBuffer{buffer + i * 100, 100},
                                         handler);
    });
  }
  if (!world.settle()) return;
  EXPECT_TRUE(is_sent(buffer, sizeof buffer));
}

void appends_in_order(World& world) {
  const Text<90> text;
  char buffer[90] = {};
  Account a(world), b(world), c(world), reading(world);
  Opened opened(world, FileFlags::append);
  if (!opened.file.is_open()) return;
  std::size_t at = 0;
  for (Account* account : {&a, &b, &c}) {
    world.start(*account, [&](auto& op, auto handler) {
      return opened.file.append_all(op, text.part(at, 30), handler);
    });
    at += 30;
  }
  if (!world.settle()) return;
  world.start(reading, [&](auto& op, auto handler) {
    return opened.file.read_exactly_at(op, 0, buffer, handler);
  });
  world.settle();
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void vectored_past_the_end(World& world) {
  const Text<40> text;
  char buffer[60] = {};
  const std::array from{text.part(0, 15), text.part(15, 25)};
  const std::array to{MutableBuffer{buffer, 20}, MutableBuffer{buffer + 20, 40}};
  Account writing(world), reading(world);
  Account too_far(world, make_error_code(errc::end_of_stream));
  char more[10];
  Opened opened(world);
  if (!opened.file.is_open()) return;
  world.start(writing, [&](auto& op, auto handler) {
    return opened.file.write_all_vectored_at(op, 0, from, handler);
  });
  if (!world.settle()) return;
  world.start(reading, [&](auto& op, auto handler) {
    return opened.file.read_vectored_at(op, 0, to, handler);
  });
  world.start(too_far, [&](auto& op, auto handler) {
    return opened.file.read_exactly_at(op, 35, more, handler);
  });
  world.settle();
  world.check(too_far.bytes <= 5 && too_far.error == make_error_code(errc::end_of_stream),
              "the file ends");
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void files_are_cancelled_and_closed(World& world) {
  static const Text<100> text;
  const auto cancelled = std::make_error_code(std::errc::operation_canceled);
  std::array<std::optional<Account>, 8> accounts;
  Account closing(world);
  Opened opened(world);
  if (!opened.file.is_open()) return;
  for (auto& account : accounts) {
    world.start(account.emplace(world, cancelled), [&](auto& op, auto handler) {
      return opened.file.write_all_at(op, 0, text.all(), handler);
    });
  }
  opened.file.cancel();
  world.start(closing, [&](auto& op, auto handler) { return opened.file.close(op, handler); });
  world.settle();
  for (const auto& account : accounts) {
    if (account) world.check(account->done(), "complete before its close");
  }
}

// Files have no readiness: workers of a readiness engine do this.
void a_device(World& world) {
  const Text<20> text;
  char buffer[20] = {};
  Account writing(world), reading(world);
  const int fd = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  auto device = Pipe::adopt(world.proactor(), fd);
  if (!world.take(device)) {
    ::close(fd);
    return;
  }
  world.start(writing,
              [&](auto& op, auto handler) { return device->write_all(op, text.all(), handler); });
  world.start(reading,
              [&](auto& op, auto handler) { return device->read_exactly(op, buffer, handler); });
  world.settle();
  world.check(reading.bytes == sizeof buffer, "zeros without end");
}

}  // namespace

void add_files(std::vector<Scenario>& list) {
  list.insert(list.end(), {{"write_read_sync", write_read_sync},
                           {"many_at_once", many_at_once, 2},
                           {"appends_in_order", appends_in_order},
                           {"vectored_past_the_end", vectored_past_the_end},
                           {"files_are_cancelled_and_closed", files_are_cancelled_and_closed},
                           {"a_device", a_device}});
}

}  // namespace baton::faults
