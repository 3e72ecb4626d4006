package io.baton.nio2;

import io.baton.DemultiplexorBuilder;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;

/**
 * Handlers of a group of one thread run on its lane, so that no completion changes threads. A
 * handler that waits for a future does the lane's work meanwhile; completions that arrive inside
 * are postponed, because handlers of this group must not overlap.
 */
final class InlineHandlers implements Handlers {
  private final ThreadFactory factory;
  private final ArrayDeque<Pending<?, ?>> putOff = new ArrayDeque<>();
  private volatile Thread lane;
  private volatile boolean busy;
  private Group group;

  InlineHandlers(ThreadFactory factory) {
    this.factory = factory;
  }

  @Override
  public void configure(DemultiplexorBuilder builder) {
    builder.fromEnvironment().threads(1).threadFactory(this::newLane);
  }

  private Thread newLane(Runnable work) {
    lane = factory.newThread(work);
    if (lane == null) {
      throw new IllegalStateException("factory: made no thread");
    }
    return lane;
  }

  @Override
  public void opened(Group opened) {
    group = opened;
  }

  @Override
  public void notOpened() {}

  @Override
  public void dispatch(Pending<?, ?> completed) {
    if (isLane() && !busy) {
      call(completed);
    } else if (isLane()) {
      putOff.add(completed);
    } else {
      group.demultiplexor().post(completed);
    }
  }

  @Override
  public void arrived(Pending<?, ?> completed) {
    dispatch(completed);
  }

  private void call(Pending<?, ?> completed) {
    // The store is ordered before the look for threads that wait, see Group.awaitClosed.
    busy = true;
    group.wakeWaiting();
    try {
      completed.tell();
    } catch (Throwable e) {
      tellUncaught(e);
    } finally {
      busy = false;
    }
    // Through the inbox, so that they alternate with the lane's other work.
    while (!putOff.isEmpty()) {
      group.demultiplexor().post(putOff.poll());
    }
  }

  /** As the JDK does when a thread ends: what this handler throws is dropped. */
  private void tellUncaught(Throwable error) {
    try {
      lane.getUncaughtExceptionHandler().uncaughtException(lane, error);
    } catch (Throwable e) {
      // Completions that were put off must still come.
    }
  }

  @Override
  public boolean isLane() {
    return Thread.currentThread() == lane;
  }

  @Override
  public boolean laneIsBusy() {
    return busy;
  }

  @Override
  public void helpWhileWaiting(Future<?> future, long nanoseconds) throws InterruptedException {
    if (!isLane()) {
      return;
    }
    long end = System.nanoTime() + nanoseconds;
    boolean limited = nanoseconds != Long.MAX_VALUE;
    // Only there to end the lane's wait.
    CompletableFuture<Void> alarm =
        limited
            ? group.demultiplexor().schedule(Duration.ofNanos(Math.max(0, nanoseconds)), () -> {})
            : null;
    try {
      while (!future.isDone() && !(limited && end - System.nanoTime() <= 0)) {
        if (Thread.interrupted()) {
          throw new InterruptedException();
        }
        group.demultiplexor().turn();
      }
    } finally {
      if (alarm != null) {
        alarm.cancel(false);
      }
    }
  }

  @Override
  public void end() {}
}
