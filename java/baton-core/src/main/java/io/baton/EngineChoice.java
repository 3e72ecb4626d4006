package io.baton;

import io.baton.spi.EngineProvider;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;

/** Which engine a name means here, and why the others are not available. */
final class EngineChoice {
  // A list of providers that cannot be read may fail again at each step.
  private static final int FAILURES_MAX = 100;

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
    load(ServiceLoader.load(EngineProvider.class, EngineProvider.class.getClassLoader()), all);
    load(ServiceLoader.load(EngineProvider.class), all);
    all.sort(Comparator.comparingInt(EngineProvider::priority).reversed());

    EngineProvider best = null;
    for (EngineProvider one : all) {
      Throwable cause = causeOf(one);
      if (cause != null) {
        explanation.append("engine " + one.name() + " is not available: " + text(cause) + "\n");
      }
      if (one.name().equals(name)) {
        if (cause != null) {
          throw new IllegalArgumentException(
              source + ": engine: " + name + " is not available: " + text(cause), cause);
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

  /** Adds what can be used. A provider that fails must not keep the others from being used. */
  private void load(ServiceLoader<EngineProvider> loader, List<EngineProvider> all) {
    var found = loader.stream().iterator();
    for (int failures = 0; failures < FAILURES_MAX; ) {
      try {
        if (!found.hasNext()) {
          return;
        }
        var next = found.next();
        if (all.stream().noneMatch(one -> one.getClass() == next.type())) {
          EngineProvider one = next.get();
          one.priority();
          Check.notNull(one.name(), "the name of " + one.getClass().getName());
          all.add(one);
        }
      } catch (ServiceConfigurationError | RuntimeException | LinkageError e) {
        failures++;
        String cause = e.getCause() == null ? "" : ": " + e.getCause();
        String line = "a provider of an engine is left out: " + text(e) + cause + "\n";
        if (explanation.indexOf(line) < 0) {
          explanation.append(line);
        }
      }
    }
  }

  private static Throwable causeOf(EngineProvider one) {
    try {
      return one.unavailabilityCause();
    } catch (RuntimeException | LinkageError e) {
      return e;
    }
  }

  private static String text(Throwable cause) {
    return cause.getMessage() == null ? cause.toString() : cause.getMessage();
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
