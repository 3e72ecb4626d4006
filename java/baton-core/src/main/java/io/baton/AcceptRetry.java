package io.baton;

import java.util.concurrent.TimeUnit;

/**
 * Lets an accept that failed for lack of descriptors or memory wait a while, so that the error
 * costs no processor time (rule 11 of the contract). For the lane's thread.
 */
final class AcceptRetry extends Timed {
  private static final long SHORTEST = TimeUnit.MILLISECONDS.toNanos(10);
  private static final long LONGEST = TimeUnit.SECONDS.toNanos(1);
  private static final System.Logger LOG = System.getLogger("io.baton");

  private final Lane lane;
  private final ChannelTransfer transfer;
  private Operation last;
  private long wait;

  AcceptRetry(Lane lane, ChannelTransfer transfer) {
    this.lane = lane;
    this.transfer = transfer;
  }

  boolean isWaiting() {
    return heapIndex != NOT_IN_HEAP;
  }

  void backOff(Throwable error) {
    lane.demultiplexor.acceptBackOffs.increment();
    boolean again = last == transfer.operation && wait > 0;
    wait = again ? Math.min(2 * wait, LONGEST) : SHORTEST;
    last = transfer.operation;
    deadline = System.nanoTime() + wait;
    lane.timers.add(this);
    if (!again) {
      LOG.log(
          System.Logger.Level.WARNING,
          "accept failed: {0}; it is tried again until it succeeds",
          error.getMessage());
    }
  }

  @Override
  void expired() {
    transfer.start();
  }

  @Override
  void run() {
    throw new AssertionError("a retry is never queued");
  }
}
