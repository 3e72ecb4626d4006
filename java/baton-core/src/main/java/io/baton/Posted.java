package io.baton;

import java.util.concurrent.CompletableFuture;

/** A piece of the program, or of the library, that a lane runs at once or at a time. */
final class Posted extends Timed {
  private final Lane lane;
  private final Runnable action;
  private final CompletableFuture<Void> done;

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
    if (done != null && done.isDone()) {
      return;
    }
    try {
      action.run();
      if (done != null) {
        done.complete(null);
      }
    } catch (Throwable e) {
      if (done != null) {
        done.completeExceptionally(e);
      } else {
        lane.report(e);
      }
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
