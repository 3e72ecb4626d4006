package io.baton.nio2;

import io.baton.DemultiplexorBuilder;
import java.util.concurrent.Future;

/** Where the completion handlers of a group run. */
interface Handlers {

  /** Sets the lanes of the group. */
  void configure(DemultiplexorBuilder builder);

  /** The group is open. */
  void opened(Group group);

  /** The group could not be opened: ends threads that the program has not seen. */
  void notOpened();

  /** Brings a completion to a thread for handlers. Any thread; never calls the program inside. */
  void dispatch(Pending<?, ?> completed);

  /** Calls the handler, or moves the completion on if the program must not be called here. */
  void arrived(Pending<?, ?> completed);

  /** Whether the calling thread is a lane, which must not wait for a lane. */
  boolean isLane();

  /** Whether a handler, or an executor, holds up a lane now. */
  boolean laneIsBusy();

  /**
   * Does the lane's work while one of its handlers waits for a future; returns at once on other
   * threads.
   *
   * @param nanoseconds Long.MAX_VALUE: without limit
   */
  void helpWhileWaiting(Future<?> future, long nanoseconds) throws InterruptedException;

  /**
   * Does the lane's work while one of its handlers closes a socket, so that nothing of the socket's
   * operations touches a buffer afterwards; returns at once outside of handlers.
   */
  void helpWhileClosing(GroupSocket socket);

  /** The lanes have ended, and no completion comes any more. */
  void end();
}
