package io.baton.nio2;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The future of an operation. Waiting for it on the group's own lane does the lane's work. */
final class ResultFuture<V> extends CompletableFuture<V> {
  private final Group group;
  private final Pending<V, ?> operation;
  private final Cancellation cancellation;

  ResultFuture(Group group, Pending<V, ?> operation, Cancellation cancellation) {
    this.group = group;
    this.operation = operation;
    this.cancellation = cancellation;
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    if (!completeExceptionally(new CancellationException())) {
      return false;
    }
    cancellation.cancelled(operation, mayInterruptIfRunning);
    return true;
  }

  @Override
  public V get() throws InterruptedException, ExecutionException {
    group.handlers().helpWhileWaiting(this, Long.MAX_VALUE);
    return super.get();
  }

  @Override
  public V get(long timeout, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    Check.notNull(unit, "unit");
    long end = System.nanoTime() + unit.toNanos(timeout);
    group.handlers().helpWhileWaiting(this, unit.toNanos(timeout));
    return super.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
  }
}
