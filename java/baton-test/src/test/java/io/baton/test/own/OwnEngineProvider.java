package io.baton.test.own;

import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.util.Set;

/** An engine as a user might add one: {@code engine=own}. */
public final class OwnEngineProvider implements EngineProvider {

  @Override
  public String name() {
    return "own";
  }

  @Override
  public int priority() {
    return -1;
  }

  @Override
  public Throwable unavailabilityCause() {
    return null;
  }

  @Override
  public Set<String> settingNames() {
    return Set.of("look_us");
  }

  @Override
  public Engine open(EngineSettings settings) {
    int lookMicroseconds = Integer.parseInt(settings.words().getOrDefault("look_us", "200"));
    return new OwnEngine(lookMicroseconds * 1000L);
  }
}
