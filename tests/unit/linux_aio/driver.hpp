// Opens the linux_aio engine for an EngineDriver; requests, files and memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "../support/engine_driver.hpp"
#include "engines/linux_aio/linux_aio_engine.hpp"
#include "faults.hpp"

namespace baton::test {

/// How the engine is opened, and whether it may read the ring by itself.
struct Form {
  bool concurrent = true;
  bool hide_ring = false;
  std::uint32_t started_max = 0;
  std::uint32_t workers = 0;
};
std::ostream& operator<<(std::ostream& out, const Form& form);
std::string form_name(const testing::TestParamInfo<Form>& form);
std::vector<Form> forms();

class Driver : public EngineDriver {
 public:
  explicit Driver(const Form& form = {});
  ~Driver();

  [[nodiscard]] engines::linux_aio::LinuxAioEngine& engine() {
    return static_cast<engines::linux_aio::LinuxAioEngine&>(EngineDriver::engine());
  }
  Handle* adopt(int fd, HandleKind kind = HandleKind::file) {
    return EngineDriver::adopt(fd, kind);
  }
  bool complete(Operation& operation) { return submit(operation), run(operation); }
};

// -- requests -------------------------------------------------------------------------------------

inline void set_read(Operation& operation, Handle* handle, MutableBuffer buffer,
                     std::uint64_t offset, std::uint16_t flags = 0) {
  set_file(operation, OperationKind::read_file, handle, buffer, offset, flags);
}
inline void set_write(Operation& operation, Handle* handle, MutableBuffer buffer,
                      std::uint64_t offset, std::uint16_t flags = 0) {
  set_file(operation, OperationKind::write_file, handle, buffer, offset, flags);
}

// -- files and memory -----------------------------------------------------------------------------

/// Shows the first difference, not the whole content.
testing::AssertionResult same(std::string_view left, std::string_view right);

/// Memory that is aligned for O_DIRECT.
class Block {
 public:
  static constexpr std::size_t alignment = 4'096;
  explicit Block(std::size_t size, char fill = '\0')
      : size_(size), data_(new(std::align_val_t{alignment}) char[size]) {
    std::memset(data_.get(), fill, size);
  }
  explicit Block(const std::string& text) : Block(text.size()) {
    std::memcpy(data_.get(), text.data(), text.size());
  }
  [[nodiscard]] char* data() const { return data_.get(); }
  [[nodiscard]] std::string_view text() const { return {data_.get(), size_}; }
  operator MutableBuffer() const { return {data_.get(), size_}; }  // NOLINT: as a string does

 private:
  struct Free {
    void operator()(char* memory) const {
      ::operator delete[](memory, std::align_val_t{alignment});
    }
  };
  std::size_t size_;
  std::unique_ptr<char[], Free> data_;
};

/// A test with a file opened with O_DIRECT, of `blocks` blocks of a pattern; skipped, with the
/// reason, where the file system has none.
class Direct : public testing::Test {
 protected:
  static constexpr std::size_t block = 4'096;
  static constexpr std::size_t blocks = 64;
  void open(const Form& form);
  void SetUp() override { open({}); }
  /// The content of the file, read independently.
  [[nodiscard]] std::string content(std::size_t offset, std::size_t size) const;

  std::string text = pattern(block * blocks);
  std::unique_ptr<Driver> driver;
  Handle* handle = nullptr;
};
class EveryForm : public Direct, public testing::WithParamInterface<Form> {
 protected:
  void SetUp() override { open(GetParam()); }
};

}  // namespace baton::test
