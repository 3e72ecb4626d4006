package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The numbers of {@link Layouts} are those of baton.h, as a C compiler sees it. */
class LayoutsTest {
  private static final Map<Class<?>, String> STRUCTS =
      Map.of(
          Layouts.Config.class, "baton_config",
          Layouts.Operation.class, "baton_operation",
          Layouts.Completion.class, "baton_completion",
          Layouts.Batch.class, "baton_batch",
          Layouts.Endpoint.class, "baton_endpoint",
          Layouts.Option.class, "baton_option");

  /** Java's name and its C counterpart. */
  private static Map<String, String> expressions() {
    Map<String, String> all = new TreeMap<>();
    STRUCTS.forEach(
        (type, struct) -> {
          for (Field field : type.getDeclaredFields()) {
            String name = field.getName();
            String member = name.equals("OWN_SIZE") ? "size" : name.toLowerCase();
            all.put(
                type.getSimpleName() + "." + name,
                name.equals("SIZE")
                    ? "sizeof(" + struct + ")"
                    : "offsetof(" + struct + ", " + member + ")");
          }
        });
    for (Field kind : Layouts.Kind.class.getDeclaredFields()) {
      all.put("Kind." + kind.getName(), "BATON_" + kind.getName());
    }
    for (Field number : Layouts.class.getDeclaredFields()) {
      all.put("Layouts." + number.getName(), "BATON_" + number.getName());
    }
    return all;
  }

  private static Map<String, Integer> numbers() throws IllegalAccessException {
    Map<String, Integer> all = new TreeMap<>();
    for (Class<?> type : Layouts.class.getDeclaredClasses()) {
      for (Field field : type.getDeclaredFields()) {
        all.put(type.getSimpleName() + "." + field.getName(), number(field));
      }
    }
    for (Field field : Layouts.class.getDeclaredFields()) {
      all.put("Layouts." + field.getName(), number(field));
    }
    return all;
  }

  private static int number(Field field) throws IllegalAccessException {
    return ((Number) field.get(null)).intValue();
  }

  @Test
  void areThoseOfTheHeader(@TempDir Path folder) throws Exception {
    StringBuilder source =
        new StringBuilder("#include <baton.h>\n#include <stdio.h>\nint main(void) {\n");
    expressions()
        .forEach(
            (name, expression) ->
                source.append("  printf(\"%s %%d\\n\", (int)%s);\n".formatted(name, expression)));
    source.append("  return 0;\n}\n");
    Path file = Files.writeString(folder.resolve("layouts.c"), source);
    Path program = folder.resolve("layouts");
    Process compiler;
    try {
      compiler =
          new ProcessBuilder(
                  "cc",
                  "-I" + System.getProperty("baton.native.header"),
                  "-o",
                  program.toString(),
                  file.toString())
              .inheritIO()
              .start();
    } catch (IOException e) {
      assumeTrue(false, "there is no C compiler cc here");
      return;
    }
    assertEquals(0, compiler.waitFor(), source::toString);
    Process run = new ProcessBuilder(program.toString()).start();
    Map<String, Integer> inC = new TreeMap<>();
    new String(run.getInputStream().readAllBytes())
        .lines()
        .map(line -> line.split(" "))
        .forEach(line -> inC.put(line[0], Integer.parseInt(line[1])));
    assertEquals(inC, numbers());
  }
}
