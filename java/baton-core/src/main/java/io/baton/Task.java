package io.baton;

/** Something for a lane to do; in one queue at a time. */
abstract class Task {
  Task next;
  Task previous;

  /** Runs on the lane's thread, and throws nothing. */
  abstract void run();
}
