package io.baton.nio2;

/** A channel's reaction when a program cancels the future of an operation. */
interface Cancellation {

  /**
   * The future is cancelled. Any thread.
   *
   * @param close whether the channel is to be closed
   */
  void cancelled(Pending<?, ?> operation, boolean close);
}
