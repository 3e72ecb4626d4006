package io.baton.nativeengine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.baton.test.ChildJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the library comes from, and the sentence that names the fix where it cannot be had. */
class LibraryTest {
  private static final Path BUILT = Path.of(System.getProperty(Library.PATH_PROPERTY));

  /** Prints why the engine cannot be had, or that it can. */
  static final class Ask {
    private Ask() {}

    public static void main(String[] arguments) {
      NativeEngineProvider provider = new NativeEngineProvider();
      Throwable cause = provider.unavailabilityCause();
      System.out.println("answer " + (cause == null ? "none" : cause.getMessage()));
    }
  }

  private static String answer(ChildJvm.Builder child) throws Exception {
    try (ChildJvm running = child.start()) {
      String output = running.rest();
      assertTrue(running.process().waitFor(60, TimeUnit.SECONDS));
      // No warning of the JDK, whatever happens.
      assertTrue(output.startsWith("answer "), output);
      return output.strip().substring("answer ".length());
    }
  }

  private static ChildJvm.Builder ask(String... jvmArguments) {
    ChildJvm.Builder child = ChildJvm.of(Ask.class);
    for (String argument : jvmArguments) {
      child.jvmArgument(argument);
    }
    return child;
  }

  private static String refused(Path library) {
    return assertThrows(UnavailableException.class, () -> Library.openFile(library, "the test"))
        .getMessage();
  }

  /** A library of one function, compiled here. */
  private static Path compiled(Path folder, String source) throws Exception {
    Path file = Files.writeString(folder.resolve("fake.c"), source);
    Path library = folder.resolve("fake.so");
    Process compiler;
    try {
      compiler =
          new ProcessBuilder("cc", "-shared", "-fPIC", "-o", library.toString(), file.toString())
              .inheritIO()
              .start();
    } catch (IOException e) {
      assumeTrue(false, "there is no C compiler cc here");
      throw e;
    }
    assertEquals(0, compiler.waitFor());
    return library;
  }

  // -- by its path -------------------------------------------------------------------------------

  @Test
  void theLibraryOfTheBuildIsTaken() throws Exception {
    assertEquals("none", answer(ask()));
  }

  @Test
  void aFileThatIsMissingIsNamed(@TempDir Path folder) throws Exception {
    Path nowhere = folder.resolve("libbaton.so");
    assertEquals(
        "the library "
            + nowhere
            + ", from the property baton.library, does not exist; name the libbaton.so of Baton "
            + Library.VERSION,
        answer(ask("-Dbaton.library=" + nowhere)));
  }

  /** Asks, mends what is wrong, and asks again. */
  static final class AskTwice {
    private AskTwice() {}

    public static void main(String[] arguments) throws IOException {
      NativeEngineProvider provider = new NativeEngineProvider();
      boolean before = provider.unavailabilityCause() == null;
      Files.copy(Path.of(arguments[0]), Path.of(System.getProperty(Library.PATH_PROPERTY)));
      System.out.println("answer " + before + " " + provider.unavailabilityCause());
    }
  }

  @Test
  void aLackThatHasPassedIsForgotten(@TempDir Path folder) throws Exception {
    assertEquals(
        "false null",
        answer(
            ChildJvm.of(AskTwice.class)
                .jvmArgument("-Dbaton.library=" + folder.resolve("libbaton.so"))
                .argument(BUILT.toString())));
  }

  @Test
  void aFileThatIsNoLibraryIsNamedWithTheReason(@TempDir Path folder) throws Exception {
    Path text =
        Files.writeString(
            folder.resolve("libbaton.so"), "this is text, and no library\n".repeat(100));
    String why = refused(text);
    assertEquals(
        "the library "
            + text
            + ", from the test, is no library of Linux; name the libbaton.so of Baton 0.1.0 for this"
            + " machine",
        why);
  }

  @Test
  void aFolderAndAPipeAreNoFile(@TempDir Path folder) throws Exception {
    Path pipe = folder.resolve("pipe");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    for (Path file : List.of(folder, pipe)) {
      String why = refused(file);
      assertTrue(why.contains(file + ", from the test, is no file; name the libbaton.so of"), why);
    }
  }

