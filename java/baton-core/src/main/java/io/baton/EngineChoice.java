package io.baton;

import io.baton.spi.EngineProvider;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.ServiceLoader;

/** Which engine a name means here, and why the others are not available. */
final class EngineChoice {
  private final EngineProvider provider;
  private final StringBuilder explanation = new StringBuilder();

  /** own: of the program, or null. */
  EngineChoice(EngineProvider own, String name) {
    provider = own != null ? own : choose(name);
    explanation.insert(0, "engine " + provider.name() + "\n");
  }

  EngineProvider provider() {
    return provider;
  }

  String explanation() {
    return explanation.toString();
  }

  private EngineProvider choose(String name) {
    List<EngineProvider> all = new ArrayList<>();
    ServiceLoader.load(EngineProvider.class, EngineProvider.class.getClassLoader())
        .forEach(all::add);
    ServiceLoader.load(EngineProvider.class).stream()
        .filter(found -> all.stream().noneMatch(one -> one.getClass() == found.type()))
        .forEach(found -> all.add(found.get()));
    all.sort(Comparator.comparingInt(EngineProvider::priority).reversed());

    EngineProvider best = null;
    for (EngineProvider one : all) {
      Throwable cause = one.unavailabilityCause();
      if (cause != null) {
        explanation.append(
            "engine " + one.name() + " is not available: " + cause.getMessage() + "\n");
      }
      if (one.name().equals(name)) {
        if (cause != null) {
          throw new IllegalArgumentException(
              "engine: " + name + " is not available: " + cause.getMessage(), cause);
        }
        return one;
      }
      if (cause == null && best == null) {
        best = one;
      }
    }
    if (name.equals("auto") && best != null) {
      return best;
    }
    throw new IllegalArgumentException(
        "engine: there is no engine "
            + Check.quoted(name)
            + "; there are auto, "
            + String.join(", ", all.stream().map(EngineProvider::name).toList()));
  }
}
