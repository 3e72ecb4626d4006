// An engine of a user's program, written against the public contract: it forwards everything to
// `emulated`, and breaks the contract on request.
#pragma once

#include <baton/engine.hpp>
#include <string_view>

enum class Fault {
  none,
  end_is_an_error,   // rule 4: the end of a stream comes out as ECONNRESET
  dies_in_shutdown,  // ends the process when an operation of this kind is submitted
  takes_no_files,    // no fault if it is declared: see ConformanceOptions
};

/// Opens an engine that calls itself `name` (a literal).
baton::EngineFactory wrapping_engine(std::string_view name, Fault fault);
