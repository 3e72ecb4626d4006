#include "driver.hpp"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "engines/linux_aio/engine.hpp"

namespace baton::test {

std::ostream& operator<<(std::ostream& out, const Form& form) {
  return out << (form.concurrent ? "any" : "single") << (form.hide_ring ? "_no_ring" : "");
}

std::string form_name(const testing::TestParamInfo<Form>& form) {
  return testing::PrintToString(form.param);
}

std::vector<Form> forms() {
  return {{}, {.hide_ring = true}, {.concurrent = false}, {.concurrent = false, .hide_ring = true}};
}

namespace {

Result<std::unique_ptr<Engine>, Failure> open_engine(const Form& form) {
  const os::System& system = aio_system();
  aio_faults().hide_ring = form.hide_ring;
  ProcessorConfig config;
  config.started_max = form.started_max;
  config.workers = form.workers;
  EngineOptions options;
  options.system = &system;
  options.config = &config;
  options.concurrent = form.concurrent;
  return engines::open_linux_aio(options);
}

}  // namespace

Driver::Driver(const Form& form) : EngineDriver(open_engine(form), os::real_system()) {}

Driver::~Driver() {
  const bool hidden = aio_faults().hide_ring;
  static_cast<void>(aio_system());
  aio_faults().hide_ring = hidden;
}

testing::AssertionResult same(std::string_view left, std::string_view right) {
  if (left == right) return testing::AssertionSuccess();
  const std::size_t common = std::min(left.size(), right.size());
  std::size_t at = 0;
  while (at < common && left[at] == right[at]) ++at;
  return testing::AssertionFailure()
         << left.size() << " and " << right.size() << " bytes, different at " << at;
}

void Direct::open(const Form& form) {
  const int fd = temporary_file(O_DIRECT);
  if (fd < 0) GTEST_SKIP() << "the folder for temporary files has no O_DIRECT: " << strerror(errno);
  driver = std::make_unique<Driver>(form);
  handle = driver->adopt(fd);
  const Block all{text};
  ASSERT_EQ(::pwrite(fd, all.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

std::string Direct::content(std::size_t offset, std::size_t size) const {
  const Block found{size};
  const ssize_t got = ::pread(handle->native(), found.data(), size, static_cast<off_t>(offset));
  return std::string{found.text().substr(0, got > 0 ? static_cast<std::size_t>(got) : 0)};
}

}  // namespace baton::test
