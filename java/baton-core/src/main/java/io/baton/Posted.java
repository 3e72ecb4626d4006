package io.baton;

import java.util.concurrent.CompletableFuture;

/** A piece of the program, or of the library, that a lane runs at once or at a time. */
final class Posted extends Timed {
  private final Lane lane;
  private final Runnable action;
  private final CompletableFuture<Void> done;
  private boolean isTimed;
  private boolean hasRun;
  private Throwable failure;

  Posted(Lane lane, Runnable action) {
    this(lane, action, null);
  }

  Posted(Lane lane, Runnable action, CompletableFuture<Void> done) {
    this.lane = lane;
    this.action = action;
    this.done = done;
  }

  @Override
  void run() {
    if (done != null) {
      runScheduled();
      return;
    }
    try {
      action.run();
    } catch (Throwable e) {
      lane.report(e);
    }
  }

  /** Lack of memory puts off what it interrupts: the future must end. */
  private void runScheduled() {
    try {
      if (done.isDone()) {
        return;
      }
      if (!isTimed) {
        lane.timers.add(this);
        isTimed = true;
      } else if (!hasRun) {
        act();
      }
      if (hasRun) {
        finish();
      }
    } catch (OutOfMemoryError e) {
      lane.runAgain(this);
    }
  }

  private void act() {
    hasRun = true;
    try {
      action.run();
    } catch (Throwable e) {
      failure = e;
    }
  }

  private void finish() {
    if (failure == null) {
      done.complete(null);
    } else {
      done.completeExceptionally(failure);
    }
  }

  @Override
  void expired() {
    lane.ready.add(this);
  }

  /** The lane ends before the time has come. */
  void abandon() {
    if (done != null) {
      done.completeExceptionally(new StoppedException("the Demultiplexor stopped before the time"));
    }
  }
}
