package io.baton.nio2;

import io.baton.test.Patience;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.CompletableFuture;

/** A handler that keeps its result and the calling thread. */
final class Completion<V> implements CompletionHandler<V, Object> {
  final CompletableFuture<V> result = new CompletableFuture<>();
  volatile Thread thread;
  volatile Object attachment;

  @Override
  public void completed(V value, Object with) {
    keep(with);
    result.complete(value);
  }

  @Override
  public void failed(Throwable error, Object with) {
    keep(with);
    result.completeExceptionally(error);
  }

  private void keep(Object with) {
    if (result.isDone()) {
      throw new AssertionError("a second completion");
    }
    thread = Thread.currentThread();
    attachment = with;
  }

  V await(String what) {
    return Patience.await(result, what);
  }

  Throwable awaitFailure(String what) {
    return Patience.awaitFailure(result, what);
  }
}
