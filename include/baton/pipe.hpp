// Pipe: one end of a pipe, or a FIFO, a terminal, a character device: a stream that is not a
// socket. Reading and writing come from Stream. Standard input is adopted as borrowed.
#pragma once

#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"
#include "baton/stream.hpp"

namespace baton {

struct PipePair;

class BATON_EXPORT Pipe : public Stream {
 public:
  Pipe() noexcept = default;  ///< closed

  /// A new pipe. Errors: the system's, Proactor::adopt's.
  static Result<PipePair> create(Proactor& proactor, Home home = {}) noexcept;
  /// From a descriptor (see Proactor::adopt). On failure the caller keeps it.
  static Result<Pipe> adopt(Proactor& proactor, NativeHandle native,
                            Ownership ownership = Ownership::owned, Home home = {}) noexcept;

 private:
  friend class IoObject;
  using Stream::Stream;
};

/// Both ends of a new pipe.
struct PipePair {
  Pipe reader;  ///< what is written can be read here
  Pipe writer;  ///< where to write
};

}  // namespace baton
