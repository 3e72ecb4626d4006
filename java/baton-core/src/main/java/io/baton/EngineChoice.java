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
  EngineChoice(EngineProvider own, Words words) {
    provider = own != null ? own : choose(words.value("engine", "auto"), words.source("engine"));
    explanation.insert(0, "engine " + provider.name() + "\n");
  }

  EngineProvider provider() {
    return provider;
  }

  String explanation() {
    return explanation.toString();
  }

  private EngineProvider choose(String name, String source) {
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
              source + ": engine: " + name + " is not available: " + cause.getMessage(), cause);
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
    if (all.isEmpty()) {
      throw new IllegalArgumentException(
          source
              + ": engine: no engine was found: a jar that is merged from others needs the lines of"
              + " all their files META-INF/services/io.baton.spi.EngineProvider");
    }
    throw new IllegalArgumentException(
        source
            + ": engine: there is no engine "
            + Check.quoted(name)
            + "; there are auto, "
            + String.join(", ", all.stream().map(EngineProvider::name).toList())
            + inside(all));
  }

  /** An engine may have a choice of its own, and the name may belong there. */
  private static String inside(List<EngineProvider> all) {
    StringBuilder advice = new StringBuilder();
    for (EngineProvider one : all) {
      String word = one.name() + ".engine";
      if (one.settingNames().contains(word)) {
        advice.append("; an engine of " + one.name() + " is chosen by engine=" + one.name());
        advice.append("," + word + "=NAME");
      }
    }
    return advice.toString();
  }
}
