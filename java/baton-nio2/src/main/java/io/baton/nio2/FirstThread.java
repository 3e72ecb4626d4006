package io.baton.nio2;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.ThreadFactory;

/**
 * Makes the threads of a program's factory, the first of them before its work is known. So a group
 * can look at it, and the factory is asked once for each thread.
 */
final class FirstThread implements ThreadFactory, Runnable {
  private static final MethodHandle IS_VIRTUAL = isVirtualOfThread();

  private final ThreadFactory factory;
  private final boolean virtual;
  // Guarded by this; null when it was given away.
  private Thread first;
  private volatile Runnable work;

  FirstThread(ThreadFactory factory) {
    this.factory = factory;
    first = factory.newThread(this);
    if (first == null) {
      throw new IllegalStateException("factory: made no thread");
    }
    virtual = isVirtual(first);
  }

  /** Whether the threads are virtual, so that the system's thread below them changes. */
  boolean isVirtual() {
    return virtual;
  }

  @Override
  public synchronized Thread newThread(Runnable next) {
    if (first == null) {
      return factory.newThread(next);
    }
    work = next;
    Thread given = first;
    first = null;
    return given;
  }

  @Override
  public void run() {
    work.run();
  }

  private static boolean isVirtual(Thread thread) {
    try {
      return (boolean) IS_VIRTUAL.invokeExact(thread);
    } catch (Throwable e) {
      throw new AssertionError("a question that cannot fail", e);
    }
  }

  private static MethodHandle isVirtualOfThread() {
    try {
      return MethodHandles.publicLookup()
          .findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
    } catch (ReflectiveOperationException e) {
      // JDK 20 and older have no virtual threads.
      return MethodHandles.dropArguments(
          MethodHandles.constant(boolean.class, false), 0, Thread.class);
    }
  }
}
