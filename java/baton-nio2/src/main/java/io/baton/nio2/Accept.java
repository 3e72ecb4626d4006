package io.baton.nio2;

import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.atomic.AtomicReference;

/**
 * An accept with a handler. A thread of an executor may call it before another handler that is due
 * earlier, which takes the place of this one in the executor then.
 */
final class Accept<A> extends Pending<AsynchronousSocketChannel, A> {
  private final AtomicReference<Pending<?, ?>> place = new AtomicReference<>();

  Accept(
      Group group, A attachment, CompletionHandler<AsynchronousSocketChannel, ? super A> handler) {
    super(group, attachment, handler);
  }

  /** True for the first caller, which calls the handler of this accept. */
  boolean givePlace(Pending<?, ?> other) {
    return place.compareAndSet(null, other);
  }

  /** Whether a thread calls the handler of this accept, or has. */
  boolean hasGivenPlace() {
    return place.get() != null;
  }

  /** The operation whose handler is called when the executor runs this one. */
  Pending<?, ?> inPlace() {
    givePlace(this);
    return place.get();
  }
}
