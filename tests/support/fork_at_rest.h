/* fork for tests whose child allocates: the allocator of gcc's address sanitizer has locks that
 * another thread may hold at the fork, and in the child they are never released. So the other
 * threads must first be seen asleep, twice in a row. Without that sanitizer it is fork. */
#ifndef FORK_AT_REST_H
#define FORK_AT_REST_H

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether every other thread sleeps, by the state in /proc/self/task/ID/stat (proc(5)). */
static inline int others_sleep(void) {
  DIR* const tasks = opendir("/proc/self/task");
  const struct dirent* entry;
  int asleep = 1;
  while (asleep && (entry = readdir(tasks)) != NULL) {
    char path[300];
    char line[512];
    const char* state;
    FILE* stat;
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)getpid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
    stat = fopen(path, "r");
    if (stat == NULL) continue; /* it has ended */
    state = fgets(line, sizeof line, stat) != NULL ? strrchr(line, ')') : NULL;
    fclose(stat);
    asleep = state == NULL || state[2] == 'S';
  }
  closedir(tasks);
  return asleep;
}

/* Called by the first thread of the process. */
static inline pid_t fork_at_rest(void) {
#ifdef __SANITIZE_ADDRESS__
  while (!(others_sleep() && others_sleep())) sched_yield();
#endif
  return fork();
}

#endif
