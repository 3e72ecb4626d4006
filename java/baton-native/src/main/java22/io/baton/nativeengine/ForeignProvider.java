package io.baton.nativeengine;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.IOException;

/** The part of the provider that needs the Foreign Function and Memory API. */
final class ForeignProvider implements EngineProvider {

  // Found out once: a library that is loaded stays, and so does what kept it from being loaded.
  private static final class Found {
    static final Throwable CAUSE = look();

    private Found() {}

    private static Throwable look() {
      try {
        requireOptions();
        Library.load();
        ForeignCalls.link();
        return null;
      } catch (UnavailableException e) {
        return e;
      } catch (ExceptionInInitializerError e) {
        return e.getCause();
      }
    }

    /** A Java machine made by jlink, or a program of modules, has only the modules it asked for. */
    private static void requireOptions() {
      try {
        Class.forName("jdk.net.ExtendedSocketOptions");
      } catch (ClassNotFoundException e) {
        throw new UnavailableException(
            "the module jdk.net is missing; name it to jlink, or to java, by --add-modules jdk.net");
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
    return Found.CAUSE;
  }

  @Override
  public Engine open(EngineSettings settings) throws IOException {
    return new NativeEngine(new ForeignCalls(), settings);
  }
}
