package io.baton.test;

import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * How long tests wait for what must come, as in the C++ tests: a minute times the variable {@code
 * BATON_TEST_PATIENCE}, a number above 0.
 */
public final class Patience {
  /** The common patience. */
  public static final Duration PATIENCE = patience();

  private Patience() {}

  private static Duration patience() {
    String minutes = System.getenv().getOrDefault("BATON_TEST_PATIENCE", "1");
    return Duration.ofMillis((long) (60_000 * Double.parseDouble(minutes)));
  }

  /**
   * Waits until the collector has taken an object.
   *
   * @param object that is not used any more
   * @param what it is
   */
  public static void awaitForgotten(WeakReference<?> object, String what) {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (!object.refersTo(null)) {
      if (System.nanoTime() - end > 0) {
        throw new AssertionError("is still reachable after " + PATIENCE + ": " + what);
      }
      System.gc();
    }
  }

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
      return future.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
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
      Object result = future.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
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
   * Waits for a latch. The patience begins again while the latch moves: what gets little of a busy
   * machine is slow, and what is lost stands still.
   *
   * @param latch to reach 0
   * @param what is waited for
   */
  public static void await(CountDownLatch latch, String what) {
    try {
      long left;
      do {
        left = latch.getCount();
        if (latch.await(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
          return;
        }
      } while (latch.getCount() < left);
      throw new AssertionError("stood still for " + PATIENCE + ": " + what + ", " + left + " left");
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
