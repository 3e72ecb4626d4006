// Devices of blocks. The kernel writes to them at the place of the write, whatever their flags are.
#include <linux/loop.h>
#include <sys/ioctl.h>

#include "host.hpp"

namespace {

constexpr std::size_t device_size = 4U << 20;

/// A loop device over a file without a name; the device ends with its last descriptor. Skips where
/// there is none.
int loop_device(int flags) {
  const int control = ::open("/dev/loop-control", O_RDWR);
  const int file = host::temporary(0, device_size);
  for (int tries = 0; control >= 0 && tries < 100; ++tries) {
    const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
    const std::string name = "/dev/loop" + std::to_string(number);
    const int device = number >= 0 ? ::open(name.c_str(), O_RDWR | flags) : -1;
    if (device < 0) break;
    loop_config config{};
    config.fd = static_cast<unsigned>(file);
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (::ioctl(device, LOOP_CONFIGURE, &config) == 0) return device;
    const bool taken = errno == EBUSY;  // another process was quicker
    ::close(device);
    if (!taken) break;
  }
  host::skip("may not make a loop device");
}

}  // namespace

HOST_CASE(appends_to_a_device_keep_their_places, "kinds of files") {
  for (const int kind : {0, O_DIRECT, O_SYNC}) {
    const int device = loop_device(O_APPEND | kind);
    // The second one is too large for the page cache, and so the keeper's.
    for (const std::size_t size : {std::size_t{4'096}, std::size_t{2} << 20}) {
      char* const data = static_cast<char*>(host::aligned(size));
      std::memset(data, 'd', size);
      const auto place = static_cast<off_t>(device_size - size);
      aiocb write = host::request(device, data, size, place);
      CHECK(aio_write(&write) == 0 && host::finish(write) == static_cast<ssize_t>(size));
      char* const read = static_cast<char*>(host::aligned(size));
      CHECK(::pread(device, read, size, place) == static_cast<ssize_t>(size));
      CHECK(std::memcmp(read, data, size) == 0);
      CHECK(::pread(device, read, 4'096, 0) == 4'096 && read[0] != 'd');
      // The part that fits; then nothing does.
      write = host::request(device, data, size, device_size - 4'096);
      CHECK(aio_write(&write) == 0 && host::finish(write) == 4'096);
      write = host::request(device, data, size, device_size);
      CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == ENOSPC);
      write = host::request(device, data, size, -1);
      CHECK(aio_write(&write) == 0 && host::finish(write) == -1 && errno == EINVAL);
    }
    CHECK(::lseek(device, 0, SEEK_CUR) == 0);
    ::close(device);
  }
}
