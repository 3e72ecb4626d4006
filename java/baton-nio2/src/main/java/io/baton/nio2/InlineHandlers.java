package io.baton.nio2;

import io.baton.DemultiplexorBuilder;
import io.baton.StoppedException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;

/**
 * Handlers of a group of one thread run on its lane, so that no completion changes threads. A
 * handler that waits for a future or a close does the lane's work meanwhile; completions that
 * arrive inside are postponed, because handlers of this group must not overlap.
 */
final class InlineHandlers implements Handlers {
  private static final VarHandle BUSY;

  static {
    try {
      BUSY = MethodHandles.lookup().findVarHandle(InlineHandlers.class, "busy", boolean.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final ThreadFactory factory;
  private final ArrayDeque<Pending<?, ?>> putOff = new ArrayDeque<>();
  private volatile Thread lane;
  private volatile boolean busy;

  /** The lane does its work inside a handler, which waits. */
  private boolean helps;

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
    if (!isLane()) {
      group.moveOn(completed, group.demultiplexor()::post);
    } else if (busy) {
      group.moveOn(completed, putOff::add);
    } else {
      // The group cannot end inside: it waits for this thread.
      call(completed);
    }
  }

  @Override
  public void arrived(Pending<?, ?> completed) {
    if (busy) {
      putOff.add(completed);
    } else {
      call(completed);
      group.leave();
    }
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
      // Threads that wait are told of the next change; this one may become visible late.
      BUSY.setRelease(this, false);
    }
    // Through the inbox, so that they alternate with the lane's other work.
    while (!putOff.isEmpty()) {
      Pending<?, ?> first = putOff.peek();
      try {
        group.demultiplexor().post(first);
      } catch (OutOfMemoryError | StoppedException e) {
        // Without memory, or at the end of a lane whose engine has failed, the order matters less
        // than that they come.
        putOff.poll();
        arrived(first);
        continue;
      }
      putOff.poll();
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
        help();
      }
    } finally {
      if (alarm != null) {
        alarm.cancel(false);
      }
    }
  }

  @Override
  public void helpWhileClosing(GroupSocket socket) {
    // A close inside that work is not the program's, and the handler does not wait for it.
    while (busy && !helps && !socket.isClosed()) {
      help();
    }
  }

  private void help() {
    helps = true;
    try {
      group.demultiplexor().turn();
    } finally {
      helps = false;
    }
  }

  @Override
  public void end() {}
}
