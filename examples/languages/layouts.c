/* Prints every struct of baton.h: its size, and offset and size of each member. A binding in
 * another language compares its own layouts with these (examples/languages/layouts.py).
 *
 *   baton_config 24
 *   baton_config.size 0 4
 */
#include <baton.h>
#include <stddef.h>
#include <stdio.h>

#define STRUCT(type) printf(#type " %zu\n", sizeof(type))
#define MEMBER(type, member) \
  printf(#type "." #member " %zu %zu\n", offsetof(type, member), sizeof(((type*)0)->member))

int main(void) {
  STRUCT(baton_config);
  MEMBER(baton_config, size);
  MEMBER(baton_config, completion_size);
  MEMBER(baton_config, slots);
  MEMBER(baton_config, flags);
  MEMBER(baton_config, text);
  STRUCT(baton_endpoint);
  MEMBER(baton_endpoint, address);
  MEMBER(baton_endpoint, length);
  MEMBER(baton_endpoint, reserved);
  STRUCT(baton_option);
  MEMBER(baton_option, size);
  MEMBER(baton_option, level);
  MEMBER(baton_option, name);
  MEMBER(baton_option, value_size);
  MEMBER(baton_option, value);
  STRUCT(baton_socket);
  MEMBER(baton_socket, size);
  MEMBER(baton_socket, kind);
  MEMBER(baton_socket, family);
  MEMBER(baton_socket, backlog);
  MEMBER(baton_socket, local);
  MEMBER(baton_socket, options);
  MEMBER(baton_socket, option_count);
  MEMBER(baton_socket, reserved);
  STRUCT(baton_buffer);
  MEMBER(baton_buffer, data);
  MEMBER(baton_buffer, size);
  STRUCT(baton_operation);
  MEMBER(baton_operation, size);
  MEMBER(baton_operation, kind);
  MEMBER(baton_operation, flags);
  MEMBER(baton_operation, handle);
  MEMBER(baton_operation, tag);
  MEMBER(baton_operation, data);
  MEMBER(baton_operation, length);
  MEMBER(baton_operation, offset);
  MEMBER(baton_operation, deadline_ns);
  MEMBER(baton_operation, endpoint);
  MEMBER(baton_operation, delimiter);
  MEMBER(baton_operation, delimiter_size);
  MEMBER(baton_operation, notify);
  STRUCT(baton_completion);
  MEMBER(baton_completion, tag);
  MEMBER(baton_completion, result);
  MEMBER(baton_completion, activation);
  MEMBER(baton_completion, error);
  MEMBER(baton_completion, kind);
  MEMBER(baton_completion, reserved);
  MEMBER(baton_completion, data);
  MEMBER(baton_completion, handle);
  STRUCT(baton_batch);
  MEMBER(baton_batch, size);
  MEMBER(baton_batch, count);
  MEMBER(baton_batch, operations);
  MEMBER(baton_batch, activations);
  MEMBER(baton_batch, taken);
  MEMBER(baton_batch, why_not);
  STRUCT(baton_state);
  MEMBER(baton_state, size);
  MEMBER(baton_state, state);
  MEMBER(baton_state, result);
  MEMBER(baton_state, error);
  MEMBER(baton_state, reserved);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("standard output");
    return 1;
  }
  return 0;
}
