package io.baton;

import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * The future of an operation. Cancelling it asks for the end of the operation; the future completes
 * when the operation does, so the buffer is the caller's only then.
 */
final class OperationFuture<T> extends CompletableFuture<T> {
  private final AsynchChannel channel;
  private final Function<Operation, T> result;
  private volatile long activation;

  OperationFuture(AsynchChannel channel, Function<Operation, T> result) {
    this.channel = channel;
    this.result = result;
  }

  void started(long number) {
    activation = number;
  }

  /** The operation is complete. The lane's thread. */
  void finish(Operation operation) {
    if (operation.error != null) {
      super.completeExceptionally(operation.error);
      return;
    }
    try {
      T value = result.apply(operation);
      if (!super.complete(value) && value instanceof AsynchChannel accepted) {
        // The program has completed the future, for example by orTimeout: nobody gets the channel.
        accepted.close();
      }
    } catch (RuntimeException e) {
      super.completeExceptionally(e);
    }
  }

  /** By the program, which waits no longer. */
  @Override
  public boolean complete(T value) {
    return super.complete(value) && endOperation();
  }

  /** By the program or its time-out. */
  @Override
  public boolean completeExceptionally(Throwable why) {
    return super.completeExceptionally(why) && endOperation();
  }

  private boolean endOperation() {
    channel.cancel(activation);
    return true;
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    return !isDone() && channel.cancel(activation);
  }
}
