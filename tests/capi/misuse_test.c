/* Misuse: every function of baton.h with no proactor and a closed one, and, on an open one, with
 * each of these: nowhere to write, a size field of rubbish, a handle or an activation that was
 * never given out, a count below none. Each is answered as the header says.
 *
 * usage: misuse_test CONFIGURATION */
#include "misuse_calls.h"

/* Numbers that a proactor never gave out. */
static uint64_t never[512] = {0, 1, UINT32_MAX, 1ULL << 32, 1ULL << 63, INT64_MAX, UINT64_MAX};
enum { FIXED = 7 };

static void make_numbers(baton_proactor* proactor, baton_proactor* other) {
  baton_operation timer = operation(BATON_TIMER, 0, UINT64_MAX - 1);
  uint64_t random = 88172645463325252ULL;
  int ends[2];
  size_t i = FIXED;
  CHECK_EQUAL(pipe(ends), 0);
  never[i++] = adopt(other, ends[0], BATON_PIPE);
  timer.deadline_ns = INT64_MAX;
  never[i++] = start(other, timer);
  never[i++] = adopt(proactor, ends[1], BATON_PIPE); /* no more */
  CHECK_EQUAL(baton_handle_close(proactor, never[i - 1]), 0);
  for (; i < COUNT_OF(never); ++i) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    /* Half of them are near to what is given out. */
    never[i] = i % 2 != 0 ? random : random & 0x300000007ULL;
  }
}

static const uint32_t sizes[] = {0, 1, 1U << 31, UINT32_MAX};
static const int counts[] = {-1, INT_MIN};

/* `closed`: the proactor is closed, or none. */
static void expect_answer(size_t row, baton_proactor* proactor, int closed, wrong how, int answer) {
  const long long told_now = rows[row].call(proactor, &how);
  const long long expected = closed ? rows[row].closed : answer;
  if (told_now == expected) return;
  fprintf(stderr, "%s (%s, nowhere %d, size %d %u, number %llx, count %d): %lld, not %lld\n",
          rows[row].name,
          proactor == NULL ? "none"
          : closed         ? "closed"
                           : "open",
          how.nowhere, how.sized, how.size, (unsigned long long)how.number, how.count, told_now,
          expected);
  abort();
}

static void expect_answers(baton_proactor* proactor, int closed) {
  size_t row;
  size_t i;
  for (row = 0; row < COUNT_OF(rows); ++row) {
    const wrong right = {0, 0, 0, 0, 1};
    wrong how = right;
    if (closed) expect_answer(row, proactor, closed, right, 0);
    how.nowhere = 1;
    if (rows[row].nowhere != NONE) expect_answer(row, proactor, closed, how, rows[row].nowhere);
    how = right;
    how.sized = 1;
    for (i = 0; i < COUNT_OF(sizes) && rows[row].sized != 0; ++i) {
      how.size = sizes[i];
      expect_answer(row, proactor, closed, how, (i < 2 ? EINVAL : E2BIG) * rows[row].sized);
    }
    how = right;
    for (i = 0; i < COUNT_OF(never) && rows[row].number != NONE; ++i) {
      how.number = never[i];
      expect_answer(row, proactor, closed, how, rows[row].number);
    }
    how = right;
    for (i = 0; i < COUNT_OF(counts) && rows[row].count != NONE; ++i) {
      how.count = counts[i];
      expect_answer(row, proactor, closed, how, rows[row].count);
    }
  }
}

/* Counts beyond every array: nothing is read or written behind what the slots allow. */
static void expect_huge_counts(baton_proactor* proactor) {
  baton_operation posts[SLOTS + 1];
  const baton_completion none[SLOTS] = {0};
  baton_completion* const out = (baton_completion*)(void*)(wall - sizeof none);
  baton_activation names[SLOTS + 1];
  int brought = 0;
  int why = 0;
  int i;
  for (i = 0; i <= SLOTS; ++i) posts[i] = operation(BATON_POST, 0, 1);
  CHECK_EQUAL(baton_start(proactor, at_the_wall(posts, sizeof posts), INT_MAX, names, &why), SLOTS);
  CHECK_EQUAL(why, EAGAIN);
  at_the_wall(none, sizeof none);
  while (brought < SLOTS) {
    const int count = baton_wait(proactor, out, INT_MAX, INT64_MAX);
    CHECK(count > 0);
    brought += count;
  }
  CHECK_EQUAL(baton_wait(proactor, out, INT_MAX, 0), 0);
}

/* A closed one is told from those that are opened until 64 more were closed. */
static void expect_closed_is_kept(const char* configuration) {
  baton_proactor* const first = open_proactor(configuration, SLOTS);
  int i;
  baton_close(first);
  for (i = 0; i < 64; ++i) {
    baton_proactor* const next = open_proactor(configuration, SLOTS);
    CHECK(next != first);
    CHECK_EQUAL(baton_wait(first, done, 1, -1), -EINVAL);
    if (i < 63) baton_close(first); /* once more, which does not count */
    baton_close(next);
  }
}

