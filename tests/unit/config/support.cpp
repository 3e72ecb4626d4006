// Temporary files for the tests of the configuration.
#include "support.hpp"

#include <unistd.h>

namespace baton {

TemporaryFile::TemporaryFile(std::string_view text) : path_(testing::TempDir() + "batonXXXXXX") {
  const int fd = ::mkstemp(path_.data());
  EXPECT_GE(fd, 0);
  EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(fd);
}
TemporaryFile::~TemporaryFile() { ::unlink(path_.c_str()); }

}  // namespace baton
