package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.baton.Demultiplexor;
import io.baton.DemultiplexorBuilder;
import io.baton.spi.EngineSettings;
import io.baton.test.ChildJvm;
import java.io.File;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The C++ engine is chosen by the words of the Demultiplexor, and seen in its explanation. */
class EngineWordsTest {

  private static DemultiplexorBuilder builder(String... words) {
    DemultiplexorBuilder builder = Demultiplexor.builder().engine("native").threads(1);
    for (int i = 0; i < words.length; i += 2) {
      builder.set(words[i], words[i + 1]);
    }
    return builder;
  }

  @Test
  void autoTakesThisEngine() throws Exception {
    try (Demultiplexor demultiplexor = Demultiplexor.builder().threads(1).open()) {
      assertEquals("native", demultiplexor.getEngine());
    }
  }

  @Test
  void lanesOfVirtualThreadsAreRefused() {
    var refused =
        assertThrows(
            IOException.class, () -> builder().threadFactory(Thread.ofVirtual().factory()).open());
    assertEquals(
        "the engine native could not be opened: its lanes need platform threads, and threadFactory"
            + " makes virtual ones; leave it out, or choose engine=nio",
        refused.getMessage());
  }

  @Test
  void theExplanationNamesTheEngineOfTheLibrary() throws Exception {
    for (String engine : new String[] {"io_uring", "emulated"}) {
      try (Demultiplexor demultiplexor = builder("native.engine", engine).open()) {
        String explained = demultiplexor.explain();
        assertTrue(explained.startsWith("engine native\n"), explained);
        assertTrue(explained.contains("processor 0: engine=" + engine + " "), explained);
      }
    }
    try (Demultiplexor demultiplexor =
        builder("native.engine", "emulated", "native.wait", "poll", "native.interrupt", "pipe")
            .open()) {
      String explained = demultiplexor.explain();
      assertTrue(explained.contains("wait=poll interrupt=pipe"), explained);
    }
  }

  @Test
  void anEngineOfTheLibraryIsNoEngineOfJavaAndTheMessageSaysWhatItIs() {
    var refused =
        assertThrows(IllegalArgumentException.class, () -> builder().engine("io_uring").open());
    assertTrue(
        refused.getMessage().endsWith("by engine=native,native.engine=NAME"), refused::getMessage);
  }

  @Test
  void wordsThatTheLibraryDoesNotKnowAreRefusedInItsWords() throws Exception {
    builder("native.slots", "1").open().close();
    var refused = assertThrows(IOException.class, () -> builder("native.engine", "kqueue").open());
    assertTrue(refused.getMessage().contains("kqueue"), refused::getMessage);
    refused =
        assertThrows(
            IOException.class,
            () -> builder("native.engine", "emulated", "native.wait", "epol").open());
    assertTrue(
        refused.getMessage().contains("wait=\"epol\" is not a known wait strategy"),
        refused::getMessage);
    for (String slots : new String[] {"0", "many", "1048577"}) {
      refused = assertThrows(IOException.class, () -> builder("native.slots", slots).open());
      assertTrue(
          refused
              .getMessage()
              .endsWith("native.slots: '" + slots + "' is not a number from 1 to 1048576"),
          refused::getMessage);
    }
  }

  @Test
  void aNamedEngineIsRequired() {
    assertEquals(
        "mode=per_thread,threads=1,profile=pinned,engine=io_uring,require=io_uring,wait=epoll",
        NativeEngine.configuration(
            new EngineSettings(0, 1, Map.of("native.engine", "io_uring", "native.wait", "epoll"))));
    assertEquals(
        "mode=per_thread,threads=1,profile=pinned,engine=auto,prefer=io_uring",
        NativeEngine.configuration(new EngineSettings(0, 1, Map.of("native.engine", "auto"))));
    assertEquals(
        "mode=per_thread,threads=1,profile=pinned,engine=auto,prefer=io_uring,interrupt=pipe,handles=9",
        NativeEngine.configuration(
            new EngineSettings(0, 1, Map.of("native.handles", "9", "native.interrupt", "pipe"))));
    // Only the engine emulated waits by a strategy.
    assertEquals(
        "mode=per_thread,threads=1,profile=pinned,engine=auto,wait=poll",
        NativeEngine.configuration(new EngineSettings(0, 1, Map.of("native.wait", "poll"))));
  }

  // -- io_uring denied ---------------------------------------------------------------------------

