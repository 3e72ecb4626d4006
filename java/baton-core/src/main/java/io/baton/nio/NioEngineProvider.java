package io.baton.nio;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.IOException;

/** Provides the engine {@code nio} (J-03), which every JDK from 17 on has. */
public final class NioEngineProvider implements EngineProvider {

  /** For {@link java.util.ServiceLoader}. */
  public NioEngineProvider() {}

  @Override
  public String name() {
    return "nio";
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
    return new NioEngine();
  }
}
