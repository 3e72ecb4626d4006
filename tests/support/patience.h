/* How long a test waits for an event: a minute times BATON_TEST_PATIENCE, a number above 0 (1
 * without it). More for a slow machine, less for a run with planted faults. A test ends at the
 * event; only one that fails waits so long. */
#ifndef PATIENCE_H
#define PATIENCE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program when the factor is no such number. */
static inline int64_t test_patience_ns(void) {
  const double minute_ns = 60e9;
  const char* const said = getenv("BATON_TEST_PATIENCE");
  char* end = NULL;
  double factor = 1;
  if (said == NULL) return (int64_t)minute_ns;
  factor = strtod(said, &end);
  if (end == said || *end != '\0' || !(factor > 0 && factor <= 1000)) {
    fprintf(stderr, "BATON_TEST_PATIENCE=%s: it takes a number above 0, at most 1000\n", said);
    abort();
  }
  return (int64_t)(minute_ns * factor);
}

#endif
