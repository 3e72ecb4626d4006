package io.baton.nio2;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Threads of the default group: as many as handlers need, for handlers may block. {@link
 * java.nio.channels.AsynchronousChannelGroup} documents the two properties.
 */
final class DefaultPool {
  private static final String FACTORY = "java.nio.channels.DefaultThreadPool.threadFactory";
  private static final String INITIAL_SIZE = "java.nio.channels.DefaultThreadPool.initialSize";

  private DefaultPool() {}

  static ExecutorService open() {
    checkInitialSize();
    return Executors.newCachedThreadPool(factory());
  }

  /**
   * Threads that keep no program alive. They serve all applications of a server, so they inherit
   * nothing from the first one: it would stay in memory, and the others would find its classes.
   */
  static ThreadFactory daemons(String name) {
    AtomicInteger number = new AtomicInteger();
    return work -> {
      Thread thread = new Thread(null, work, name + "-" + number.getAndIncrement(), 0, false);
      thread.setContextClassLoader(ClassLoader.getSystemClassLoader());
      thread.setDaemon(true);
      return thread;
    };
  }

  private static ThreadFactory factory() {
    String name = System.getProperty(FACTORY);
    if (name == null) {
      return daemons("baton-nio2");
    }
    try {
      return (ThreadFactory)
          Class.forName(name, true, ClassLoader.getSystemClassLoader())
              .getDeclaredConstructor()
              .newInstance();
    } catch (ReflectiveOperationException | ClassCastException e) {
      throw new Error("the property " + FACTORY + ": '" + name + "' makes no ThreadFactory", e);
    }
  }

  private static void checkInitialSize() {
    String text = System.getProperty(INITIAL_SIZE);
    try {
      if (text != null) {
        Integer.parseInt(text);
      }
    } catch (NumberFormatException e) {
      throw new Error("the property " + INITIAL_SIZE + ": '" + text + "' is not a number", e);
    }
  }
}
