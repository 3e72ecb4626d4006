package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.baton.AsynchChannel;
import io.baton.AsynchHandler;
import io.baton.OpAccept;
import io.baton.OpClose;
import io.baton.OpConnect;
import io.baton.OpRead;
import io.baton.OpTimeout;
import io.baton.OpWrite;
import io.baton.Operation;
import io.baton.test.Completion.What;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A handler that keeps its completions for a test. Fails if it is called by two threads at once for
 * one channel. An accepted connection gets a Recorder of its own unless another handler is given.
 */
public class Recorder implements AsynchHandler {
  private final BlockingQueue<Completion> told = new LinkedBlockingQueue<>();
  private final Set<Thread> threads = ConcurrentHashMap.newKeySet();
  private final Set<AsynchChannel> inside = ConcurrentHashMap.newKeySet();
  private final Supplier<? extends AsynchHandler> handlers;

  /** With a Recorder for every accepted connection. */
  public Recorder() {
    this(Recorder::new);
  }

  /**
   * With handlers of the test's own for accepted connections.
   *
   * @param handlers one for each connection
   */
  public Recorder(Supplier<? extends AsynchHandler> handlers) {
    this.handlers = handlers;
  }

  /**
   * The next completion.
   *
   * @param what it must be
   * @return it
   */
  public Completion next(What what) {
    Completion next = nextAny();
    assertEquals(what, next.what(), () -> "came instead: " + next);
    return next;
  }

  /**
   * The next completion, which must have succeeded.
   *
   * @param what it must be
   * @return it
   */
  public Completion nextGood(What what) {
    Completion next = next(what);
    if (next.error() != null) {
      throw new AssertionError(what + " failed", next.error());
    }
    return next;
  }

  /**
   * The next completion, which must have failed.
   *
   * @param what it must be
   * @param error of which type
   * @return it
   */
  public Completion nextFailed(What what, Class<? extends Throwable> error) {
    Completion next = next(what);
    if (!error.isInstance(next.error())) {
      throw new AssertionError(what + " did not fail by " + error + ": " + next, next.error());
    }
    return next;
  }

  /**
   * The next completion, whatever it is.
   *
   * @return it
   */
  public Completion nextAny() {
    try {
      Completion next = told.poll(Patience.PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
      if (next == null) {
        throw new AssertionError("did not come within " + Patience.PATIENCE + ": a completion");
      }
      return next;
    } catch (InterruptedException e) {
      throw new AssertionError("interrupted while waiting for a completion", e);
    }
  }

  /**
   * Which threads called this handler.
   *
   * @return so far
   */
  public Set<Thread> threads() {
    return threads;
  }

  /**
   * Number of completions that the test has not fetched yet.
   *
   * @return as of now
   */
  public int waiting() {
    return told.size();
  }

  private void tell(What what, Operation operation, Completion completion) {
    if (!inside.add(operation.getAsynchChannel())) {
      throw new AssertionError("two methods for one channel at once: " + what + ", " + operation);
    }
    threads.add(completion.thread());
    told.add(completion);
    inside.remove(operation.getAsynchChannel());
  }

  private static Completion of(What what, Operation operation) {
    return of(what, operation, null, null);
  }

  private static Completion of(What what, Operation operation, byte[] data, ByteBuffer buffer) {
    return new Completion(
        what,
        operation.getActivation(),
        operation.getError(),
        operation.getBytesCompleted(),
        data,
        buffer,
        null,
        operation instanceof OpRead read ? read.getSender() : null,
        operation instanceof OpTimeout timeout ? timeout.getKind() : null,
        operation instanceof OpClose close ? close.getReason() : null,
        operation instanceof OpRead read ? read.getDelimiterEnd() : -1,
        Thread.currentThread());
  }

  @Override
  public void onReadCompleted(OpRead opRead) throws Exception {
    ByteBuffer buffer = opRead.getBuffer();
    byte[] data = new byte[buffer == null ? 0 : buffer.remaining()];
    if (buffer != null) {
      buffer.get(buffer.position(), data);
    }
    tell(What.READ, opRead, of(What.READ, opRead, data, buffer));
  }

  @Override
  public void onWriteCompleted(OpWrite opWrite) throws Exception {
    tell(What.WRITE, opWrite, of(What.WRITE, opWrite, null, opWrite.getBuffer()));
  }

  @Override
  public void onAcceptCompleted(OpAccept opAccept) throws Exception {
    AsynchChannel accepted = opAccept.getError() == null ? opAccept.open(handlers.get()) : null;
    tell(
        What.ACCEPT,
        opAccept,
        new Completion(
            What.ACCEPT,
            opAccept.getActivation(),
            opAccept.getError(),
            0,
            null,
            null,
            accepted,
            null,
            null,
            null,
            -1,
            Thread.currentThread()));
  }

  @Override
  public void onConnectCompleted(OpConnect opConnect) throws Exception {
    tell(What.CONNECT, opConnect, of(What.CONNECT, opConnect));
  }

  @Override
  public void onTimeout(OpTimeout opTimeout) throws Exception {
    tell(What.TIMEOUT, opTimeout, of(What.TIMEOUT, opTimeout));
  }

  @Override
  public void onStopping(AsynchChannel channel) throws Exception {
    told.add(
        new Completion(
            What.STOPPING,
            0,
            null,
            0,
            null,
            null,
            null,
            null,
            null,
            null,
            -1,
            Thread.currentThread()));
  }

  @Override
  public void onClosed(OpClose opClose) throws Exception {
    tell(What.CLOSED, opClose, of(What.CLOSED, opClose));
  }
}
