// 04: copying a file, with several blocks on their way at once, and a progress line.
//
//   04_copy_file SOURCE TARGET
//
// Requests at offsets promise no order, so four tasks copy block after block, each whichever is
// next. They live in a scope, which waits for all of them, and whose strand lets them share plain
// variables.

#include <array>
#include <baton/baton.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace {

using namespace std::chrono_literals;
constexpr std::size_t block = 128 * 1024;

struct Copy {
  baton::File source;
  baton::File target;
  std::uint64_t size = 0;
  std::uint64_t next = 0;  // where the next block begins
  std::uint64_t done = 0;
};

baton::Task<void> copy_blocks(Copy& copy) {
  const auto buffer = std::make_unique<std::array<std::byte, block>>();
  while (copy.next < copy.size) {
    const std::uint64_t offset = std::exchange(copy.next, copy.next + block);
    const std::size_t bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(block, copy.size - offset));
    // Both are single operations, however many system calls they take.
    const auto read = co_await copy.source.read_exactly_at(offset, {buffer->data(), bytes});
    if (!read) throw std::system_error(read.error(), "read");
    const auto written = co_await copy.target.write_all_at(offset, {buffer->data(), bytes});
    if (!written) throw std::system_error(written.error(), "write");
    copy.done += bytes;
  }
}

baton::Task<void> show_progress(baton::Proactor& proactor, const Copy& copy) {
  // Ends when the copying is complete, or when its failure has cancelled the scope.
  while (copy.done < copy.size) {
    const auto slept = co_await baton::sleep_for(proactor, 100ms);
    if (!slept) break;
    std::fprintf(stderr, "\r%3llu %%", 100ULL * copy.done / copy.size);
  }
}

baton::Task<void> copy_file(baton::Proactor& proactor, const char* from, const char* to) {
  using baton::FileFlags;
  Copy copy;
  auto source = baton::File::open(proactor, from, FileFlags::read);
  if (!source) throw std::system_error(source.error(), from);
  auto target =
      baton::File::open(proactor, to, FileFlags::write | FileFlags::create | FileFlags::truncate);
  if (!target) throw std::system_error(target.error(), to);
  copy.source = std::move(*source);
  copy.target = std::move(*target);
  copy.size = copy.source.size().value();

  baton::Scope copying{proactor};
  for (int i = 0; i < 4; ++i) copying.spawn(copy_blocks(copy));
  copying.spawn(show_progress(proactor, copy));
  co_await copying.join();  // throws what one of them threw; the others are cancelled then

  if (auto synced = co_await copy.target.data_sync(); !synced) {
    throw std::system_error(synced.error(), "sync");
  }
  std::fprintf(stderr, "\r%llu bytes\n", static_cast<unsigned long long>(copy.done));
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
