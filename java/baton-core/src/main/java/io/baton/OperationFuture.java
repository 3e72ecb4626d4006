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
      completeExceptionally(operation.error);
      return;
    }
    try {
      complete(result.apply(operation));
    } catch (RuntimeException e) {
      completeExceptionally(e);
    }
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    return !isDone() && channel.cancel(activation);
  }
}
