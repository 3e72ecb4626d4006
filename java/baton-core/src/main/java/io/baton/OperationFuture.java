package io.baton;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The future of an operation. Cancelling it asks for the end of the operation; the future completes
 * when the operation does, so the buffer is the caller's only then.
 */
final class OperationFuture<T> extends CompletableFuture<T> {
  private final AsynchChannel channel;
  private final Function<Operation, T> result;
  private final Consumer<T> unwanted;
  private volatile long activation;

  /** For results that are only values. */
  OperationFuture(AsynchChannel channel, Function<Operation, T> result) {
    this(channel, result, value -> {});
  }

  /** unwanted: gets a result, not null, that the program does not, because it waits no longer. */
  OperationFuture(AsynchChannel channel, Function<Operation, T> result, Consumer<T> unwanted) {
    this.channel = channel;
    this.result = result;
    this.unwanted = unwanted;
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
      if (!super.complete(value) && value != null) {
        // The program has completed the future, for example by orTimeout.
        unwanted.accept(value);
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

  /** By the program, later. */
  @Override
  public CompletableFuture<T> completeAsync(Supplier<? extends T> supplier, Executor executor) {
    super.completeAsync(supplier, executor).whenComplete((value, error) -> endOperation());
    return this;
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
