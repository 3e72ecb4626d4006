// Every kind of descriptor of Linux, in the states that matter to an operation.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "baton/handle.hpp"
#include "support/descriptors.hpp"

namespace baton::test {

/// A new descriptor of a kind for each case; `others` keep it in its state.
struct Subject {
  Fd ours;
  std::vector<Fd> others;
};

struct DescriptorKind {
  std::string_view name;
  /// Its right kind, and the wrong ones that a program may name by mistake.
  HandleKind kind;
  Subject (*make)();
  /// Adopted as a file but not one: a worker that reads it in blocking mode may be held for ever.
  bool holds_workers = false;
};

std::span<const DescriptorKind> descriptor_kinds();

}  // namespace baton::test
