/* Helpers for the tests of the C interface: checks, an open proactor, waiting. */
#ifndef CHECK_H
#define CHECK_H

#include <baton.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/patience.h"

#define CHECK(fact)                                                        \
  do {                                                                     \
    if (!(fact)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #fact); \
      abort();                                                             \
    }                                                                      \
  } while (0)

#define CHECK_EQUAL(one, other)                                                                  \
  do {                                                                                           \
    const long long check_one = (long long)(one);                                                \
    const long long check_other = (long long)(other);                                            \
    if (check_one != check_other) {                                                              \
      fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, #one, check_one, \
              #other, check_other);                                                              \
      abort();                                                                                   \
    }                                                                                            \
  } while (0)

enum { SKIPPED = 77 };
#define SECOND 1000000000LL
#define PATIENCE test_patience_ns()

/* A proactor as the command line of the test says; ends the test where the system lacks it. */
static inline baton_proactor* open_proactor(const char* text, uint32_t slots) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* proactor = NULL;
  char why[256];
  int error;
  config.text = text;
  config.slots = slots;
  error = baton_open(&config, &proactor, why, sizeof why);
  if (error == BATON_ENGINE_UNAVAILABLE) {
    printf("skipped: %s\n", why);
    exit(SKIPPED);
  }
  if (error != 0) fprintf(stderr, "baton_open: %s\n", why);
  CHECK_EQUAL(error, 0);
  return proactor;
}

static inline baton_handle adopt(baton_proactor* proactor, int descriptor, int kind) {
  baton_handle handle = 0;
  CHECK_EQUAL(baton_adopt(proactor, descriptor, kind, BATON_OWNED, &handle), 0);
  CHECK(handle != 0);
  return handle;
}

static inline baton_operation operation(int kind, baton_handle handle, uint64_t tag) {
  baton_operation made = BATON_OPERATION_INIT;
  made.kind = (uint16_t)kind;
  made.handle = handle;
  made.tag = tag;
  return made;
}

static inline baton_operation transfer(int kind, baton_handle handle, uint64_t tag,
                                       const void* data, size_t length) {
  baton_operation made = operation(kind, handle, tag);
  made.data = (void*)(uintptr_t)data;
  made.length = length;
  return made;
}

static inline baton_activation start(baton_proactor* proactor, baton_operation made) {
  baton_activation activation = 0;
  int why = -1;
  const int taken = baton_start(proactor, &made, 1, &activation, &why);
  CHECK_EQUAL(why, 0);
  CHECK_EQUAL(taken, 1);
  CHECK(activation != 0);
  return activation;
}

static inline int why_refused(baton_proactor* proactor, baton_operation made) {
  int why = 0;
  CHECK_EQUAL(baton_start(proactor, &made, 1, NULL, &why), 0);
  CHECK(why != 0);
  return why;
}

static inline baton_completion wait_one(baton_proactor* proactor) {
  baton_completion completion;
  CHECK_EQUAL(baton_wait(proactor, &completion, 1, PATIENCE), 1);
  return completion;
}

/* Starts one operation and brings its completion, which must be the next. */
static inline baton_completion perform(baton_proactor* proactor, baton_operation made) {
  const baton_activation activation = start(proactor, made);
  const baton_completion completion = wait_one(proactor);
  CHECK_EQUAL(completion.activation, activation);
  CHECK_EQUAL(completion.tag, made.tag);
  CHECK_EQUAL(completion.kind, made.kind);
  return completion;
}

#endif