  @Test
  void aLibraryThatIsCutShortIsNamed(@TempDir Path folder) throws Exception {
    byte[] whole = Files.readAllBytes(BUILT);
    for (int length : new int[] {64, 4096, whole.length - 1}) {
      Path part = Files.write(folder.resolve("libbaton.so"), Arrays.copyOf(whole, length));
      String why = refused(part);
      assertTrue(why.contains(part + ", from the test, is cut short; "), why);
    }
  }

  @Test
  void aLibraryForAnotherMachineIsNamedWithTheReason(@TempDir Path folder) throws Exception {
    byte[] other = Files.readAllBytes(BUILT);
    // The number of the processor.
    other[0x12] = 8;
    String why = refused(Files.write(folder.resolve("libbaton.so"), other));
    assertTrue(why.contains(", from the test, cannot be loaded: "), why);
    assertTrue(why.endsWith("; name the libbaton.so of Baton 0.1.0 for this machine"), why);
  }

  @Test
  void aFileThatMayNotBeReadIsNamed(@TempDir Path folder) throws Exception {
    Path hidden = folder.resolve("libbaton.so");
    Files.copy(BUILT, hidden);
    Files.setPosixFilePermissions(hidden, PosixFilePermissions.fromString("---------"));
    ChildJvm.Builder child = ask("-Dbaton.library=" + hidden);
    if (Files.isReadable(hidden)) {
      // The superuser may read everything, unless that right is taken away.
      child.prefix("setpriv", "--bounding-set=-all", "--inh-caps=-all");
    }
    assertEquals(
        "the library "
            + hidden
            + ", from the property baton.library, cannot be read by this user; permit it, for"
            + " example by chmod a+r",
        answer(child));
  }

  @Test
  void anotherVersionIsRefusedAndBothAreNamed(@TempDir Path folder) throws Exception {
    String why = refused(compiled(folder, "const char *baton_version(void) { return \"9.8.7\"; }"));
    assertTrue(
        why.endsWith(
            "is of version 9.8.7, and this jar needs 0.1.0; take both from one release of Baton"),
        why);
  }

  @Test
  void anotherLibraryIsRefused(@TempDir Path folder) throws Exception {
    String why = refused(compiled(folder, "int other;"));
    assertTrue(why.endsWith("is not libbaton: it has no function baton_version"), why);
  }

  @Test
  void aLibraryWithoutAllFunctionsIsRefused(@TempDir Path folder) throws Exception {
    Path library =
        compiled(folder, "const char *baton_version(void) { return \"" + Library.VERSION + "\"; }");
    assertEquals(
        "libbaton has no function baton_open; take it and this jar from one release of Baton",
        answer(ask("-Dbaton.library=" + library)));
  }

  // -- from the class path, and the system's -----------------------------------------------------

  /** A folder for the class path that has the library as a release's jar has it. */
  private static ChildJvm.Builder packed(Path folder) throws IOException {
    Path resource = folder.resolve("classes" + Library.resource());
    Files.createDirectories(resource.getParent());
    Files.copy(BUILT, resource);
    // The property of this machine is handed on, and an empty one is none.
    return ask("-Dbaton.library=", "-Dbaton.library.folder=" + folder)
        .classes(folder.resolve("classes"));
  }

  @Test
  void theLibraryOfTheClassPathIsUnpackedOnceByItsHash(@TempDir Path folder) throws Exception {
    byte[] library = Files.readAllBytes(BUILT);
    Path first = Library.unpack(library, folder);
    Path second = Library.unpack(library, folder);
    assertEquals(first, second);
    try (var files = Files.list(first.getParent())) {
      assertEquals(List.of(first), files.toList());
    }
    library[library.length - 1]++;
    Path other = Library.unpack(library, folder);
    assertTrue(!other.equals(first), other::toString);
    assertEquals("r-x------", permissions(other));
    assertEquals("rwx------", permissions(other.getParent()));
  }

