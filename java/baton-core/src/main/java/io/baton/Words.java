package io.baton;

import io.baton.spi.EngineProvider;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadFactory;
import java.util.function.Consumer;

/** Settings as words: {@code name=value}, and where each came from. For one thread. */
final class Words {
  private static final Set<String> KNOWN =
      Set.of(
          "engine",
          "threads",
          "operations_max",
          "write_bytes_max",
          "pooled_buffer_size",
          "pooled_buffers_max",
          "file_threads");

  private record Setting(String value, String source) {}

  private final Map<String, Setting> settings = new LinkedHashMap<>();

  void set(String word, String value, String source) {
    Check.notNull(word, "word");
    Check.notNull(value, "value");
    settings.put(word, new Setting(value, source));
  }

  /** text: pairs between commas, blanks do not matter; null for none. */
  void setAll(String text, String source) {
    if (text == null) {
      return;
    }
    for (String pair : text.split(",")) {
      if (pair.isBlank()) {
        continue;
      }
      int equals = pair.indexOf('=');
      if (equals < 0) {
        throw new IllegalArgumentException(
            source
                + ": "
                + Check.quoted(pair.strip())
                + " has no '='; write name=value,name=value");
      }
      set(pair.substring(0, equals).strip(), pair.substring(equals + 1).strip(), source);
    }
  }

  String value(String word, String otherwise) {
    Setting setting = settings.get(word);
    return setting == null ? otherwise : setting.value();
  }

  /** Where the setting came from. */
  String source(String word) {
    Setting setting = settings.get(word);
    return setting == null ? "the default" : setting.source();
  }

  Settings settings(
      EngineProvider provider, ThreadFactory threadFactory, Consumer<Throwable> handler) {
    int processors = Math.min(1024, Runtime.getRuntime().availableProcessors());
    return new Settings(
        (int) number("threads", 1, 1024, processors),
        (int) number("operations_max", 1, 1_000_000, 1024),
        number("write_bytes_max", 1, Long.MAX_VALUE / 2, 16 << 20),
        (int) number("pooled_buffer_size", 1, 16 << 20, 16 << 10),
        (int) number("pooled_buffers_max", 1, 1_000_000, 256),
        (int) number("file_threads", 1, 1024, 4),
        threadFactory,
        handler,
        engineWords(provider));
  }

  String explanation() {
    StringBuilder text = new StringBuilder();
    settings.forEach(
        (word, setting) ->
            text.append(word + "=" + setting.value() + " from " + setting.source() + "\n"));
    return text.toString();
  }

  private Map<String, String> engineWords(EngineProvider provider) {
    Map<String, String> own = new HashMap<>();
    settings.forEach(
        (word, setting) -> {
          if (KNOWN.contains(word)) {
            return;
          }
          if (!provider.settingNames().contains(word)) {
            Set<String> valid = new TreeSet<>(KNOWN);
            valid.addAll(provider.settingNames());
            throw new IllegalArgumentException(
                setting.source()
                    + ": the engine "
                    + provider.name()
                    + " has no setting "
                    + Check.quoted(word)
                    + "; there are "
                    + String.join(", ", valid));
          }
          own.put(word, setting.value());
        });
    return own;
  }

  private long number(String word, long least, long most, long otherwise) {
    Setting setting = settings.get(word);
    if (setting == null) {
      return otherwise;
    }
    String name = setting.source() + ": " + word;
    try {
      return Check.inRange(Long.parseLong(setting.value()), least, most, name);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(
          name
              + ": "
              + Check.quoted(setting.value())
              + " is not a number ("
              + least
              + " to "
              + most
              + ")",
          e);
    }
  }
}
