package io.baton.test.own;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;

/** The best engine, if only it could be had. */
public final class MissingEngineProvider implements EngineProvider {

  @Override
  public String name() {
    return "missing";
  }

  @Override
  public int priority() {
    return 1000;
  }

  @Override
  public Throwable unavailabilityCause() {
    return new UnsatisfiedLinkError("the library of the engine missing is not installed");
  }

  @Override
  public Engine open(EngineSettings settings) {
    throw new AssertionError("an engine that is not available was opened");
  }
}
