package io.baton.nativeengine;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.IOException;

/** The part of the provider that needs the Foreign Function and Memory API. */
final class ForeignProvider implements EngineProvider {

  // Found out once: a library that is loaded stays, and so do the functions that it lacks.
  private static final class Linked {
    static final Throwable CAUSE = link();

    private Linked() {}

    private static Throwable link() {
      try {
        ForeignCalls.link();
        return null;
      } catch (ExceptionInInitializerError e) {
        return e.getCause();
      }
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

  @Override
  public String name() {
    return "native";
  }

  @Override
  public int priority() {
    return 100;
  }

  /** Asked again after a failure to load the library, which may pass: a lack of descriptors. */
  @Override
  public Throwable unavailabilityCause() {
    try {
      requireOptions();
      Library.load();
      return Linked.CAUSE;
    } catch (UnavailableException e) {
      return e;
    }
  }

  @Override
  public Engine open(EngineSettings settings) throws IOException {
    return new NativeEngine(new ForeignCalls(), settings);
  }
}
