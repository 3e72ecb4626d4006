package io.baton.nativeengine;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HexFormat;

/**
 * Finds libbaton and loads it for good: the file that the property {@code baton.library} names,
 * else the one on the class path, else the system's.
 *
 * <p><b>Threads:</b> any.
 */
final class Library {
  /** The version of the C interface that this was written for. */
  static final String VERSION = "0.1.0";

  static final String PATH_PROPERTY = "baton.library";
  static final String FOLDER_PROPERTY = "baton.library.folder";
  private static final String FOR_THIS_MACHINE =
      "; name the libbaton.so of Baton " + VERSION + " for this machine";
  private static final String SYSTEM_NAME = "libbaton.so.0";
  private static final int RTLD_NOW = 2;

  // In an ELF file for 64 bits; the table of sections stands at its end.
  private static final int HEADER_SIZE = 64;
  private static final int MAGIC = 0x464c457f;
  private static final int SECTIONS_AT = 0x28;
  private static final int SECTION_SIZE_AT = 0x3a;
  private static final int SECTION_COUNT_AT = 0x3c;

  private static SymbolLookup loaded;

  private Library() {}

  /**
   * Loads it when called first.
   *
   * @return its functions
   * @throws UnavailableException if it cannot be had; the message says what helps
   */
  static synchronized SymbolLookup load() {
    if (loaded == null) {
      requireSystem(System.getProperty("os.name"), System.getProperty("os.arch"));
      requireNativeAccess();
      loaded = find();
    }
    return loaded;
  }

  static void requireSystem(String system, String processor) {
    boolean known = processor.equals("amd64") || processor.equals("aarch64");
    if (!system.equals("Linux") || !known) {
      throw new UnavailableException(
          "it needs Linux on x86-64 or AArch64, and this is " + system + " on " + processor);
    }
  }

  // Asked first, so that a program that has not granted it gets no warning of the JDK.
  private static void requireNativeAccess() {
    Module own = Library.class.getModule();
    if (!own.isNativeAccessEnabled()) {
      throw new UnavailableException(
          "native access is not granted; start java with --enable-native-access="
              + (own.isNamed() ? own.getName() : "ALL-UNNAMED"));
    }
  }

  private static SymbolLookup find() {
    String path = System.getProperty(PATH_PROPERTY, "");
    if (!path.isEmpty()) {
      return openFile(Path.of(path), "the property " + PATH_PROPERTY);
    }
    String resource = resource();
    try (InputStream packed = Library.class.getResourceAsStream(resource)) {
      if (packed != null) {
        return openFile(unpack(packed.readAllBytes(), folder()), resource + " of the class path");
      }
    } catch (IOException e) {
      throw new UnavailableException(
          resource
              + " of the class path cannot be unpacked into "
              + folder()
              + ": "
              + e
              + "; name another folder by -D"
              + FOLDER_PROPERTY,
          e);
    }
    return openSystem();
  }

  static String resource() {
    String processor = System.getProperty("os.arch").equals("amd64") ? "x86_64" : "aarch_64";
    return "/META-INF/native/linux-" + processor + "/libbaton-java.so";
  }

  private static Path folder() {
    String named = System.getProperty(FOLDER_PROPERTY);
    return Path.of(named != null ? named : System.getProperty("java.io.tmpdir"));
  }

