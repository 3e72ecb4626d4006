package io.baton;

import io.baton.spi.EngineProvider;
import java.io.IOException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * The settings of a {@link Demultiplexor}, with their defaults.
 *
 * <p><b>Threads:</b> for one thread. In order of rising precedence a setting comes from this code,
 * from the property {@code baton}, and from the variable {@code BATON}; property and variable count
 * only if {@link #fromEnvironment} is called. Both are pairs of {@code name=value} between commas,
 * for example {@code engine=nio,threads=2}.
 */
public final class DemultiplexorBuilder {
  private final Words words = new Words();
  private ThreadFactory threadFactory = laneThreads();
  private Consumer<Throwable> exceptionHandler = DemultiplexorBuilder::log;
  private EngineProvider provider;

  DemultiplexorBuilder() {}

  /**
   * Which engine.
   *
   * @param name of a provider that {@link java.util.ServiceLoader} finds; {@code auto}, the
   *     default, is the available one with the highest priority
   * @return this
   */
  public DemultiplexorBuilder engine(String name) {
    Check.notNull(name, "name");
    return set("engine", name);
  }

  /**
   * An engine of the program, whatever property and variable say.
   *
   * @param ownProvider makes the engines
   * @return this
   */
  public DemultiplexorBuilder engine(EngineProvider ownProvider) {
    Check.notNull(ownProvider, "ownProvider");
    provider = ownProvider;
    return this;
  }

  /**
   * Number of lanes.
   *
   * @param number 1 to 1024; default: the number of processors
   * @return this
   */
  public DemultiplexorBuilder threads(int number) {
    return set("threads", Integer.toString(number));
  }

  /**
   * Operations of a channel that may be pending; more are refused.
   *
   * @param number 1 to 1,000,000; default 1,024
   * @return this
   */
  public DemultiplexorBuilder operationsMax(int number) {
    return set("operations_max", Integer.toString(number));
  }

  /**
   * Bytes of the pending writes of a channel; more are refused. One write alone may be larger.
   *
   * @param bytes 1 or more; default 16 MiB
   * @return this
   */
  public DemultiplexorBuilder writeBytesMax(long bytes) {
    return set("write_bytes_max", Long.toString(bytes));
  }

  /**
   * Size of the blocks that pooled reads take.
   *
   * @param bytes 1 to 16 MiB; default 16 KiB
   * @return this
   */
  public DemultiplexorBuilder pooledBufferSize(int bytes) {
    return set("pooled_buffer_size", Integer.toString(bytes));
  }

  /**
   * Blocks of a lane that may be in use; then pooled reads wait.
   *
   * @param number 1 to 1,000,000; default 256
   * @return this
   */
  public DemultiplexorBuilder pooledBuffersMax(int number) {
    return set("pooled_buffers_max", Integer.toString(number));
  }

  /**
   * Threads that may block in files.
   *
   * @param number 1 to 1024; default 4
   * @return this
   */
  public DemultiplexorBuilder fileThreads(int number) {
    return set("file_threads", Integer.toString(number));
  }

  /**
   * Sets anything by its word, also the words of the engine.
   *
   * @param word for example {@code threads}
   * @param value as in the variable {@code BATON}
   * @return this
   */
  public DemultiplexorBuilder set(String word, String value) {
    words.set(word, value, "the program");
    return this;
  }

  /**
   * Makes the threads of the lanes.
   *
   * @param factory called once for each lane, by the thread that opens the Demultiplexor
   * @return this
   */
  public DemultiplexorBuilder threadFactory(ThreadFactory factory) {
    Check.notNull(factory, "factory");
    threadFactory = factory;
    return this;
  }

  /**
   * Receives exceptions that handlers throw, and errors that no handler receives.
   *
   * @param handler called by lanes; by default it is logged as an error to {@code io.baton}
   * @return this
   */
  public DemultiplexorBuilder exceptionHandler(Consumer<Throwable> handler) {
    Check.notNull(handler, "handler");
    exceptionHandler = handler;
    return this;
  }

  /**
   * Lets the property {@code baton} and the variable {@code BATON} override earlier settings.
   *
   * @return this
   * @throws IllegalArgumentException if one of them is wrong
   */
  public DemultiplexorBuilder fromEnvironment() {
    words.setAll(System.getProperty("baton"), "the property baton");
    words.setAll(System.getenv("BATON"), "the variable BATON");
    return this;
  }

  /**
   * Opens it.
   *
   * @return running
   * @throws IOException if the engine cannot be opened, or refuses the value of a setting of its
   *     own; the message says why
   * @throws IllegalArgumentException if a setting is wrong; the message says where it came from
   */
  public Demultiplexor open() throws IOException {
    EngineChoice choice = new EngineChoice(provider, words);
    Settings settings = words.settings(choice.provider(), threadFactory, exceptionHandler);
    return new Demultiplexor(
        settings, choice.provider(), choice.explanation() + words.explanation());
  }

  private static ThreadFactory laneThreads() {
    AtomicInteger number = new AtomicInteger();
    return lane -> {
      Thread thread = new Thread(lane, "baton-" + number.getAndIncrement());
      thread.setDaemon(false);
      return thread;
    };
  }

  private static void log(Throwable error) {
    System.getLogger("io.baton").log(System.Logger.Level.ERROR, error.toString(), error);
  }
}