  private static String permissions(Path file) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(file));
  }

  @Test
  void aFileInTheFolderThatIsNotTheLibraryIsReplaced(@TempDir Path folder) throws Exception {
    byte[] library = Files.readAllBytes(BUILT);
    Path file = Library.unpack(library, folder);
    Files.delete(file);
    Files.writeString(file, "planted");
    assertEquals(file, Library.unpack(library, folder));
    assertEquals(-1, Files.mismatch(BUILT, file));
  }

  @Test
  void aFolderThatOthersMayWriteToIsRefused(@TempDir Path folder) throws Exception {
    Path own = Library.unpack(new byte[] {1}, folder).getParent();
    Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwxrwxrwx"));
    var refused = assertThrows(IOException.class, () -> Library.unpack(new byte[] {1}, folder));
    assertTrue(refused.getMessage().endsWith("only this user may write to"), refused::getMessage);
  }

  @Test
  void theLibraryOfTheClassPathIsTakenWithoutAProperty(@TempDir Path folder) throws Exception {
    assertEquals("none", answer(packed(folder)));
  }

  @Test
  void aFolderThatCannotBeWrittenIsNamed(@TempDir Path folder) throws Exception {
    Path file = Files.writeString(folder.resolve("file"), "no folder");
    String why = answer(packed(folder).jvmArgument("-Dbaton.library.folder=" + file));
    assertTrue(why.contains("cannot be unpacked into " + file + ": "), why);
    assertTrue(why.endsWith("; name another folder by -Dbaton.library.folder"), why);
  }

  @Test
  void noexecIsNamed(@TempDir Path folder) throws Exception {
    Path mount = Files.createDirectory(folder.resolve("noexec"));
    String command = "mount -t tmpfs -o noexec none " + mount;
    int possible =
        new ProcessBuilder("unshare", "-m", "sh", "-c", command)
            .redirectErrorStream(true)
            .start()
            .waitFor();
    assumeTrue(possible == 0, "this user cannot mount a file system with noexec");
    String why =
        answer(
            packed(folder)
                .jvmArgument("-Dbaton.library.folder=" + mount)
                .prefix("unshare", "-m", "sh", "-c", command + " && exec \"$@\"", "sh"));
    assertTrue(
        why.endsWith(
            "its folder is probably mounted with noexec: name another one by"
                + " -Dbaton.library.folder"),
        why);
  }

  @Test
  void withoutALibraryTheWaysToOneAreNamed() throws Exception {
    String why = answer(ask("-Dbaton.library="));
    if (!why.equals("none")) {
      assertTrue(why.startsWith("the library libbaton.so.0 of the system cannot be loaded: "), why);
      assertTrue(
          why.endsWith("install Baton 0.1.0, or name its libbaton.so by -Dbaton.library"), why);
    }
  }

  @Test
  void theLibraryOfTheSystemIsTaken() throws Exception {
    Path folder = BUILT.toRealPath().getParent();
    assertEquals(
        "none", answer(ask("-Dbaton.library=").environment("LD_LIBRARY_PATH", folder.toString())));
  }

  // -- the machine -------------------------------------------------------------------------------

  @Test
  void otherSystemsAreNamed() {
    var refused =
        assertThrows(
            UnavailableException.class, () -> Library.requireSystem("Windows 11", "amd64"));
    assertEquals(
        "it needs Linux on x86-64 or AArch64, and this is Windows 11 on amd64",
        refused.getMessage());
    assertThrows(UnavailableException.class, () -> Library.requireSystem("Linux", "riscv64"));
    Library.requireSystem("Linux", "aarch64");
  }

  @Test
  void withoutNativeAccessThereIsASentenceAndNoWarning() throws Exception {
    assertEquals(
        "native access is not granted; start java with --enable-native-access=ALL-UNNAMED",
        answer(ask().withoutNativeAccess()));
  }

  @Test
  void aMissingModuleIsNamed() throws Exception {
    assertEquals(
        "the module jdk.net is missing; name it to jlink, or to java, by --add-modules jdk.net",
        answer(ask("--limit-modules=java.base")));
  }

  @Test
  void anOlderJdkIsNamed(@TempDir Path folder) throws Exception {
    String older = System.getProperty("baton.older.jvm", "");
    assumeTrue(!older.isEmpty(), "scripts/java has named no JDK that is older than 22");
    // The tests themselves are for the newer one, so this is source text.
    Path program =
        Files.writeString(
            folder.resolve("Ask.java"),
            """
            public class Ask {
              public static void main(String[] arguments) {
                System.out.println(
                    new io.baton.nativeengine.NativeEngineProvider()
                        .unavailabilityCause()
                        .getMessage());
              }
            }
            """);
    Process process =
        new ProcessBuilder(older, "-cp", System.getProperty("java.class.path"), program.toString())
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes()).strip();
    assertTrue(output.matches("it needs JDK 22 or newer, and this is JDK \\d+"), output);
  }
}