  /**
   * Writes the library into the folder, under a name that has its hash: processes share the file,
   * and versions do not meet. A folder such as /tmp is open to all, so the file is in a folder of
   * this user's own, and one that is there already is compared.
   */
  static Path unpack(byte[] library, Path folder) throws IOException {
    Path own = folder.resolve("baton-" + System.getProperty("user.name"));
    try {
      Files.createDirectory(
          own, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    } catch (FileAlreadyExistsException e) {
      // Looked at below.
    }
    Path file = own.resolve("libbaton-" + hash(library) + ".so");
    Path part = Files.createTempFile(own, "libbaton-", ".part");
    try {
      requireOwn(own, Files.getOwner(part));
      if (Files.isRegularFile(file) && Arrays.equals(Files.readAllBytes(file), library)) {
        return file;
      }
      Files.write(part, library);
      Files.setPosixFilePermissions(part, PosixFilePermissions.fromString("r-x------"));
      // A process that comes second replaces the file by an equal one.
      Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
      return file;
    } finally {
      Files.deleteIfExists(part);
    }
  }

  // No other user may put a library there.
  private static void requireOwn(Path folder, UserPrincipal user) throws IOException {
    var others = EnumSet.of(PosixFilePermission.GROUP_WRITE, PosixFilePermission.OTHERS_WRITE);
    others.retainAll(Files.getPosixFilePermissions(folder, LinkOption.NOFOLLOW_LINKS));
    if (!Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
        || !Files.getOwner(folder).equals(user)
        || !others.isEmpty()) {
      throw new IOException(folder + " is not a folder that only this user may write to");
    }
  }

  private static String hash(byte[] library) {
    try {
      byte[] whole = MessageDigest.getInstance("SHA-256").digest(library);
      return HexFormat.of().formatHex(whole, 0, 16);
    } catch (NoSuchAlgorithmException e) {
      throw new AssertionError("every JDK has SHA-256", e);
    }
  }

  /** origin: the setting that named the file. */
  static SymbolLookup openFile(Path file, String origin) {
    String what = "the library " + file + ", from " + origin + ",";
    if (!Files.exists(file)) {
      throw new UnavailableException(
          what + " does not exist; name the libbaton.so of Baton " + VERSION);
    }
    if (!Files.isRegularFile(file)) {
      // Reading a pipe could wait for ever.
      throw new UnavailableException(what + " is no file" + FOR_THIS_MACHINE);
    }
    if (!Files.isReadable(file)) {
      throw new UnavailableException(
          what + " cannot be read by this user; permit it, for example by chmod a+r");
    }
    try {
      requireWhole(file, what);
      return checked(SymbolLookup.libraryLookup(file.toRealPath(), Arena.global()), what);
    } catch (IllegalArgumentException | IOException e) {
      String why = reason(file.toString());
      throw new UnavailableException(what + " cannot be loaded: " + why + advice(why), e);
    }
  }

  /**
   * Refuses what is no library, of which Java would warn in words of its own, and one that is cut
   * short, which would end the process while it is loaded.
   */
  private static void requireWhole(Path file, String what) throws IOException {
    try (InputStream input = Files.newInputStream(file)) {
      ByteBuffer header =
          ByteBuffer.wrap(input.readNBytes(HEADER_SIZE)).order(ByteOrder.LITTLE_ENDIAN);
      if (header.limit() < HEADER_SIZE || header.getInt(0) != MAGIC) {
        throw new UnavailableException(what + " is no library of Linux" + FOR_THIS_MACHINE);
      }
      long sections = header.getLong(SECTIONS_AT);
      int size = header.getShort(SECTION_SIZE_AT) * header.getShort(SECTION_COUNT_AT);
      if (sections + size > Files.size(file)) {
        throw new UnavailableException(what + " is cut short" + FOR_THIS_MACHINE);
      }
    }
  }

  private static String advice(String why) {
    return why.contains("failed to map segment")
        ? "; its folder is probably mounted with noexec: name another one by -D" + FOLDER_PROPERTY
        : FOR_THIS_MACHINE;
  }

  private static SymbolLookup openSystem() {
    String what = "the library " + SYSTEM_NAME + " of the system";
    try {
      return checked(SymbolLookup.libraryLookup(SYSTEM_NAME, Arena.global()), what);
    } catch (IllegalArgumentException e) {
      throw new UnavailableException(
          what
              + " cannot be loaded: "
              + reason(SYSTEM_NAME)
              + "; install Baton "
              + VERSION
              + ", or name its libbaton.so by -D"
              + PATH_PROPERTY,
          e);
    }
  }

  private static SymbolLookup checked(SymbolLookup library, String what) {
    MemorySegment function =
        library
            .find("baton_version")
            .orElseThrow(
                () ->
                    new UnavailableException(
                        what + " is not libbaton: it has no function baton_version"));
    MethodHandle call =
        Linker.nativeLinker().downcallHandle(function, FunctionDescriptor.of(ValueLayout.ADDRESS));
    try {
      String found = text((MemorySegment) call.invokeExact());
      if (!found.equals(VERSION)) {
        throw new UnavailableException(
            what
                + " is of version "
                + found
                + ", and this jar needs "
                + VERSION
                + "; take both from one release of Baton");
      }
    } catch (UnavailableException e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
    return library;
  }

  /** The dynamic linker's message, which libraryLookup does not have. */
  private static String reason(String name) {
    Linker linker = Linker.nativeLinker();
    SymbolLookup system = linker.defaultLookup();
    try (Arena arena = Arena.ofConfined()) {
      MethodHandle open =
          linker.downcallHandle(
              system.find("dlopen").orElseThrow(),
              FunctionDescriptor.of(
                  ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
      MethodHandle error =
          linker.downcallHandle(
              system.find("dlerror").orElseThrow(), FunctionDescriptor.of(ValueLayout.ADDRESS));
      MemorySegment opened = (MemorySegment) open.invokeExact(arena.allocateFrom(name), RTLD_NOW);
      if (opened.address() != 0) {
        return "it is missing something";
      }
      return text((MemorySegment) error.invokeExact());
    } catch (Throwable e) {
      return "the system does not say why (" + e + ")";
    }
  }

  private static String text(MemorySegment zeroTerminated) {
    return zeroTerminated.reinterpret(Long.MAX_VALUE).getString(0);
  }
}
