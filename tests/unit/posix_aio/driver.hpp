// Opens the POSIX AIO engine for an EngineDriver.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "../support/engine_driver.hpp"
#include "engines/posix_aio/engine.hpp"
#include "faults.hpp"

namespace baton::test::aio {

using namespace std::chrono_literals;

/// The notification of the engine, and whether threads share it.
struct Form {
  std::string notify = "suspend";
  bool concurrent = true;
  int signal = 0;
};
std::ostream& operator<<(std::ostream& out, const Form& form);

Result<std::unique_ptr<Engine>, Failure> open_engine(const Form& form,
                                                     const os::System& system = fault_system());
/// The reason why it does not open; empty if it does.
std::string why_not(const Form& form, const os::System& system = fault_system());

class Driver : public EngineDriver {
 public:
  explicit Driver(const Form& form = {});
  ~Driver() { faults().clear(); }

  Handle* adopt(int fd, HandleKind kind = HandleKind::file) {
    return EngineDriver::adopt(fd, kind);
  }
  Submission start(Operation& operation) { return submit(operation); }
  bool complete(Operation& operation) { return submit(operation), run(operation); }
};

/// A test of every strategy, and of suspend without locks.
class EveryForm : public testing::TestWithParam<Form> {
 protected:
  EveryForm() { faults().clear(); }
  ~EveryForm() override { faults().clear(); }
  Driver driver{GetParam()};
};
std::vector<Form> forms();
std::string form_name(const testing::TestParamInfo<Form>& form);

std::string content(int fd);

}  // namespace baton::test::aio

#define BATON_AIO_SUITE(Suite) \
  INSTANTIATE_TEST_SUITE_P(notify, Suite, testing::ValuesIn(forms()), form_name)
