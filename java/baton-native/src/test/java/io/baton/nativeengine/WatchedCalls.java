package io.baton.nativeengine;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;

/**
 * The engine {@code native} whose native calls are counted, and fail once on request. Calls by name
 * of the methods of {@link NativeCalls}.
 */
final class WatchedCalls implements EngineProvider {
  /** Takes the place of a call. */
  interface Instead {
    Object answer(Object[] arguments) throws ReflectiveOperationException;
  }

  private final Map<String, Instead> once = new ConcurrentHashMap<>();
  private final LongAdder count = new LongAdder();
  private final LongAdder wakes = new LongAdder();
  private final Map<String, String> words;
  private final ForeignCalls real = new ForeignCalls();
  private final NativeCalls calls =
      (NativeCalls)
          Proxy.newProxyInstance(
              WatchedCalls.class.getClassLoader(),
              new Class<?>[] {NativeCalls.class},
              (proxy, method, arguments) -> {
                count.increment();
                if (method.getName().equals("wake")) {
                  wakes.increment();
                }
                Instead instead = once.remove(method.getName());
                if (instead != null) {
                  return instead.answer(arguments);
                }
                try {
                  return method.invoke(real, arguments);
                } catch (InvocationTargetException e) {
                  throw e.getCause();
                }
              });

  private volatile NativeEngine last;

  WatchedCalls(Map<String, String> words) {
    this.words = words;
  }

  static WatchedCalls on(String engine) {
    return new WatchedCalls(Map.of("native.engine", engine));
  }

  /** Calls since the beginning. */
  long count() {
    return count.sum();
  }

  /** Of those, by other threads that wake the lane. */
  long wakes() {
    return wakes.sum();
  }

  /** The next call of this function answers so, and is not made. */
  void failNext(String call, int answer) {
    replaceNext(call, arguments -> answer);
  }

  void replaceNext(String call, Instead instead) {
    once.put(call, instead);
  }

  /** Whether the chosen call has failed. */
  boolean allFailed() {
    return once.isEmpty();
  }

  /** The engine that was opened last. */
  NativeEngine engine() {
    return last;
  }

  NativeCalls real() {
    return real;
  }

  @Override
  public String name() {
    return "watched";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Throwable unavailabilityCause() {
    return null;
  }

  @Override
  public Engine open(EngineSettings settings) throws IOException {
    NativeEngine engine =
        new NativeEngine(calls, new EngineSettings(settings.lane(), settings.lanes(), words));
    last = engine;
    return engine;
  }
}