  /** Has the kernel refuse io_uring to this process, and opens the variable's engine. */
  static final class Denied {
    private static final int SET_NO_NEW_PRIVILEGES = 38;
    private static final int SECCOMP = System.getProperty("os.arch").equals("amd64") ? 317 : 277;
    private static final int IO_URING_SETUP = 425;

    private Denied() {}

    public static void main(String[] arguments) throws Throwable {
      deny();
      try (Demultiplexor demultiplexor =
          Demultiplexor.builder().threads(1).fromEnvironment().open()) {
        System.out.println("opened " + demultiplexor.explain().replace('\n', ' '));
      } catch (IOException e) {
        System.out.println("refused " + e.getMessage());
      }
    }

    private static void deny() throws Throwable {
      Linker linker = Linker.nativeLinker();
      var call =
          linker.downcallHandle(
              linker.defaultLookup().find("syscall").orElseThrow(),
              FunctionDescriptor.of(
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.ADDRESS),
              Linker.Option.firstVariadicArg(1));
      var prctl =
          linker.downcallHandle(
              linker.defaultLookup().find("prctl").orElseThrow(),
              FunctionDescriptor.of(
                  ValueLayout.JAVA_INT,
                  ValueLayout.JAVA_INT,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG,
                  ValueLayout.JAVA_LONG),
              Linker.Option.firstVariadicArg(1));
      try (Arena arena = Arena.ofConfined()) {
        // Load the number; where it is io_uring_setup answer EPERM, else allow.
        long[] instructions = {
          0x20L,
          0x15L | 0x10000L | (long) IO_URING_SETUP << 32,
          0x06L | 0x7fff0000L << 32,
          0x06L | 0x00050001L << 32,
        };
        MemorySegment filter = arena.allocateFrom(ValueLayout.JAVA_LONG, instructions);
        MemorySegment program = arena.allocate(16, 8);
        program.set(ValueLayout.JAVA_SHORT, 0, (short) instructions.length);
        program.set(ValueLayout.ADDRESS, 8, filter);
        int privileges = (int) prctl.invokeExact(SET_NO_NEW_PRIVILEGES, 1L, 0L, 0L, 0L);
        // For all threads of the process.
        long denied = (long) call.invokeExact((long) SECCOMP, 1L, 1L, program);
        if (privileges != 0 || denied != 0) {
          throw new AssertionError("no filter: " + privileges + ", " + denied);
        }
      }
    }
  }

  private static String denied(String words) throws Exception {
    try (ChildJvm child = ChildJvm.of(Denied.class).environment("BATON", words).start()) {
      String output = child.rest();
      assertTrue(child.process().waitFor(60, TimeUnit.SECONDS));
      return output;
    }
  }

  @Test
  void ioUringThatIsDeniedIsRefusedWithTheReason() throws Exception {
    String refused = denied("engine=native,native.engine=io_uring");
    assertTrue(refused.startsWith("refused the engine native could not be opened: "), refused);
    assertTrue(refused.contains("io_uring"), refused);
    assertTrue(refused.contains("seccomp") || refused.contains("filter"), refused);
  }

  @Test
  void whereIoUringIsDeniedTheNextIsTakenAndTheReasonIsShown() throws Exception {
    String opened = denied("engine=native");
    assertTrue(opened.startsWith("opened engine native "), opened);
    assertTrue(opened.contains("engine=emulated"), opened);
    assertTrue(opened.contains("native.engine io_uring is not available: "), opened);
  }

  // -- as a module -------------------------------------------------------------------------------

  @Test
  void asAModuleItNeedsTheGrantForOneModuleOnly() throws Exception {
    String classes = System.getProperty("java.class.path");
    String[] entries = classes.split(File.pathSeparator);
    StringBuilder modules = new StringBuilder();
    for (String entry : entries) {
      boolean isModule = new File(entry, "module-info.class").exists();
      if (isModule || entry.contains("baton-") && entry.endsWith(".jar")) {
        modules.append(entry).append(File.pathSeparator);
      }
    }
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--illegal-native-access=deny",
                "--enable-native-access=io.baton.nativeengine",
                "-Dbaton.library=" + System.getProperty("baton.library"),
                "-p",
                modules.toString(),
                "--add-modules",
                "io.baton.nativeengine",
                "-cp",
                classes,
                "io.baton.nativetest.Opened")
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes()).strip();
    assertEquals("native module io.baton.nativeengine", output);
  }
}
