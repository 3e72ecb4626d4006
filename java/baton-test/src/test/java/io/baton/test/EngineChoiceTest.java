package io.baton.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.spi.Engine;
import io.baton.spi.EngineProvider;
import io.baton.spi.EngineSettings;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** J-04: engines are chosen at run time, by code, property or variable, visibly. */
class EngineChoiceTest {

  /** Prints the choice; run as a program of its own for the variable and the property. */
  static final class Chosen {
    private Chosen() {}

    public static void main(String[] arguments) {
      DemultiplexorBuilder builder = Demultiplexor.builder();
      if (arguments.length > 0) {
        builder.engine(arguments[0]);
      }
      try (Demultiplexor chosen = builder.fromEnvironment().open()) {
        System.out.println(chosen.getEngine() + " " + chosen.getThreads());
        System.out.println(chosen.explain());
      } catch (IOException | RuntimeException e) {
        System.out.println(e.getMessage());
      }
    }
  }

  @Test
  void autoTakesTheBestThatCanBeHadAndSaysWhyNotABetterOne() throws Exception {
    try (Demultiplexor chosen = Demultiplexor.builder().threads(1).open()) {
      assertEquals("nio", chosen.getEngine());
      assertTrue(
          chosen
              .explain()
              .contains(
                  "engine missing is not available: the library of the engine missing is not"
                      + " installed"),
          chosen::explain);
      assertTrue(chosen.explain().contains("threads=1 from the program"), chosen::explain);
    }
  }

  @Test
  void anUnknownEngineIsRefusedWithTheListOfThoseThereAre() {
    var refused =
        assertThrows(
            IllegalArgumentException.class, () -> Demultiplexor.builder().engine("x").open());
    assertEquals(
        "the program: engine: there is no engine 'x'; there are auto, missing, nio, own",
        refused.getMessage());
    refused =
        assertThrows(
            IllegalArgumentException.class, () -> Demultiplexor.builder().engine("missing").open());
    assertTrue(refused.getMessage().contains("not installed"), refused::getMessage);
    refused =
        assertThrows(
            IllegalArgumentException.class,
            () -> Demultiplexor.builder().engine("x".repeat(70_000)).open());
    assertTrue(refused.getMessage().length() < 200, "a long name is quoted in part");
  }

  /** Jars that are merged carelessly lose the names of the engines. */
  @Test
  void theLackOfEveryEngineIsExplained() throws Exception {
    URL[] classes = {Demultiplexor.class.getProtectionDomain().getCodeSource().getLocation()};
    ClassLoader before = Thread.currentThread().getContextClassLoader();
    try (URLClassLoader bare =
        new URLClassLoader(classes, ClassLoader.getPlatformClassLoader()) {
          @Override
          public Enumeration<URL> getResources(String name) {
            return Collections.emptyEnumeration();
          }
        }) {
      Thread.currentThread().setContextClassLoader(bare);
      Method open = bare.loadClass(Demultiplexor.class.getName()).getMethod("open");
      var refused = assertThrows(InvocationTargetException.class, () -> open.invoke(null));
      assertEquals(
          "the default: engine: no engine was found: a jar that is merged from others needs the"
              + " lines of all their files META-INF/services/io.baton.spi.EngineProvider",
          refused.getCause().getMessage());
    } finally {
      Thread.currentThread().setContextClassLoader(before);
    }
  }

  /** Stands in no file of this class path. */
  public static class Elsewhere implements EngineProvider {
    @Override
    public String name() {
      return "elsewhere";
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
      return new io.baton.test.own.OwnEngineProvider()
          .open(new EngineSettings(0, 1, java.util.Map.of()));
    }
  }

  /** Runs with a context class loader that finds these providers. */
  private static void withProviders(Path folder, List<String> providers, Executable action)
      throws Throwable {
    Path names =
        Files.createDirectories(folder.resolve("META-INF/services"))
            .resolve(EngineProvider.class.getName());
    Files.write(names, providers);
    ClassLoader before = Thread.currentThread().getContextClassLoader();
    try (URLClassLoader more =
        new URLClassLoader(
            new URL[] {folder.toUri().toURL()}, EngineChoiceTest.class.getClassLoader())) {
      Thread.currentThread().setContextClassLoader(more);
      action.execute();
    } finally {
      Thread.currentThread().setContextClassLoader(before);
    }
  }

  @Test
  void anEngineOfTheClassLoaderOfTheThreadIsFound(@TempDir Path folder) throws Throwable {
    withProviders(
        folder,
        List.of(Elsewhere.class.getName()),
        () -> Demultiplexor.builder().engine("elsewhere").threads(1).open().close());
  }

  /** Fails in each of its answers, or in some. */
  public abstract static class Failing extends Elsewhere {
    static RuntimeException failure() {
      return new IllegalStateException("out of order");
    }
  }

  /** Cannot be made. */
  public static final class FailsAtOnce extends Failing {
    public FailsAtOnce() {
      throw failure();
    }
  }

