package io.baton.nativeengine;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.IOException;
import java.util.Set;

/**
 * Provides the engine {@code native} (J-04): epoll, io_uring and whatever else the C++ library has.
 *
 * <p>It needs JDK 22, Linux, native access for this module ({@code
 * --enable-native-access=io.baton.nativeengine}, on the class path {@code ALL-UNNAMED}) and
 * libbaton. {@link #unavailabilityCause} says which of them is missing, and what helps. The library
 * is taken from the file that the property {@code baton.library} names, else from the class path,
 * else from where the system looks for libraries.
 *
 * <p><b>Threads:</b> as {@link EngineProvider}.
 */
public final class NativeEngineProvider implements EngineProvider {
  private static final int OLDEST_JDK = 22;

  /** For {@link java.util.ServiceLoader}. */
  public NativeEngineProvider() {}

  /** The part that needs a newer JDK, in a class of its own so that it is loaded late. */
  private static final class Newer {
    static final EngineProvider PROVIDER = load();

    private Newer() {}

    private static EngineProvider load() {
      try {
        return (EngineProvider)
            Class.forName("io.baton.nativeengine.ForeignProvider")
                .getDeclaredConstructor()
                .newInstance();
      } catch (ReflectiveOperationException e) {
        throw new LinkageError("the engine native is not complete in this jar: " + e, e);
      }
    }
  }

  @Override
  public String name() {
    return "native";
  }

  @Override
  public int priority() {
    return 100;
  }

  @Override
  public Throwable unavailabilityCause() {
    int version = Runtime.version().feature();
    if (version < OLDEST_JDK) {
      return new UnsupportedOperationException(
          "it needs JDK " + OLDEST_JDK + " or newer, and this is JDK " + version);
    }
    try {
      return Newer.PROVIDER.unavailabilityCause();
    } catch (LinkageError e) {
      return e;
    }
  }

  /**
   * The settings that it passes on to the C++ library, and the number of its slots.
   *
   * @return {@code native.engine}, {@code native.wait}, {@code native.interrupt}, {@code
   *     native.handles}, {@code native.slots}
   */
  @Override
  public Set<String> settingNames() {
    return Set.of(
        "native.engine", "native.wait", "native.interrupt", "native.handles", "native.slots");
  }

  @Override
  public Engine open(EngineSettings settings) throws IOException {
    Throwable cause = unavailabilityCause();
    if (cause != null) {
      throw new IOException(cause.getMessage(), cause);
    }
    return Newer.PROVIDER.open(settings);
  }
}
