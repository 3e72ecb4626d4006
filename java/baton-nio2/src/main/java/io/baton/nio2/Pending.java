package io.baton.nio2;

import io.baton.ChannelClosedException;
import io.baton.OperationTimedOutException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.CompletionHandler;
import java.nio.channels.InterruptedByTimeoutException;
import java.nio.channels.UnsupportedAddressTypeException;
import java.util.concurrent.Future;

/**
 * An operation of a program: its handler or future, and its result.
 *
 * <p>Completing it is for one thread. A handler is called by a thread of the group.
 */
class Pending<V, A> implements Runnable {
  private final Group group;
  private final CompletionHandler<V, ? super A> handler;
  private final A attachment;
  private final ResultFuture<V> future;

  /** Number of the operation on its channel. Only futures are cancelled by it. */
  private volatile long activation;

  /** The thread that hands it to an executor now, and must not run it itself. */
  Thread dispatcher;

  private V result;
  private Throwable error;

  /** With a handler. */
  Pending(Group group, A attachment, CompletionHandler<V, ? super A> handler) {
    Check.notNull(handler, "handler");
    this.group = group;
    this.attachment = attachment;
    this.handler = handler;
    future = null;
  }

  /** With a future. */
  Pending(Group group, Cancellation cancellation) {
    this.group = group;
    attachment = null;
    handler = null;
    future = new ResultFuture<>(group, this, cancellation);
  }

  Future<V> future() {
    return future;
  }

  void started(long number) {
    // A volatile store waits for all stores before it.
    if (future != null) {
      activation = number;
    }
  }

  long activation() {
    return activation;
  }

  boolean isCancelled() {
    return future != null && future.isCancelled();
  }

  /** False if the future was cancelled, so that the result is dropped. */
  final boolean succeed(V value) {
    if (future != null) {
      return future.complete(value);
    }
    result = value;
    group.dispatch(this);
    return true;
  }

  final void fail(Throwable why) {
    if (future != null) {
      future.completeExceptionally(asInNio2(why));
      return;
    }
    error = asInNio2(why);
    group.dispatch(this);
  }

  private static Throwable asInNio2(Throwable error) {
    if (error instanceof OperationTimedOutException) {
      return new InterruptedByTimeoutException();
    }
    if (error.getCause() instanceof UnsupportedAddressTypeException type) {
      return Check.noFamily(type);
    }
    return error instanceof ChannelClosedException ? new ClosedChannelException() : error;
  }

  @Override
  public final void run() {
    group.handlers().arrived(this);
  }

  /** Calls the handler. */
  final void tell() {
    if (error == null) {
      handler.completed(result, attachment);
    } else {
      handler.failed(error, attachment);
    }
  }

  /** Calls the handler, which the group was told to wait for. */
  final void tellAndLeave() {
    try {
      tell();
    } finally {
      group.leave();
    }
  }
}
