package io.baton.test;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** How long tests wait for what must come: long enough for a busy machine. */
public final class Patience {
  /** The common patience. */
  public static final Duration PATIENCE = Duration.ofSeconds(60);

  private Patience() {}

  /**
   * Waits for a future.
   *
   * @param <T> type of the result
   * @param future to complete in time
   * @param what is waited for
   * @return its result
   */
  public static <T> T await(CompletableFuture<T> future, String what) {
    try {
      return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      throw new AssertionError("did not come within " + PATIENCE + ": " + what, e);
    } catch (ExecutionException e) {
      throw new AssertionError(what + " failed: " + e.getCause(), e.getCause());
    } catch (InterruptedException e) {
      throw new AssertionError("interrupted while waiting for " + what, e);
    }
  }

  /**
   * Waits for a future that must fail.
   *
   * @param future to fail in time
   * @param what is waited for
   * @return why it failed
   */
  public static Throwable awaitFailure(CompletableFuture<?> future, String what) {
    try {
      Object result = future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
      throw new AssertionError(what + " did not fail, but gave " + result);
    } catch (TimeoutException e) {
      throw new AssertionError("did not come within " + PATIENCE + ": " + what, e);
    } catch (ExecutionException e) {
      return e.getCause();
    } catch (InterruptedException e) {
      throw new AssertionError("interrupted while waiting for " + what, e);
    }
  }

  /**
   * Waits for a latch.
   *
   * @param latch to reach 0 in time
   * @param what is waited for
   */
  public static void await(CountDownLatch latch, String what) {
    try {
      if (!latch.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
        throw new AssertionError(
            "did not come within " + PATIENCE + ": " + what + ", " + latch.getCount() + " left");
      }
    } catch (InterruptedException e) {
      throw new AssertionError("interrupted while waiting for " + what, e);
    }
  }

  /**
   * Waits for the end of a thread.
   *
   * @param thread to end in time
   */
  public static void await(Thread thread) {
    try {
      thread.join(PATIENCE.toMillis());
    } catch (InterruptedException e) {
      throw new AssertionError("interrupted while waiting for " + thread, e);
    }
    if (thread.isAlive()) {
      throw new AssertionError("did not end within " + PATIENCE + ": " + thread);
    }
  }
}
