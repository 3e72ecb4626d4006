package io.baton.nio2;

import io.baton.ChannelClosedException;
import io.baton.OperationTimedOutException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
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
  private static final VarHandle ARRIVED;

  static {
    try {
      ARRIVED = MethodHandles.lookup().findVarHandle(Pending.class, "arrived", boolean.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final Group group;
  private CompletionHandler<V, ? super A> handler;
  private A attachment;
  private final ResultFuture<V> future;

  /** Number of the operation on its channel. Only futures are cancelled by it. */
  private volatile long activation;

  /** The thread that hands it to an executor now, and must not run it itself. */
  Thread dispatcher;

  private volatile boolean arrived;

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

  /** For the next operation with a handler. */
  final void prepare(A nextAttachment, CompletionHandler<V, ? super A> nextHandler) {
    Check.notNull(nextHandler, "handler");
    attachment = nextAttachment;
    handler = nextHandler;
  }

  /** The handler is about to be called, and nothing else needs this object. */
  void told() {}

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
    try {
      return translated(error);
    } catch (OutOfMemoryError e) {
      return e;
    }
  }

  private static Throwable translated(Throwable error) {
    if (error instanceof OperationTimedOutException) {
      return new InterruptedByTimeoutException();
    }
    if (error.getCause() instanceof UnsupportedAddressTypeException type) {
      return Check.noFamily(type);
    }
    return error instanceof ChannelClosedException ? new ClosedChannelException() : error;
  }

  /**
   * True for the first thread that an executor gives it to. One that throws may have taken it
   * nevertheless: a ForkJoinPool, or a pool without core threads, that could make no thread.
   */
  final boolean arrivesFirst() {
    return ARRIVED.compareAndSet(this, false, true);
  }

  @Override
  public final void run() {
    group.handlers().arrived(this);
  }

  /** Calls the handler. */
  final void tell() {
    CompletionHandler<V, ? super A> told = handler;
    A toldAttachment = attachment;
    V toldResult = result;
    Throwable toldError = error;
    // A program's objects must not be kept longer than it keeps them.
    handler = null;
    attachment = null;
    result = null;
    error = null;
    told();
    if (toldError == null) {
      told.completed(toldResult, toldAttachment);
    } else {
      told.failed(toldError, toldAttachment);
    }
    // As the JDK does: an interrupt is meant neither for the handler around this one nor for the
    // executor.
    Thread.interrupted();
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