/* These need no proactor. */
static const char* const others =
    "baton_version baton_open baton_engines baton_engine_reason baton_error_text "
    "baton_endpoint_parse baton_endpoint_print baton_pool_open baton_pool_give "
    "baton_pool_available baton_pool_close ";

static void expect_open_refuses(void) {
  baton_config config = BATON_CONFIG_INIT;
  baton_proactor* opened = NULL;
  size_t i;
  config.text = "engine=emulated";
  CHECK_EQUAL(baton_open(&config, NULL, text, sizeof text), EINVAL);
  CHECK_EQUAL(baton_open(NULL, &opened, NULL, sizeof text), EINVAL);
  for (i = 0; i < COUNT_OF(sizes); ++i) {
    config.size = sizes[i];
    CHECK_EQUAL(baton_open(at_the_wall(&config, sizeof config), &opened, text, sizeof text),
                i < 2 ? EINVAL : E2BIG);
    config.size = sizeof config;
    config.completion_size = sizes[i];
    CHECK_EQUAL(baton_open(&config, &opened, text, sizeof text), EINVAL);
    config.completion_size = sizeof(baton_completion);
    CHECK(opened == NULL);
  }
  config.slots = UINT32_MAX;
  CHECK_EQUAL(baton_open(&config, &opened, NULL, 0), EINVAL);
}

static void expect_others_answer(void) {
  baton_pool* pool = NULL;
  baton_endpoint wrong_length;
  CHECK(baton_version() != NULL);
  CHECK(baton_engines(NULL, sizeof text) > 0);
  CHECK_EQUAL(baton_engine_reason(NULL, text, sizeof text), EINVAL);
  CHECK_EQUAL(baton_engine_reason("", NULL, sizeof text), BATON_UNKNOWN_NAME);
  CHECK(baton_error_text(INT_MIN, NULL, sizeof text) > 0);
  CHECK(baton_error_text(INT_MAX, text, 1) > 0);
  CHECK_EQUAL(baton_endpoint_parse(NULL, &endpoint), EINVAL);
  CHECK_EQUAL(baton_endpoint_parse("127.0.0.1:1", NULL), EINVAL);
  CHECK(baton_endpoint_print(NULL, NULL, sizeof text) == baton_endpoint_print(NULL, text, 1));
  memset(&wrong_length, 0xff, sizeof wrong_length);
  CHECK(baton_endpoint_print(&wrong_length, text, sizeof text) ==
        baton_endpoint_print(NULL, text, sizeof text));
  CHECK_EQUAL(baton_pool_open(64, 1, NULL), EINVAL);
  CHECK_EQUAL(baton_pool_open(SIZE_MAX, UINT32_MAX, &pool), EINVAL);
  CHECK_EQUAL(baton_pool_open(0, 1, &pool), EINVAL);
  CHECK_EQUAL(baton_pool_open(64, 0, &pool), EINVAL);
  CHECK_EQUAL(baton_pool_give(NULL, text), EINVAL);
  CHECK_EQUAL(baton_pool_available(NULL), 0);
  CHECK_EQUAL(baton_pool_close(NULL), 0);
  CHECK_EQUAL(baton_pool_open(64, 1, &pool), 0);
  CHECK_EQUAL(baton_pool_give(pool, NULL), EINVAL);
  CHECK_EQUAL(baton_pool_give(pool, text), EINVAL);
  CHECK_EQUAL(baton_pool_close(pool), 0);
}

static int is_called(const char* name) {
  const char* const found = strstr(others, name);
  size_t row;
  for (row = 0; row < COUNT_OF(rows); ++row) {
    if (strcmp(rows[row].name, name) == 0) return 1;
  }
  return found != NULL && found[strlen(name)] == ' ';
}

/* Every function of the header is here. */
static void expect_complete(void) {
  FILE* const file = fopen(HEADER, "r");
  char line[256];
  char name[64];
  int count = 0;
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    const char* function = strchr(line, '(');
    if (strncmp(line, "BATON_API ", 10) != 0) continue;
    CHECK(function != NULL);
    while (function[-1] != ' ' && function[-1] != '*') --function;
    CHECK_EQUAL(sscanf(function, "%63[a-z_]", name), 1);
    if (!is_called(name)) fprintf(stderr, "%s is not called\n", name);
    CHECK(is_called(name));
    ++count;
  }
  CHECK_EQUAL(fclose(file), 0);
  CHECK(count > 40);
}

int main(int argc, char** argv) {
  const char* const configuration = argc > 1 ? argv[1] : "";
  expect_complete();
  build_wall();
  CHECK_EQUAL(baton_endpoint_parse("127.0.0.1:1", &there), 0);
  baton_proactor* const proactor = open_proactor(configuration, SLOTS);
  baton_proactor* const other = open_proactor(configuration, SLOTS);
  baton_proactor* const closed = open_proactor(configuration, SLOTS);
  baton_close(closed);
  make_numbers(proactor, other);
  expect_answers(NULL, 1);
  expect_answers(closed, 1);
  expect_answers(proactor, 0);
  expect_huge_counts(proactor);
  expect_open_refuses();
  expect_others_answer();
  baton_close(proactor);
  baton_close(other);
  expect_closed_is_kept(configuration);
  return 0;
}
