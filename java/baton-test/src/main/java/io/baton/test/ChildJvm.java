package io.baton.test;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A program in a Java machine of its own, with this one's class path and native access. */
public final class ChildJvm implements AutoCloseable {
  private static final String NATIVE_ACCESS = "--enable-native-access";
  private static final String END = "the other program's output ended";

  private final Process process;
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

  private ChildJvm(Process process) {
    this.process = process;
    Thread reader = new Thread(this::readLines, "output of the other program");
    reader.setDaemon(true);
    reader.start();
  }

  private void readLines() {
    try (BufferedReader output = process.inputReader()) {
      output.lines().forEach(lines::add);
    } catch (IOException | UncheckedIOException e) {
      lines.add(e.toString());
    }
    lines.add(END);
  }

  /**
   * A program to start.
   *
   * @param program has a main
   * @return not started
   */
  public static Builder of(Class<?> program) {
    return new Builder(program);
  }

  /** Its arguments. */
  public static final class Builder {
    private final Class<?> program;
    private final List<String> jvmArguments = new ArrayList<>();
    private final List<String> arguments = new ArrayList<>();
    private final Map<String, String> environment = new HashMap<>();
    private final List<String> prefix = new ArrayList<>();
    private String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    private String classPath = System.getProperty("java.class.path");
    private boolean grants = true;
    private int descriptors;

    private Builder(Class<?> program) {
      this.program = program;
    }

    /**
     * An argument of the Java machine.
     *
     * @param argument behind those that are handed on
     * @return this
     */
    public Builder jvmArgument(String argument) {
      jvmArguments.add(argument);
      return this;
    }

    /**
     * An argument of the program.
     *
     * @param argument behind those before
     * @return this
     */
    public Builder argument(String argument) {
      arguments.add(argument);
      return this;
    }

    /**
     * A variable.
     *
     * @param name of the variable
     * @param value of the variable
     * @return this
     */
    public Builder environment(String name, String value) {
      environment.put(name, value);
      return this;
    }

    /**
     * At most so many descriptors.
     *
     * @param most for the whole process
     * @return this
     */
    public Builder descriptors(int most) {
      descriptors = most;
      return this;
    }

    /**
     * Commands that run the Java machine.
     *
     * @param commands in front of it
     * @return this
     */
    public Builder prefix(String... commands) {
      prefix.addAll(List.of(commands));
      return this;
    }

    /**
     * Puts a folder in front of the class path.
     *
     * @param folder of classes and resources
     * @return this
     */
    public Builder classes(Path folder) {
      classPath = folder + File.pathSeparator + classPath;
      return this;
    }

    /**
     * Grants no native access, whatever this machine has.
     *
     * @return this
     */
    public Builder withoutNativeAccess() {
      grants = false;
      return this;
    }

    /**
     * Another Java machine than this one.
     *
     * @param program its file
     * @return this
     */
    public Builder java(String program) {
      java = program;
      return this;
    }

    /**
     * Starts it.
     *
     * @return running
     * @throws IOException if the system refuses
     */
    public ChildJvm start() throws IOException {
      List<String> command = new ArrayList<>();
      if (descriptors > 0) {
        command.addAll(List.of("sh", "-c", "ulimit -n " + descriptors + " && exec \"$@\"", "sh"));
      }
      command.addAll(prefix);
      command.add(java);
      ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
          .filter(one -> one.startsWith("-Dbaton.") || grants && one.startsWith(NATIVE_ACCESS))
          .forEach(command::add);
      // As the tests themselves: it lives for seconds.
      command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
      command.addAll(jvmArguments);
      command.addAll(List.of("-cp", classPath, program.getName()));
      command.addAll(arguments);
      ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
      builder.environment().putAll(environment);
      return new ChildJvm(builder.start());
    }
  }

  /**
   * The process.
   *
   * @return running or ended
   */
  public Process process() {
    return process;
  }

  /**
   * Lets it continue.
   *
   * @param line for its input
   * @throws IOException if it has ended
   */
  public void tell(String line) throws IOException {
    process.getOutputStream().write((line + "\n").getBytes());
    process.getOutputStream().flush();
  }

  /**
   * The line that begins with this word; others are passed over, and shown if it does not come.
   *
   * @param word its begin
   * @return the whole line
   */
  public String line(String word) {
    StringBuilder passed = new StringBuilder();
    String line = nextLine();
    while (!line.startsWith(word)) {
      passed.append(line + "\n");
      if (line.equals(END)) {
        throw new AssertionError("no line began with '" + word + "':\n" + passed);
      }
      line = nextLine();
    }
    return line;
  }

  /**
   * Everything up to its end.
   *
   * @return lines
   */
  public String rest() {
    StringBuilder rest = new StringBuilder();
    for (String line = nextLine(); !line.equals(END); line = nextLine()) {
      rest.append(line + "\n");
    }
    return rest.toString();
  }

  private String nextLine() {
    try {
      String line = lines.poll(Patience.PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
      return line == null ? END : line;
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