  /** Has no name. */
  public static final class Nameless extends Failing {
    @Override
    public String name() {
      return null;
    }
  }

  /** Does not say how good it is. */
  public static final class FailsInItsPriority extends Failing {
    @Override
    public int priority() {
      throw failure();
    }
  }

  /** Does not say whether it can be had. */
  public static final class FailsInItsCause extends Failing {
    @Override
    public String name() {
      return "failing";
    }

    @Override
    public int priority() {
      return 1000;
    }

    @Override
    public Throwable unavailabilityCause() {
      throw failure();
    }
  }

  @Test
  void aProviderThatFailsKeepsNoOtherFromBeingUsed(@TempDir Path folder) throws Throwable {
    List<String> providers =
        List.of(
            "no.such.Provider",
            FailsAtOnce.class.getName(),
            Nameless.class.getName(),
            FailsInItsPriority.class.getName(),
            FailsInItsCause.class.getName(),
            Elsewhere.class.getName());
    withProviders(folder, providers, EngineChoiceTest::useAnotherThanThoseThatFail);
  }

  private static void useAnotherThanThoseThatFail() throws Exception {
    Demultiplexor.builder().engine("elsewhere").threads(1).open().close();
    var refused =
        assertThrows(
            IllegalArgumentException.class, () -> Demultiplexor.builder().engine("failing").open());
    assertEquals(
        "the program: engine: failing is not available: out of order", refused.getMessage());
    try (Demultiplexor chosen = Demultiplexor.builder().threads(1).open()) {
      assertEquals("nio", chosen.getEngine());
      for (String reason :
          List.of(
              "Provider no.such.Provider not found",
              "FailsAtOnce could not be instantiated: java.lang.IllegalStateException: out of"
                  + " order",
              "the name of " + Nameless.class.getName() + ": is null",
              "a provider of an engine is left out: out of order",
              "engine failing is not available: out of order")) {
        assertEquals(2, chosen.explain().split(reason.replace("$", "\\$"), -1).length, reason);
      }
    }
  }

  @Test
  void anEngineHasWordsOfItsOwn() throws Exception {
    Demultiplexor.builder().engine("own").set("look_us", "50").open().close();
    var refused =
        assertThrows(
            IllegalArgumentException.class,
            () -> Demultiplexor.builder().engine("nio").set("look_us", "50").open());
    assertTrue(
        refused.getMessage().startsWith("the program: the engine nio has no setting 'look_us'"),
        refused::getMessage);
  }

  @Test
  void anEngineThatCannotBeOpenedLeavesNothingBehind() {
    EngineProvider broken =
        new EngineProvider() {
          @Override
          public String name() {
            return "broken";
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
            if (settings.lane() == 1) {
              throw new IOException("no ring for lane 1");
            }
            return new io.baton.test.own.OwnEngineProvider()
                .open(new EngineSettings(0, 1, java.util.Map.of()));
          }
        };
    List<Thread> lanes = new java.util.ArrayList<>();
    IOException refused =
        assertThrows(
            IOException.class,
            () ->
                Demultiplexor.builder()
                    .engine(broken)
                    .threads(3)
                    .threadFactory(
                        lane -> {
                          Thread thread = new Thread(lane);
                          lanes.add(thread);
                          return thread;
                        })
                    .open());
    assertEquals("the engine broken could not be opened: no ring for lane 1", refused.getMessage());
    assertEquals(3, lanes.size());
    lanes.forEach(Patience::await);
  }

  @ParameterizedTest
  @CsvSource(
      nullValues = "-",
      delimiter = '|',
      value = {
        // code | property | variable | begin of the answer
        "own | -           | -                    | own ",
        "own | engine=nio  | -                    | nio ",
        "own | engine=nio  | engine=own,threads=3 | own 3",
        "-   | -           | engine = own         | own ",
        "-   | threads=2   | ' '                  | nio 2",
        "-   | -           | engine=x             | the variable BATON: engine: there is no engine",
        "-   | engine=missing | -                 | the property baton: engine: missing is not",
        "-   | threads=x   | -                    | the property baton: threads: 'x' is not a",
        "-   | -           | threads=5000         | the variable BATON: threads: 5000 is out",
        "-   | -           | wait=epoll           | the variable BATON: the engine nio has no",
        "-   | -           | fast                 | the variable BATON: 'fast' has no '='",
      })
  void codePropertyAndVariableOverrideEachOther(
      String code, String property, String variable, String answer) throws Exception {
    ChildJvm.Builder child = ChildJvm.of(Chosen.class);
    if (property != null) {
      child.jvmArgument("-Dbaton=" + property);
    }
    if (variable != null) {
      child.environment("BATON", variable);
    }
    if (code != null) {
      child.argument(code);
    }
    String output;
    try (ChildJvm running = child.start()) {
      output = running.rest();
      assertTrue(running.process().waitFor(60, TimeUnit.SECONDS));
    }
    assertTrue(output.startsWith(answer.stripLeading()), output);
  }
}
