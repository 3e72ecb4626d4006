// 04: copying a file, with several blocks on their way at once, and a progress line.
//
//   04_copy_file SOURCE TARGET
//
// Requests at offsets promise no order, so four tasks copy block after block, each whichever is
// next. They live in a scope, which waits for all of them, and whose strand lets them share plain
// variables. The end is where a read brings nothing: the files of /proc have no size, and others
// may grow meanwhile.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <baton/baton.hpp>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace {

using namespace std::chrono_literals;
constexpr std::size_t block = 128 * 1024;
constexpr int tasks = 4;

struct Copy {
  baton::File source;
  baton::File target;
  std::uint64_t next = 0;                                         // where the next block begins
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  // found by reading
  std::uint64_t done = 0;
  int working = tasks;
};

// As much of a block as the source has.
baton::Task<std::size_t> read_block(Copy& copy, std::uint64_t offset, baton::MutableBuffer buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size) {
    auto* const rest = static_cast<std::byte*>(buffer.data) + filled;
    const auto read = co_await copy.source.read_at(offset + filled, {rest, buffer.size - filled});
    if (!read) throw std::system_error(read.error(), "read");
    if (*read == 0) break;
    filled += *read;
  }
  co_return filled;
}

baton::Task<void> copy_blocks(Copy& copy) {
  const auto buffer = std::make_unique<std::array<std::byte, block>>();
  while (copy.next < copy.end) {
    const std::uint64_t offset = std::exchange(copy.next, copy.next + block);
    const std::size_t bytes = co_await read_block(copy, offset, *buffer);
    if (bytes < block) copy.end = std::min(copy.end, offset + bytes);
    // A single operation, however many system calls it takes.
    const auto written = co_await copy.target.write_all_at(offset, {buffer->data(), bytes});
    if (!written) throw std::system_error(written.error(), "write");
    copy.done += bytes;
  }
  --copy.working;
}

baton::Task<void> show_progress(baton::Proactor& proactor, const Copy& copy) {
  // Ends when the copying is complete, or when its failure has cancelled the scope.
  while (copy.working > 0) {
    const auto slept = co_await baton::sleep_for(proactor, 100ms);
    if (!slept) break;
    std::fprintf(stderr, "\r%llu bytes", static_cast<unsigned long long>(copy.done));
  }
}

struct stat status_of(const baton::File& file) {
  struct stat status{};
  if (::fstat(file.native(), &status) != 0) {
    throw std::system_error(errno, std::system_category(), "fstat");
  }
  return status;
}

// Cuts the target off; what is no regular file, like /dev/null, has no length.
void set_length(const baton::File& file, std::uint64_t length) {
  if (!S_ISREG(status_of(file).st_mode)) return;
  if (::ftruncate(file.native(), static_cast<off_t>(length)) != 0) {
    throw std::system_error(errno, std::system_category(), "truncate");
  }
}

baton::Task<void> copy_file(baton::Proactor& proactor, const char* from, const char* to) {
  using baton::FileFlags;
  Copy copy;
  auto source = baton::File::open(proactor, from, FileFlags::read);
  if (!source) throw std::system_error(source.error(), from);
  // Without FileFlags::truncate: both may be one file, by the same name or by another.
  auto target = baton::File::open(proactor, to, FileFlags::write | FileFlags::create);
  if (!target) throw std::system_error(target.error(), to);
  copy.source = std::move(*source);
  copy.target = std::move(*target);
  const auto one = status_of(copy.source);
  const auto other = status_of(copy.target);
  if (one.st_dev == other.st_dev && one.st_ino == other.st_ino) {
    throw std::runtime_error("SOURCE and TARGET are the same file; nothing was copied");
  }
  set_length(copy.target, 0);

  baton::Scope copying{proactor};
  for (int i = 0; i < tasks; ++i) copying.spawn(copy_blocks(copy));
  copying.spawn(show_progress(proactor, copy));
  co_await copying.join();  // throws what one of them threw; the others are cancelled then
  // A source that grew meanwhile: nothing from behind the end that was found.
  set_length(copy.target, copy.end);

  if (auto synced = co_await copy.target.data_sync(); !synced) {
    throw std::system_error(synced.error(), "sync");
  }
  std::fprintf(stderr, "\r%llu bytes\n", static_cast<unsigned long long>(copy.end));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: 04_copy_file SOURCE TARGET\n");
    return 2;
  }
  try {
    baton::Proactor proactor{baton::Config::from_environment()};
    baton::run_until_complete(proactor, copy_file(proactor, argv[1], argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "04_copy_file: %s\n", error.what());
    return 1;
  }
}
