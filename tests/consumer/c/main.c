/* A program in plain C99 with the installed header. It listens, connects to itself, sends a word
 * and receives it, on the engine that the argument names. */
#include <baton.h>
#include <stdio.h>
#include <string.h>

static baton_proactor* proactor;

static int fail(const char* what, int error) {
  char text[128];
  baton_error_text(error, text, sizeof text);
  fprintf(stderr, "%s: %s\n", what, text);
  return 1;
}

static baton_operation operation(int kind, baton_handle handle, uint64_t tag) {
  baton_operation made = BATON_OPERATION_INIT;
  made.kind = (uint16_t)kind;
  made.handle = handle;
  made.tag = tag;
  return made;
}

/* Starts it and brings completions until `pending` of them are there; the one with the tag. */
static int bring(baton_completion* last, int pending, uint64_t tag) {
  while (pending > 0) {
    baton_completion done;
    const int count = baton_wait(proactor, &done, 1, 10000000000LL);
    if (count != 1) return fail("baton_wait", -count);
    if (done.error != 0) return fail("a completion", done.error);
    if (done.tag == tag) *last = done;
    --pending;
  }
  return 0;
}

static int echo(void) {
  static char word[] = "hello";
  char heard[8] = "";
  char where[64];
  baton_handle listener;
  baton_handle client;
  baton_handle server;
  baton_endpoint here;
  baton_operation made;
  baton_completion done = {0};
  int error = baton_listen(proactor, "127.0.0.1:0", 4, &listener);
  if (error != 0) return fail("baton_listen", error);
  error = baton_local_endpoint(proactor, listener, &here);
  if (error != 0) return fail("baton_local_endpoint", error);
  baton_endpoint_print(&here, where, sizeof where);
  made = operation(BATON_ACCEPT, listener, 1);
  if (baton_start(proactor, &made, 1, NULL, &error) != 1) return fail("accept", error);
  error = baton_connect(proactor, where, 2, 0, &client, NULL);
  if (error != 0) return fail("baton_connect", error);
  if (bring(&done, 2, 1) != 0) return 1;
  error = baton_adopt(proactor, (int)done.result, BATON_STREAM_SOCKET, BATON_OWNED, &server);
  if (error != 0) return fail("baton_adopt", error);

  made = operation(BATON_READ_STREAM, server, 3);
  made.data = heard;
  made.length = sizeof heard;
  if (baton_start(proactor, &made, 1, NULL, &error) != 1) return fail("read", error);
  made = operation(BATON_WRITE_STREAM, client, 4);
  made.data = word;
  made.length = strlen(word);
  if (baton_start(proactor, &made, 1, NULL, &error) != 1) return fail("write", error);
  if (bring(&done, 2, 3) != 0) return 1;
  if (done.result != (int64_t)strlen(word) || strcmp(word, heard) != 0) {
    fprintf(stderr, "heard '%s'\n", heard);
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  baton_config config = BATON_CONFIG_INIT;
  char why[256];
  int failed;
  config.text = argc > 1 ? argv[1] : "engine=emulated";
  if (baton_open(&config, &proactor, why, sizeof why) != 0) {
    fprintf(stderr, "baton_open: %s\n", why);
    return 1;
  }
  failed = echo();
  baton_close(proactor);
  if (failed == 0) printf("Baton %s from C\n", baton_version());
  return failed;
}
