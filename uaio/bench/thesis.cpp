// The measurements of the thesis (section 5.2) and some more, over the system's names:
// bench/uaio.py runs it with the system's library and with libuaio-preload.so, in turns.
//
//   uaio_thesis write FILE MEGABYTES      5.2.1: one write of so many megabytes
//   uaio_thesis lists FILE COUNT          5.2.2: 200 MB by one lio_listio of so many writes
//   uaio_thesis lists_direct FILE COUNT   the same past the page cache, to the disk
//   uaio_thesis processes FILE COUNT      5.2.3: so many processes, each reads by a list of 200
//   uaio_thesis fft FILE COUNT            5.2.4: so many pieces of audio are read and transformed
//   uaio_thesis fft_blocking FILE COUNT   the same with read
//   uaio_thesis latency FILE COUNT        cached reads, one after the other
//   uaio_thesis idle FILE COUNT           file reads while 1,000 sockets wait
//
// Prints one line of JSON: seconds, CPU seconds, and how many per second.
#include <aio.h>
#include <fcntl.h>
#include <fftw3.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t megabyte = 1U << 20;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}
void check(bool fine, const char* what) {
  if (!fine) die(what);
}

double clock_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

aiocb request(int file, void* data, std::size_t size, std::size_t offset, int opcode) {
  aiocb block{};
  block.aio_fildes = file;
  block.aio_buf = data;
  block.aio_nbytes = size;
  block.aio_offset = static_cast<off_t>(offset);
  block.aio_lio_opcode = opcode;
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  return block;
}

ssize_t finish(aiocb& block) {
  const aiocb* const list[] = {&block};
  while (aio_error(&block) == EINPROGRESS) aio_suspend(list, 1, nullptr);
  return aio_return(&block);
}

int open_fresh(const std::string& name, int flags = O_TRUNC) {
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | flags, 0600);
  check(file >= 0, "open");
  return file;
}

/// A file with `size` bytes, in the page cache.
int open_filled(const std::string& name, std::size_t size) {
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT, 0600);
  check(file >= 0, "open");
  const std::vector<char> data(megabyte, 'a');
  for (std::size_t at = 0; at < size; at += data.size()) {
    check(::pwrite(file, data.data(), data.size(), static_cast<off_t>(at)) > 0, "pwrite");
  }
  return file;
}

void run_list(std::vector<aiocb>& blocks) {
  std::vector<aiocb*> list;
  for (aiocb& each : blocks) list.push_back(&each);
  check(lio_listio(LIO_WAIT, list.data(), static_cast<int>(list.size()), nullptr) == 0,
        "lio_listio");
  for (aiocb& each : blocks) {
    check(aio_return(&each) == static_cast<ssize_t>(each.aio_nbytes), "aio_return");
  }
}

std::size_t write_once(const std::string& name, std::size_t megabytes) {
  const int file = open_fresh(name);
  std::vector<char> data(megabytes * megabyte, 'w');
  aiocb block = request(file, data.data(), data.size(), 0, LIO_WRITE);
  check(aio_write(&block) == 0, "aio_write");
  check(finish(block) == static_cast<ssize_t>(data.size()), "aio_write");
  return 1;
}

std::size_t write_lists(int file, std::size_t count) {
  // O_DIRECT needs whole pages at offsets that are multiples of a page.
  constexpr std::size_t page = 4'096;
  const std::size_t piece = 200 * megabyte / count / page * page;
  auto* const data = static_cast<char*>(std::aligned_alloc(page, piece));
  check(data != nullptr, "aligned_alloc");
  std::memset(data, 'l', piece);
  std::vector<aiocb> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(request(file, data, piece, i * piece, LIO_WRITE));
  }
  run_list(blocks);
  std::free(data);
  return count;
}

std::size_t read_in_processes(int file, std::size_t count) {
  constexpr std::size_t reads = 200;
  constexpr std::size_t piece = 4U << 10;
  for (std::size_t i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    check(child >= 0, "fork");
    if (child != 0) continue;
    std::vector<char> data(reads * piece);
    std::vector<aiocb> blocks;
    for (std::size_t at = 0; at < reads; ++at) {
      blocks.push_back(request(file, &data[at * piece], piece, at * piece, LIO_READ));
    }
    run_list(blocks);
    ::_exit(0);
  }
  for (std::size_t i = 0; i < count; ++i) {
    int status = 0;
    check(::wait(&status) > 0 && status == 0, "a process");
  }
  return count * reads;
}

