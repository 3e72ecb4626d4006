package io.baton;

import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
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
  private volatile boolean givenUp;

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

  /**
   * The operation is complete. The lane's thread. False for lack of memory or stack; call it again
   * then: the future may be incomplete, or some of the stages that depend on it.
   */
  boolean finish(Operation operation) {
    if (operation.error == null) {
      try {
        T value = result.apply(operation);
        // The program may have completed the future, for example by orTimeout.
        if ((givenUp || !super.complete(value)) && value != null) {
          unwanted.accept(value);
        }
        return true;
      } catch (RuntimeException | Error e) {
        operation.error = e;
      }
    }
    try {
      if (!givenUp) {
        super.completeExceptionally(operation.error);
      }
      return true;
    } catch (VirtualMachineError e) {
      return false;
    }
  }

  /** By the program, which waits no longer. */
  @Override
  public boolean complete(T value) {
    return giveUp() && super.complete(value);
  }

  /** By the program or its time-out. */
  @Override
  public boolean completeExceptionally(Throwable why) {
    return giveUp() && super.completeExceptionally(why);
  }

  /** By the program, later. */
  @Override
  public CompletableFuture<T> completeAsync(Supplier<? extends T> supplier, Executor executor) {
    Objects.requireNonNull(supplier, "supplier");
    executor.execute(
        () -> {
          if (isDone()) {
            return;
          }
          try {
            complete(supplier.get());
          } catch (Throwable e) {
            completeExceptionally(new CompletionException(e));
          }
        });
    return this;
  }

  /**
   * Asks for the end of the operation before the future is complete: the next operation that the
   * program starts is behind the request, so it is not this one that gets its bytes. From here on
   * the program alone completes the future.
   */
  private boolean giveUp() {
    if (isDone()) {
      return false;
    }
    // Made first: there may be no memory for it, and then nothing is changed.
    CancelRequest request = channel.core.requestToCancel(activation);
    givenUp = true;
    channel.core.cancel(activation, request);
    return true;
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    return !isDone() && channel.cancel(activation);
  }
}
