package io.baton.test;

import java.io.BufferedReader;
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
final class ChildJvm implements AutoCloseable {
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

  static Builder of(Class<?> program) {
    return new Builder(program);
  }

  /** What it is started with. */
  static final class Builder {
    private final Class<?> program;
    private final List<String> jvmArguments = new ArrayList<>();
    private final List<String> arguments = new ArrayList<>();
    private final Map<String, String> environment = new HashMap<>();
    private int descriptors;

    private Builder(Class<?> program) {
      this.program = program;
    }

    Builder jvmArgument(String argument) {
      jvmArguments.add(argument);
      return this;
    }

    Builder argument(String argument) {
      arguments.add(argument);
      return this;
    }

    Builder environment(String name, String value) {
      environment.put(name, value);
      return this;
    }

    /** At most so many descriptors. */
    Builder descriptors(int most) {
      descriptors = most;
      return this;
    }

    ChildJvm start() throws IOException {
      List<String> command = new ArrayList<>();
      if (descriptors > 0) {
        command.addAll(List.of("sh", "-c", "ulimit -n " + descriptors + " && exec \"$@\"", "sh"));
      }
      command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
      ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
          .filter(one -> one.startsWith("--enable-native-access") || one.startsWith("-Dbaton."))
          .forEach(command::add);
      command.addAll(jvmArguments);
      command.addAll(List.of("-cp", System.getProperty("java.class.path"), program.getName()));
      command.addAll(arguments);
      ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
      builder.environment().putAll(environment);
      return new ChildJvm(builder.start());
    }
  }

  Process process() {
    return process;
  }

  /** Tells it to go on. */
  void tell(String line) throws IOException {
    process.getOutputStream().write((line + "\n").getBytes());
    process.getOutputStream().flush();
  }

  /** The line that begins with this word; others are passed over, and shown if it does not come. */
  String line(String word) {
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

  /** Everything up to its end. */
  String rest() {
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
