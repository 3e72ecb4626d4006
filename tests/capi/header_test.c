/* The header is plain C99 and needs nothing else. */
#include <baton.h>

baton_config a_config = BATON_CONFIG_INIT;
baton_operation an_operation = BATON_OPERATION_INIT;
baton_state a_state = BATON_STATE_INIT;
baton_batch a_batch = BATON_BATCH_INIT;
baton_option an_option = BATON_OPTION_INIT;
baton_socket a_socket = BATON_SOCKET_INIT;

/* Layouts are part of the interface. */
typedef char config_size[sizeof(baton_config) == 16 + sizeof(char*) ? 1 : -1];
typedef char endpoint_size[sizeof(baton_endpoint) == 120 ? 1 : -1];
typedef char completion_size[sizeof(baton_completion) == 48 - 8 + sizeof(void*) ? 1 : -1];
typedef char operation_size[sizeof(baton_operation) == 80 || sizeof(void*) != 8 ? 1 : -1];
typedef char batch_size[sizeof(baton_batch) == 16 + 2 * sizeof(void*) ? 1 : -1];
typedef char option_size[sizeof(baton_option) == 16 + sizeof(void*) ? 1 : -1];
typedef char socket_size[sizeof(baton_socket) == 24 + 2 * sizeof(void*) ? 1 : -1];
typedef char state_size[sizeof(baton_state) == 24 ? 1 : -1];

int main(void) {
  return a_config.size == sizeof(baton_config) && an_operation.size == sizeof(baton_operation) &&
                 a_state.size == sizeof(baton_state) && a_batch.size == sizeof(baton_batch) &&
                 an_option.size == sizeof(baton_option) && a_socket.size == sizeof(baton_socket) &&
                 baton_version()[0] != '\0'
             ? 0
             : 1;
}