// Audio of 16-bit samples, in pieces; the next is read while this one is transformed.
std::size_t transform(int file, std::size_t count, bool blocking) {
  constexpr std::size_t samples = 1U << 15;
  constexpr std::size_t piece = samples * sizeof(short);
  std::vector<short> audio[2] = {std::vector<short>(samples), std::vector<short>(samples)};
  auto* const in = fftw_alloc_real(samples);
  auto* const out = fftw_alloc_complex(samples / 2 + 1);
  const fftw_plan plan = fftw_plan_dft_r2c_1d(static_cast<int>(samples), in, out, FFTW_ESTIMATE);
  aiocb blocks[2];
  double energy = 0;
  const auto begin = [&](std::size_t i) {
    blocks[i % 2] = request(file, audio[i % 2].data(), piece, i * piece, LIO_READ);
    if (!blocking) check(aio_read(&blocks[i % 2]) == 0, "aio_read");
  };
  begin(0);
  for (std::size_t i = 0; i < count; ++i) {
    const ssize_t got =
        blocking ? ::pread(file, audio[i % 2].data(), piece, static_cast<off_t>(i * piece))
                 : finish(blocks[i % 2]);
    check(got == static_cast<ssize_t>(piece), "read");
    if (i + 1 < count) begin(i + 1);
    for (std::size_t at = 0; at < samples; ++at) in[at] = audio[i % 2][at];
    fftw_execute(plan);
    energy += out[1][0] * out[1][0];
  }
  fftw_destroy_plan(plan);
  fftw_free(in);
  fftw_free(out);
  return std::isfinite(energy) ? count : 0;
}

std::size_t read_one_by_one(int file, std::size_t count) {
  char data[4'096];
  for (std::size_t i = 0; i < count; ++i) {
    aiocb block = request(file, data, sizeof(data), (i % 256) * sizeof(data), LIO_READ);
    check(aio_read(&block) == 0, "aio_read");
    check(finish(block) == sizeof(data), "aio_read");
  }
  return count;
}

void leave_sockets_waiting(std::vector<aiocb>& reads, std::vector<char>& bytes) {
  const rlimit many{4'096, 4'096};
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  if (now.rlim_cur < many.rlim_cur) check(::setrlimit(RLIMIT_NOFILE, &many) == 0, "setrlimit");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    int pair[2];
    check(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    reads.push_back(request(pair[0], &bytes[i], 1, 0, LIO_READ));
  }
  for (aiocb& each : reads) check(aio_read(&each) == 0, "aio_read");
}

std::string make_audio(const std::string& name) {
  open_filled(name, 64 * megabyte);
  return name;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fputs(
        "uaio_thesis write|lists|lists_direct|processes|fft|fft_blocking|latency|idle FILE COUNT\n",
        stderr);
    return 2;
  }
  const std::string_view what = arguments[1];
  const std::string name = arguments[2];
  const std::size_t number = std::strtoul(arguments[3], nullptr, 10);
  std::vector<aiocb> waiting;
  std::vector<char> bytes(1'000);
  int file = -1;
  if (what == "lists") file = open_fresh(name);
  if (what == "lists_direct") {
    ::close(open_filled(name, 200 * megabyte));
    file = open_fresh(name, O_DIRECT);
    ::fsync(file);
  }
  if (what == "processes" || what == "latency" || what == "idle") {
    file = open_filled(name, 4 * megabyte);
  }
  if (what == "fft" || what == "fft_blocking") file = ::open(make_audio(name).c_str(), O_RDONLY);
  if (what == "idle") leave_sockets_waiting(waiting, bytes);
  const double begin = clock_seconds(CLOCK_MONOTONIC);
  const double cpu = cpu_seconds(RUSAGE_SELF);
  std::size_t done = 0;
  if (what == "write") done = write_once(name, number);
  if (what == "lists" || what == "lists_direct") done = write_lists(file, number);
  if (what == "processes") done = read_in_processes(file, number);
  if (what == "fft") done = transform(file, number, false);
  if (what == "fft_blocking") done = transform(file, number, true);
  if (what == "latency" || what == "idle") done = read_one_by_one(file, number);
  const double seconds = clock_seconds(CLOCK_MONOTONIC) - begin;
  const double used = cpu_seconds(RUSAGE_SELF) - cpu + cpu_seconds(RUSAGE_CHILDREN);
  check(done != 0, "unknown measurement");
  std::printf("{\"seconds\": %.9f, \"cpu\": %.6f, \"each_us\": %.3f}\n", seconds, used,
              1e6 * seconds / static_cast<double>(done));
  check(std::fflush(stdout) == 0, "standard output");
  // Requests of sockets that nobody writes to are pending.
  ::_exit(0);
}
